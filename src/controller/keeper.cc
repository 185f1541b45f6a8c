#include "penstock/controller/keeper.h"

#include <utility>

namespace penstock::controller {
namespace {

Result<std::optional<LeaseRecord>> get_lease(engine::KvTransaction& transaction) {
  TRY_ASSIGN(const std::optional<std::string> bytes, transaction.get(key_of(RecordKind::lease)));
  if (!bytes) return std::optional<LeaseRecord>();
  TRY_ASSIGN(const LeaseRecord lease, decode_lease(*bytes));
  return std::optional<LeaseRecord>(lease);
}

Result<State> scan_state(engine::KvTransaction& transaction) {
  const std::string begin_key(1, kKeyPrefix), end_key(1, kKeyPrefix + 1);
  StateLoader loader;
  Status damage;
  TRY(transaction.scan(begin_key, end_key, [&](std::string_view key, std::string_view bytes) {
    damage = loader.add(key, bytes);
    return damage.ok();
  }));
  if (!damage.ok()) return damage;
  return loader.finish();
}

}  // namespace

Keeper::Keeper(const KeeperConfig& config) : config_(config) {
  ASSERT(config.kv != nullptr && config.clock != nullptr && config.process != Uuid());
}

const State& Keeper::state() const {
  ASSERT(leads_);
  return state_;
}

bool Keeper::may_grant() const {
  return leads_ && config_.clock->lease_now() < granted_until_;
}

// Its holder may not grant any more by any clock: it was seen unchanged for longer than it lasts.
bool Keeper::is_over(const LeaseRecord& other, engine::Time now) const {
  if (other.holder == Uuid() || config_.alone) return true;
  const engine::Duration counted = config_.lease + config_.lease / limits::kLeaseGuardPart;
  return other == seen_ && seen_since_ != kLongAgo && now - counted >= seen_since_;
}

std::optional<LeaseRecord> Keeper::next_lease(const std::optional<LeaseRecord>& found,
                                              engine::Time asked) const {
  if (!found) return LeaseRecord{1, config_.process, 0};
  // Also one that was taken when nobody could tell whether it was.
  if (found->holder == config_.process) {
    return LeaseRecord{found->epoch, config_.process, found->renewals + 1};
  }
  if (is_over(*found, asked)) return LeaseRecord{found->epoch + 1, config_.process, 0};
  return std::nullopt;
}

void Keeper::watch(const LeaseRecord& other) {
  ASSERT(other.holder != config_.process);
  leads_ = false;
  if (other == seen_ && seen_since_ != kLongAgo) return;
  seen_ = other;
  seen_since_ = config_.clock->now();
}

Outcome<void> Keeper::renew() {
  const engine::Time asked = config_.clock->now();
  const engine::Time counted_from = config_.clock->lease_now();
  std::optional<LeaseRecord> found, written;
  const Status status = config_.kv->run(
      engine::KvMode::write_durable, [&](engine::KvTransaction& transaction) -> Status {
        TRY_ASSIGN(found, get_lease(transaction));
        written = next_lease(found, asked);
        if (!written) return Code::ok;
        transaction.put(key_of(RecordKind::lease), encode(*written));
        if (found) return Code::ok;
        const RootRecord root{.cluster = config_.cluster, .version = {}};
        transaction.put(key_of(RecordKind::root), encode(root));
        return Code::ok;
      });
  if (!status.ok()) {
    return Failure{status, "controller: its lease could not be renewed: " +
                               std::string(status.name()) + "; it is tried again"};
  }
  if (!written) {
    watch(*found);
    return {};
  }
  // Another may have led in between, or the state was given up.
  if (written->epoch != lease_.epoch) leads_ = false;
  lease_ = *written;
  granted_until_ = counted_from + config_.lease;
  if (leads_) return {};
  const Status loaded = load();
  if (loaded.ok()) return {};
  return Failure{loaded,
                 "controller: its records could not be read: " + std::string(loaded.name()) +
                     "; if they are damaged, take them from a dump"};
}

// All leases of nodes count as granted now: nobody else can have granted any since the lease is
// this one's.
Status Keeper::load() {
  ASSERT(!leads_);
  Result<State> loaded = Code::corrupt;
  TRY(config_.kv->run(engine::KvMode::read, [&](engine::KvTransaction& transaction) -> Status {
    loaded = scan_state(transaction);
    return loaded ? Code::ok : loaded.error();
  }));
  TRY_ASSIGN(state_, std::move(loaded));
  state_.timing = config_.timing;
  begin(state_, config_.clock->now());
  leads_ = true;
  return Code::ok;
}

Result<Actions> Keeper::handle(const Event& event) {
  ASSERT(leads_);
  Actions actions = step(state_, event, config_.clock->now());
  if (!actions.changes.empty()) {
    Status status = Code::busy;
    for (int i = 0; i < limits::kCommitTries && status == Code::busy; ++i) {
      status = commit(actions.changes);
    }
    if (!status.ok()) {
      leads_ = false;
      return status;
    }
  }
  if (!may_grant()) actions.grants.clear();
  return actions;
}

Status Keeper::commit(const Changes& changes) {
  ASSERT(leads_ && lease_.epoch > 0);
  return config_.kv->run(
      engine::KvMode::write_durable, [&](engine::KvTransaction& transaction) -> Status {
        TRY_ASSIGN(const std::optional<LeaseRecord> lease, get_lease(transaction));
        const bool is_mine =
            lease && lease->holder == config_.process && lease->epoch == lease_.epoch;
        if (!is_mine) return Code::stale;
        return put_records(transaction, changes);
      });
}

Status Keeper::put_records(engine::KvTransaction& transaction, const Changes& changes) const {
  if (changes.root) transaction.put(key_of(RecordKind::root), encode(root_of(state_)));
  const auto put = [&](RecordKind kind, const auto& ids) {
    for (const auto id : ids) transaction.put(key_of(kind, id.value), encode(state_.at(id)));
  };
  put(RecordKind::node, changes.nodes);
  put(RecordKind::target, changes.targets);
  put(RecordKind::table, changes.tables);
  put(RecordKind::chain, changes.chains);
  for (const NodeId id : changes.keys) {
    transaction.put(key_of(RecordKind::key, id.value), encode(state_.at(id).key));
  }
  for (const NodeId id : changes.fences) {
    transaction.put(key_of(RecordKind::fence, id.value), encode(state_.fences.at(id)));
  }
  for (const NodeId id : changes.restrictions) {
    transaction.put(key_of(RecordKind::restriction, id.value), encode(state_.restrictions.at(id)));
  }
  const auto put_or_erase = [&](RecordKind kind, const auto& ids, const auto& records) {
    for (const auto id : ids) {
      const auto found = records.find(id);
      const std::string key = key_of(kind, id.value);
      found == records.end() ? transaction.erase(key) : transaction.put(key, encode(found->second));
    }
  };
  put_or_erase(RecordKind::token, changes.tokens, state_.tokens);
  put_or_erase(RecordKind::signing_key, changes.signing_keys, state_.signing_keys);
  return Code::ok;
}

Status Keeper::close() {
  if (!std::exchange(leads_, false)) return Code::ok;
  granted_until_ = kLongAgo;
  return config_.kv->run(
      engine::KvMode::write_durable, [&](engine::KvTransaction& transaction) -> Status {
        TRY_ASSIGN(const std::optional<LeaseRecord> lease, get_lease(transaction));
        if (!lease || lease->holder != config_.process) return Code::ok;
        const LeaseRecord nobody{lease->epoch, Uuid(), lease->renewals + 1};
        transaction.put(key_of(RecordKind::lease), encode(nobody));
        return Code::ok;
      });
}

}  // namespace penstock::controller
