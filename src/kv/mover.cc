// A move: copy everything, then what changed meanwhile, again and again, then hold changes back for
// a moment and switch. Why each step is right: docs/decisions/0064-where-names-live.md.
#include "limits.h"
#include "movable_kv.h"

#include <thread>

namespace penstock::kv {
namespace {

using engine::KvMode;
using engine::KvTransaction;

engine::Time moment() {
  return engine::system_clock().now();
}

Failure cannot(Status status, const char* what) {
  return {status, fmt::format("{}: {}", what, status.name())};
}

constexpr const char* kReading = "what is to be moved cannot be read";
constexpr const char* kWriting = "the new place cannot be written";

}  // namespace

MovableKv::Mover::Mover(MovableKv& owner, const Move& move) : owner_(owner), move_(move) {
  const std::lock_guard lock(owner_.mutex_);
  from_ = owner_.home_;
  ASSERT(from_ != nullptr && from_->kv != move_.to && owner_.is_moving_);
}

Outcome<MoveReport> MovableKv::Mover::run() {
  begin_noting();
  Outcome<void> done = copy_all();
  while (done && !is_switched_) {
    done = catch_up();
    if (done) done = try_switch();
  }
  end();
  if (!done) return done.error();
  return report_;
}

void MovableKv::Mover::begin_noting() {
  std::unique_lock lock(owner_.mutex_);
  owner_.is_noting_ = true;
  owner_.has_too_many_ = false;
  const unsigned before = std::exchange(owner_.generation_, owner_.generation_ ^ 1);
  // What these change is not noted, so it must be there before anything is read.
  owner_.changed_.wait(lock, [&] { return owner_.writers_[before] == 0; });
}

void MovableKv::Mover::end() {
  std::unique_lock lock(owner_.mutex_);
  ASSERT(!owner_.is_paused_);
  owner_.is_noting_ = false;
  owner_.noted_.clear();
  owner_.changed_.notify_all();
  // Who reads from the old one began before the switch.
  if (is_switched_) owner_.changed_.wait(lock, [&] { return from_->uses == 0; });
  owner_.is_moving_ = false;
}

Result<bool> MovableKv::Mover::read_records(std::string& at, Records& records) const {
  bool has_more = false;
  std::string next;
  TRY(from_->kv->run(KvMode::read, [&](KvTransaction& transaction) -> Status {
    records.clear();
    has_more = false;
    size_t bytes = 0;
    return transaction.scan(at, {}, [&](std::string_view key, std::string_view value) {
      if (records.size() >= kMoveRecords || bytes >= kMoveBytes) {
        has_more = true;
        next = key;
        return false;
      }
      if (is_own(key)) return true;
      bytes += key.size() + value.size();
      records.emplace_back(key, value);
      return true;
    });
  }));
  if (has_more) at = std::move(next);
  return has_more;
}

Status MovableKv::Mover::put(const Records& records, const std::vector<std::string>& erased) {
  if (records.empty() && erased.empty()) return {};
  Status status = Code::may_have_happened;
  // Nobody else writes there, and it says the same: a commit that is unknown is made again.
  for (int i = 0; i < kMoveAttempts && status.code() == Code::may_have_happened; ++i) {
    status = move_.to->run(KvMode::write, [&](KvTransaction& transaction) -> Status {
      for (const auto& [key, value] : records) transaction.put(key, value);
      for (const std::string& key : erased) transaction.erase(key);
      return {};
    });
  }
  TRY(status);
  for (const auto& [key, value] : records) report_.bytes += key.size() + value.size();
  report_.records += records.size();
  return {};
}

Outcome<void> MovableKv::Mover::copy_all() {
  std::string at;
  Records records;
  for (bool has_more = true; has_more;) {
    const Result<bool> read = read_records(at, records);
    if (!read) return cannot(read.error(), kReading);
    has_more = *read;
    if (const Status written = put(records, {}); !written.ok()) return cannot(written, kWriting);
    size_t noted = 0;
    {
      // What changed behind this place before now is read later.
      const std::lock_guard lock(owner_.mutex_);
      if (has_more) owner_.noted_.erase(owner_.noted_.lower_bound(at), owner_.noted_.end());
      noted = owner_.noted_.size();
      owner_.changed_.notify_all();
    }
    TRY(may_go_on());
    if (noted < kMoveNotedSome) continue;
    std::set<std::string> keys = take_noted();
    const Status copied = copy_keys(keys, engine::kNever);
    if (!copied.ok()) return cannot(copied, "what changed meanwhile cannot be copied");
    ++report_.rounds;
  }
  return {};
}

std::set<std::string> MovableKv::Mover::take_noted() {
  const std::lock_guard lock(owner_.mutex_);
  owner_.changed_.notify_all();
  return std::exchange(owner_.noted_, {});
}

void MovableKv::Mover::give_back(std::set<std::string> keys) {
  const std::lock_guard lock(owner_.mutex_);
  owner_.noted_.merge(keys);
}

Status MovableKv::Mover::copy_keys(std::set<std::string>& keys, engine::Time deadline) {
  while (!keys.empty() && moment() < deadline) {
    std::vector<std::string> some;
    for (auto at = keys.begin(); at != keys.end() && some.size() < kMoveKeys; ++at) {
      if (!is_own(*at)) some.push_back(*at);
    }
    KvTransaction::Values values;
    TRY(from_->kv->run(KvMode::read, [&](KvTransaction& transaction) -> Status {
      TRY_ASSIGN(values, transaction.get_many(some));
      return {};
    }));
    ASSERT(values.size() == some.size());
    Records records;
    std::vector<std::string> erased;
    for (size_t i = 0; i < some.size(); ++i) {
      if (values[i]) {
        records.emplace_back(some[i], std::move(*values[i]));
      } else {
        erased.push_back(some[i]);
      }
    }
    TRY(put(records, erased));
    for (const std::string& key : some) keys.erase(key);
    keys.erase(std::string(kPlaceKey));
    keys.erase(move_.last_key);
  }
  return {};
}

Status MovableKv::Mover::copy_last_key() {
  if (move_.last_key.empty()) return {};
  std::optional<std::string> value;
  TRY(from_->kv->run(KvMode::read, [&](KvTransaction& transaction) -> Status {
    TRY_ASSIGN(value, transaction.get(move_.last_key));
    return {};
  }));
  return value ? put({{move_.last_key, *value}}, {}) : Status();
}

Outcome<void> MovableKv::Mover::catch_up() {
  while (true) {
    {
      const std::lock_guard lock(owner_.mutex_);
      if (owner_.noted_.size() <= kMoveNotedFew) return {};
    }
    std::set<std::string> keys = take_noted();
    const Status copied = copy_keys(keys, engine::kNever);
    if (!copied.ok()) return cannot(copied, "what changed meanwhile cannot be copied");
    if (++report_.rounds > kMoveRoundsMax) {
      return Failure{Code::busy,
                     "names change faster than they can be copied (try again when "
                     "less is made and removed)"};
    }
    TRY(may_go_on());
  }
}

Outcome<void> MovableKv::Mover::may_go_on() const {
  {
    const std::lock_guard lock(owner_.mutex_);
    if (owner_.has_too_many_) {
      return Failure{Code::busy,
                     "the new place was away for too long, while names changed (try again when it "
                     "is there)"};
    }
  }
  if (move_.progress == nullptr || move_.progress(progress())) return {};
  return Failure{Code::cancelled, "given up"};
}

bool MovableKv::Mover::pause(engine::Time deadline) {
  std::unique_lock lock(owner_.mutex_);
  owner_.is_paused_ = true;
  return owner_.changed_.wait_for(lock, std::max(deadline - moment(), engine::Duration::zero()),
                                  [this] { return owner_.writers_[0] + owner_.writers_[1] == 0; });
}

bool MovableKv::Mover::begin_switching() {
  const std::lock_guard lock(owner_.mutex_);
  if (!owner_.is_paused_ || !owner_.is_noting_) return false;
  // Since the pause is whole, nothing has changed since it began.
  ASSERT(owner_.noted_.empty() && owner_.writers_[0] + owner_.writers_[1] == 0);
  owner_.is_switching_ = true;
  return true;
}

void MovableKv::Mover::resume() {
  const std::lock_guard lock(owner_.mutex_);
  owner_.is_paused_ = false;
  owner_.changed_.notify_all();
}

Outcome<void> MovableKv::Mover::try_switch() {
  TRY(may_go_on());
  if (report_.pauses == kMovePausesMax) {
    return Failure{Code::busy,
                   fmt::format("changes were held back {} times, and the rest could not "
                               "be copied in {} ms",
                               report_.pauses, kMovePauseTime.count())};
  }
  // Who was held back goes on for a while before that comes again.
  if (report_.pauses++ > 0) std::this_thread::sleep_for(kMoveBetweenPauses);
  const engine::Time begun = moment();
  const engine::Time deadline = begun + engine::Duration(kMovePauseTime);
  std::set<std::string> keys;
  Status status;
  bool is_ready = pause(deadline);
  if (is_ready) {
    keys = take_noted();
    status = copy_keys(keys, deadline);
    is_ready = status.ok() && keys.empty();
    give_back(std::move(keys));
  }
  if (is_ready) status = copy_last_key();
  if (is_ready && status.ok()) status = move_.to->sync();
  if (!status.ok() || !is_ready || moment() >= deadline || !begin_switching()) {
    resume();
    return status.ok() ? Outcome<void>() : cannot(status, "the rest cannot be copied");
  }
  Outcome<void> switched = switch_over();
  report_.pause = moment() - begun;
  return switched;
}

Outcome<void> MovableKv::Mover::mark_old() {
  const engine::Time deadline = moment() + move_.patience;
  bool may_have_happened = false;
  while (true) {
    const Status status =
        from_->kv->run(KvMode::write_durable, [&](KvTransaction& transaction) -> Status {
          transaction.put(kPlaceKey, encode(move_.moved));
          if (!move_.last_key.empty()) transaction.erase(move_.last_key);
          return {};
        });
    if (status.ok()) return {};
    may_have_happened = may_have_happened || status.code() == Code::may_have_happened;
    if (!may_have_happened) return cannot(status, "the switch cannot be recorded");
    if (moment() >= deadline) {
      return Failure{Code::may_have_happened,
                     "it is not known whether the switch was recorded (start the node again: it "
                     "finds out)"};
    }
    std::this_thread::sleep_for(kMoveSwitchPause);
  }
}

Outcome<void> MovableKv::Mover::switch_over() {
  const Outcome<void> marked = mark_old();
  {
    const std::lock_guard lock(owner_.mutex_);
    ASSERT(owner_.is_paused_ && owner_.home_ == from_);
    owner_.is_paused_ = owner_.is_switching_ = false;
    if (marked) {
      owner_.home_ = std::make_shared<Home>(Home{move_.to, 0});
      owner_.is_noting_ = false;
      is_switched_ = true;
    } else if (marked.error().status.code() == Code::may_have_happened) {
      owner_.home_ = nullptr;
    }
    owner_.changed_.notify_all();
  }
  if (!marked) return marked.error();
  // Nothing depends on it but how much the next start has to find out.
  if (const Status here = set_place(*move_.to, move_.here); !here.ok()) {
    log::warning("the new place of the names was not marked: {} (the next start does it)",
                 here.name());
  }
  return {};
}

}  // namespace penstock::kv
