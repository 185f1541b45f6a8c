// A Kv in front of another one. What changes during a move is noted by the keys that transactions
// put and erase.
#include "movable_kv.h"

#include "limits.h"

namespace penstock::kv {
namespace {

using engine::KvMode;

// Notes keys, also of attempts that were repeated: it is no harm to copy one again.
class NotingTransaction final : public engine::KvTransaction {
 public:
  NotingTransaction(engine::KvTransaction& to, std::set<std::string>& keys)
      : to_(to), keys_(keys) {}

  Result<std::optional<std::string>> get(std::string_view key) override { return to_.get(key); }
  Result<Values> get_many(std::span<const std::string> keys) override { return to_.get_many(keys); }
  void put(std::string_view key, std::string_view value) override {
    keys_.emplace(key);
    to_.put(key, value);
  }
  void erase(std::string_view key) override {
    keys_.emplace(key);
    to_.erase(key);
  }
  Status scan(std::string_view begin, std::string_view end, const Visitor& visit) override {
    return to_.scan(begin, end, visit);
  }

 private:
  engine::KvTransaction& to_;
  std::set<std::string>& keys_;
};

class NotingOp final : public engine::KvOp {
 public:
  explicit NotingOp(engine::KvOp& op) : op_(op) {
    mode = op.mode;
    home = op.home;
  }
  Status body(engine::KvTransaction& transaction) override {
    NotingTransaction noting(transaction, keys_);
    return op_.body(noting);
  }
  const std::set<std::string>& keys() const { return keys_; }

 private:
  engine::KvOp& op_;
  std::set<std::string> keys_;
};

}  // namespace

MovableKv::Use::Use(MovableKv& owner, bool writes) : owner_(owner), writes_(writes) {
  std::unique_lock lock(owner_.mutex_);
  if (writes_) owner_.wait_to_write(lock);
  home_ = owner_.home_;
  if (home_ != nullptr) ++home_->uses;
  if (!writes_) return;
  is_noted_ = owner_.is_noting_;
  generation_ = owner_.generation_;
  ++owner_.writers_[generation_];
}

MovableKv::Use::~Use() {
  const std::lock_guard lock(owner_.mutex_);
  if (home_ != nullptr) --home_->uses;
  if (writes_) --owner_.writers_[generation_];
  if (owner_.is_moving_) owner_.changed_.notify_all();
}

MovableKv::MovableKv(std::shared_ptr<engine::Kv> kv, int worker_threads)
    : home_(std::make_shared<Home>(Home{std::move(kv), 0})),
      pool_(std::make_unique<Pool>(worker_threads, [this](engine::KvOp& op) { return run(op); })) {
  ASSERT(home_->kv != nullptr && worker_threads >= 1 && worker_threads <= kWorkerThreadsMax);
}

MovableKv::~MovableKv() {
  pool_->stop();
  ASSERT(!is_moving_ && writers_[0] == 0 && writers_[1] == 0);
}

void MovableKv::submit(engine::KvOp& op) {
  pool_->submit(op);
}

void MovableKv::wait_to_write(std::unique_lock<std::mutex>& lock) {
  const auto may_write = [this] {
    return !is_paused_ && !(is_noting_ && noted_.size() >= kMoveNotedMax);
  };
  if (changed_.wait_for(lock, kMoveWaitMax, may_write)) return;
  if (is_switching_) return changed_.wait(lock, [this] { return !is_paused_; });
  // The mover waits for a database that does not answer. What changes now is noted all the same.
  is_paused_ = false;
  changed_.notify_all();
}

void MovableKv::note(const std::set<std::string>& keys) {
  const std::lock_guard lock(mutex_);
  if (!is_noting_) return;
  noted_.insert(keys.begin(), keys.end());
  if (noted_.size() <= kMoveNotedEnd) return;
  has_too_many_ = true;
  is_noting_ = false;
  noted_.clear();
}

Status MovableKv::run(engine::KvOp& op) {
  const Status status = run_behind(op);
  // A server that is away is no peer of those above, whom programs could be told of.
  return status.code() == Code::peer_gone ? Status(Code::io_error, status.detail()) : status;
}

Status MovableKv::run_behind(engine::KvOp& op) {
  const Use use(*this, op.mode != KvMode::read);
  if (use.kv() == nullptr) return Code::io_error;
  if (!use.is_noted()) return use.kv()->run(op);
  NotingOp noting(op);
  const Status status = use.kv()->run(noting);
  // Whatever became of it: also of one that may have happened. Before whoever asked is answered.
  note(noting.keys());
  return status;
}

Status MovableKv::sync() {
  const Use use(*this, false);
  return use.kv() == nullptr ? Status(Code::io_error) : use.kv()->sync();
}

std::shared_ptr<engine::Kv> MovableKv::behind() const {
  const std::lock_guard lock(mutex_);
  return home_ == nullptr ? nullptr : home_->kv;
}

Outcome<MoveReport> MovableKv::move(const Move& move) {
  ASSERT(move.to != nullptr && move.moved.state == Place::State::moved &&
         move.here.state == Place::State::here && move.moved.to_copy == move.here.copy);
  {
    const std::lock_guard lock(mutex_);
    if (home_ == nullptr) {
      return Failure{Code::io_error, "it is not known where the names are (start the node again)"};
    }
    if (is_moving_) {
      return Failure{Code::busy, "they are being moved already (wait until that has ended)"};
    }
    is_moving_ = true;
  }
  return Mover(*this, move).run();
}

}  // namespace penstock::kv
