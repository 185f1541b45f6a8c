#include <algorithm>
#include <optional>

#include "penstock/sim.h"

namespace penstock::sim {

using engine::KvMode;
using engine::KvOp;

// One attempt: reads go to the image at once and are checked again at the commit.
class SimKvTransaction final : public engine::KvTransaction {
 public:
  SimKvTransaction(SimKvImage& image, bool may_write) : image_(image), may_write_(may_write) {}

  Result<std::optional<std::string>> get(std::string_view key) override {
    TRY(injected_error());
    if (const auto own = writes_.find(key); own != writes_.end()) return own->second;
    const auto found = image_.map_.find(key);
    const bool exists = found != image_.map_.end();
    note_read(key, exists ? found->second.version : 0);
    if (!exists) return std::optional<std::string>();
    return std::optional<std::string>(found->second.bytes);
  }

  void put(std::string_view key, std::string_view value) override {
    ASSERT(may_write_);
    writes_.insert_or_assign(std::string(key), std::string(value));
  }

  void erase(std::string_view key) override {
    ASSERT(may_write_);
    writes_.insert_or_assign(std::string(key), std::nullopt);
  }

  Status scan(std::string_view begin, std::string_view end, const Visitor& visit) override {
    TRY(injected_error());
    const auto inside = [&](const std::string& key) { return end.empty() || key < end; };
    std::string next(begin);
    while (true) {
      auto theirs = image_.map_.lower_bound(next);
      auto ours = writes_.lower_bound(next);
      const bool has_theirs = theirs != image_.map_.end() && inside(theirs->first);
      const bool has_ours = ours != writes_.end() && inside(ours->first);
      if (!has_theirs && !has_ours) return Code::ok;
      const bool use_ours = has_ours && (!has_theirs || ours->first <= theirs->first);
      const std::string key = use_ours ? ours->first : theirs->first;
      std::optional<std::string> value;
      if (use_ours) {
        value = ours->second;
      } else {
        value = theirs->second.bytes;
        note_read(key, theirs->second.version);
      }
      if (value && !visit(key, *value)) return Code::ok;
      next = key + '\0';
    }
  }

  bool still_valid() const {
    for (const auto& [key, version] : reads_) {
      const auto found = image_.map_.find(key);
      if ((found == image_.map_.end() ? 0 : found->second.version) != version) return false;
    }
    return true;
  }

  SimKvImage::Writes& writes() { return writes_; }

 private:
  Status injected_error() {
    if (image_.world().chance(image_.faults.read_error_permille)) return Code::io_error;
    return Code::ok;
  }
  void note_read(std::string_view key, uint64_t version) { reads_.emplace(key, version); }

  SimKvImage& image_;
  const bool may_write_;
  std::map<std::string, uint64_t, std::less<>> reads_;
  SimKvImage::Writes writes_;
};

SimKvImage::~SimKvImage() {
  ASSERT(instances_.empty());
}

void SimKvImage::commit(Writes& writes, bool durable) {
  ++commits_;
  auto& undo = undo_.emplace_back();
  uint64_t hash = 0;
  for (auto& [key, value] : writes) {
    const auto found = map_.find(key);
    undo.emplace_back(key,
                      found == map_.end() ? std::nullopt : std::optional<Value>(found->second));
    hash = hash * 31 + key.size() + (value ? value->size() + 1 : 0);
    if (value) {
      map_.insert_or_assign(key, Value{std::move(*value), commits_});
    } else if (found != map_.end()) {
      map_.erase(found);
    }
  }
  if (durable) undo_.clear();
  world_.trace("kv.commit", commits_, hash);
}

void SimKvImage::power_cut() {
  end_instances();
  const uint64_t lost = world_.random().below(undo_.size() + 1);
  for (uint64_t i = 0; i < lost; ++i) {
    for (auto& [key, value] : undo_.back()) {
      if (value) {
        map_.insert_or_assign(key, std::move(*value));
      } else {
        map_.erase(key);
      }
    }
    undo_.pop_back();
  }
  // What is found after the cut is on the disk.
  undo_.clear();
  world_.trace("kv.power_cut", lost);
}

void SimKvImage::kill() {
  end_instances();
  world_.trace("kv.kill");
}

void SimKvImage::end_instances() {
  for (SimKv* instance : instances_) instance->become_ghost();
}

std::map<std::string, std::string> SimKvImage::content() const {
  std::map<std::string, std::string> copy;
  for (const auto& [key, value] : map_) copy.emplace(key, value.bytes);
  return copy;
}

struct SimKv::InFlight {
  SimWorld::EventId event = 0;
  int attempts = 0;
  std::unique_ptr<SimKvTransaction> transaction;
};

SimKv::SimKv(SimKvImage& image) : image_(image) {
  image_.instances_.push_back(this);
}

SimKv::~SimKv() {
  ASSERT(order_.empty() && pausing_ == 0);
  std::erase(image_.instances_, this);
}

void SimKv::submit(KvOp& op) {
  ASSERT(op.home != nullptr);
  if (ghost_) {
    op.home->complete(op, Code::closed);
    return;
  }
  order_.push_back(op);
  in_flight_.emplace(&op, std::make_unique<InFlight>());
  later(op, "kv.body", &SimKv::run_body);
}

void SimKv::later(KvOp& op, std::string_view label, void (SimKv::*step)(KvOp&)) {
  SimWorld& world = image_.world();
  const Duration delay = world.between(image_.faults.delay_min, image_.faults.delay_max);
  in_flight_.at(&op)->event = world.after(delay, label, [this, &op, step] { (this->*step)(op); });
}

void SimKv::run_body(KvOp& op) {
  InFlight& state = *in_flight_.at(&op);
  state.transaction = std::make_unique<SimKvTransaction>(image_, op.mode != KvMode::read);
  const Status status = op.body(*state.transaction);
  if (!status.ok() || op.mode == KvMode::read) {
    op.status = status;
    later(op, "kv.done", &SimKv::finish);
    return;
  }
  later(op, "kv.try_commit", &SimKv::try_commit);
}

void SimKv::try_commit(KvOp& op) {
  InFlight& state = *in_flight_.at(&op);
  const std::optional<Status> result = attempt_commit(op, *state.transaction);
  if (result) {
    op.status = *result;
  } else if (++state.attempts < engine::kKvAttemptsMax) {
    later(op, "kv.body", &SimKv::run_body);
    return;
  } else {
    op.status = Code::busy;
  }
  later(op, "kv.done", &SimKv::finish);
}

// The end of the transaction, or nothing when the body must run again.
std::optional<Status> SimKv::attempt_commit(KvOp& op, SimKvTransaction& transaction) {
  SimWorld& world = image_.world();
  const SimKvFaults& faults = image_.faults;
  if (!transaction.still_valid() || world.chance(faults.conflict_permille)) return std::nullopt;
  const bool unknown = world.chance(faults.unknown_commit_permille);
  const bool unresolved = world.chance(faults.unresolved_commit_permille);
  const bool happens = !(unknown || unresolved) || world.chance(500);
  if (happens) image_.commit(transaction.writes(), op.mode == KvMode::write_durable);
  if (unresolved) return Status(Code::may_have_happened);
  if (!happens) return std::nullopt;
  return Status(Code::ok);
}

void SimKv::finish(KvOp& op) {
  in_flight_.erase(&op);
  op.unlink();
  op.home->complete(op, op.status);
}

Status SimKv::pause(const char* what) {
  if (ghost_) return Code::closed;
  SimWorld& world = image_.world();
  const Duration delay = world.between(image_.faults.delay_min, image_.faults.delay_max);
  ++pausing_;
  engine::Threads::simulated()->wait({.address = this, .what = what}, delay);
  --pausing_;
  return ghost_ ? Code::closed : Code::ok;
}

Status SimKv::run(KvOp& op) {
  for (int attempt = 0; attempt < engine::kKvAttemptsMax; ++attempt) {
    TRY(pause("a transaction's turn"));
    SimKvTransaction transaction(image_, op.mode != KvMode::read);
    TRY(op.body(transaction));
    if (op.mode == KvMode::read) {
      // The body may have given way to other threads: what they committed meanwhile is not in a
      // snapshot.
      if (!transaction.still_valid()) continue;
      return pause("the end of a transaction");
    }
    TRY(pause("a commit"));
    if (const std::optional<Status> result = attempt_commit(op, transaction)) {
      TRY(pause("the end of a transaction"));
      return *result;
    }
  }
  return Code::busy;
}

Status SimKv::sync() {
  TRY(pause("a sync of the database"));
  image_.undo_.clear();
  return Code::ok;
}

void SimKv::become_ghost() {
  ghost_ = true;
  if (pausing_ > 0) engine::Threads::simulated()->wake_all(this);
  while (KvOp* op = order_.pop_front()) {
    image_.world().cancel(in_flight_.at(op)->event);
    in_flight_.erase(op);
    op->home->complete(*op, Code::closed);
  }
}

}  // namespace penstock::sim
