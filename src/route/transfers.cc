#include "penstock/route/transfers.h"

#include "limits.h"

#include <algorithm>
#include <atomic>
#include <sys/prctl.h>

namespace penstock::route {

Transfers::Transfers(engine::DeviceMemory& devices)
    : devices_(devices),
      random_(engine::system_seed()),
      loop_(engine::system_clock(), random_, *this, limits::kTransferSpin) {}

Outcome<std::unique_ptr<Transfers>> Transfers::start(engine::DeviceMemory& devices,
                                                     const MakeSource& make_source,
                                                     MoverConfig config) {
  std::unique_ptr<Transfers> made(new Transfers(devices));
  TRY(devices.pin(config.slots, false));
  made->slots_ = config.slots;
  made->source_ = make_source(made->loop_);
  ASSERT(made->source_ != nullptr);
  made->mover_ = std::make_unique<Mover>(made->loop_, devices, *made->source_, config);
  made->gatherer_ = std::make_unique<Gatherer>(made->loop_, *made->mover_, *made->source_,
                                               made->mover_->lanes(), config.verify);
  // What one finds to do the next can take up in the same turn; the mover polls the lanes.
  made->loop_.add(*made->source_);
  made->loop_.add(*made->gatherer_);
  made->loop_.add(*made->mover_);
  made->loop_.add(*made);
  TRY_ASSIGN(made->thread_,
             start_thread("the thread of transfers", [&self = *made] { self.loop(); }));
  return made;
}

Transfers::~Transfers() {
  if (thread_.joinable()) {
    {
      DriveLock lock(*this);
      lock.lock();
      // What was handed over is begun.
      loop_.poll();
      gatherer_->cancel_all();
      mover_->cancel_all();
      while (!mover_->idle() || !gatherer_->idle() || mover_->copies_in_flight()) {
        if (!loop_.poll()) std::this_thread::yield();
      }
      while (loop_.poll()) {
      }
    }
    loop_.stop();
    thread_.join();
    loop_.remove(*this);
    loop_.remove(*mover_);
    loop_.remove(*gatherer_);
    loop_.remove(*source_);
  }
  gatherer_.reset();
  mover_.reset();
  // Its threads may still be about to rouse it.
  if (source_ != nullptr) source_->close();
  source_.reset();
  if (!slots_.empty()) devices_.unpin(slots_);
}

bool Transfers::DriveLock::try_lock() {
  ASSERT(!held_);
  if (transfers_.driven_.load(std::memory_order_relaxed) || !transfers_.drive_.try_lock()) {
    return false;
  }
  transfers_.driven_.store(true, std::memory_order_relaxed);
  return held_ = true;
}

void Transfers::DriveLock::lock() {
  ASSERT(!held_);
  // Relaxed: if the transfers' thread sees it late it makes way a turn later.
  transfers_.waiters_.fetch_add(1, std::memory_order_relaxed);
  transfers_.drive_.lock();
  transfers_.waiters_.fetch_sub(1, std::memory_order_relaxed);
  transfers_.driven_.store(true, std::memory_order_relaxed);
  held_ = true;
}

void Transfers::DriveLock::unlock() {
  if (!held_) return;
  held_ = false;
  transfers_.driven_.store(false, std::memory_order_relaxed);
  transfers_.drive_.unlock();
}

void Transfers::loop() {
  // Sleeps are as long as a copy takes, not 50 microseconds longer.
  ::prctl(PR_SET_TIMERSLACK, 1000);
  own_drive_.lock();
  loop_.run();
  own_drive_.unlock();
}

// When the transfers' thread gets up for the copies under way: some time after the next has ended
// where others keep the device busy meanwhile, else in time to see its end. For one that is late it
// polls for a while, and then looks now and then.
engine::Time Transfers::rising_time(engine::Time now) const {
  const engine::Time first = mover_->next_look();
  const engine::Duration spare = mover_->latest_look() - first;
  const engine::Time rise = spare < 2 * limits::kShortSleep
                                ? first - limits::kShortSleep
                                : first + std::min<engine::Duration>(spare / 2, limits::kLateLook);
  if (now < std::max(rise, first) + limits::kShortSleep) return rise;
  return now + std::clamp<engine::Duration>((now - first) / limits::kLateShare,
                                            limits::kLateStepMin, limits::kLateStepMax);
}

// When an operation is to be ended that may end by nothing else.
engine::Time Transfers::next_deadline() const {
  return std::min(mover_->next_deadline(), gatherer_->next_deadline());
}

// Whether a waiting thread does all there is to do.
bool Transfers::stands_by() const {
  const int64_t helped = helped_.load(std::memory_order_relaxed);
  const engine::Time until = engine::Time(engine::Duration(helped)) + limits::kStandBy;
  return helped != 0 && loop_.clock().now() < until;
}

bool Transfers::prepare_sleep() {
  if (!mover_->copies_in_flight()) return true;
  const engine::Time now = loop_.clock().now();
  return rising_time(now) > now;
}

// The transfers' thread makes way for threads that wait for the lock, as it may have work without
// end.
bool Transfers::poll() {
  if (!own_drive_.held() || waiters_.load(std::memory_order_relaxed) == 0) return false;
  own_drive_.unlock();
  const engine::Time until = loop_.clock().now() + limits::kMakeWay;
  while (waiters_.load(std::memory_order_relaxed) > 0 && loop_.clock().now() < until) {
    std::this_thread::yield();
  }
  own_drive_.lock();
  return false;
}

// In the loop's own thread, which holds the lock and leaves it to others while it sleeps.
void Transfers::park(engine::Time deadline) {
  ASSERT(own_drive_.held());
  const bool copying = mover_->copies_in_flight();
  if (copying) deadline = std::min(deadline, rising_time(loop_.clock().now()));
  asleep_ = !copying;
  const engine::Time gets_up = std::min(deadline, next_deadline());
  gets_up_ = gets_up;
  own_drive_.unlock();
  source_->sleep(gets_up);
  while (stands_by()) source_->sleep(loop_.clock().now() + limits::kStandBy);
  own_drive_.lock();
  asleep_ = false;
  gets_up_ = {};
}

void Transfers::begin(Transfer& transfer) {
  ASSERT(transfer.ended != nullptr && transfer.transfers == this);
  transfer.completion = [](engine::Op& op) {
    auto& self = static_cast<Transfer&>(op);
    self.ended(self);
  };
  mover_->submit(transfer);
}

void Transfers::begin(ListTransfer& transfer) {
  ASSERT(transfer.ended != nullptr && transfer.transfers == this);
  transfer.completion = [](engine::Op& op) {
    auto& self = static_cast<ListTransfer&>(op);
    self.ended(self);
  };
  gatherer_->submit(transfer);
}

bool Transfers::is_allocated(const engine::DeviceSpan& span) const {
  const Result<engine::DeviceSpan> found = devices_.find(span.data, span.length);
  return found && found->device == span.device && found->allocation == span.allocation;
}

void Transfers::begin(PeerTransfer& transfer) {
  DASSERT(transfer.from.length == transfer.to.length);
  transfer.completion = [](engine::Op& op) {
    auto& self = static_cast<PeerTransfer&>(op);
    // peer_gone would mean an agent or a server to the caller.
    if (self.status == Code::peer_gone) self.status = {Code::io_error, self.status.detail()};
    self.ended(self);
  };
  // The copy lanes check the memory of one side only.
  if (!is_allocated(transfer.from) || !is_allocated(transfer.to)) {
    return loop_.complete(transfer, Code::invalid_argument);
  }
  transfer.device = transfer.to.device;
  transfer.direction = engine::CopyDirection::device_to_device;
  transfer.means = engine::CopyMeans::copy_engine;
  transfer.piece = {
      .source = transfer.from.data, .destination = transfer.to.data, .length = transfer.to.length};
  transfer.pieces = {&transfer.piece, 1};
  transfer.allocation = transfer.to.allocation;
  mover_->lanes().submit(transfer);
}

// Another thread drives: the transfer itself is put into the loop, and begun in the loop's next
// turn.
template <class AnyTransfer>
void Transfers::hand_over(AnyTransfer& transfer) {
  transfer.completion = [](engine::Op& op) {
    auto& self = static_cast<AnyTransfer&>(op);
    self.transfers->begin(self);
  };
  loop_.complete_remote(transfer, Code::ok);
}

void Transfers::learn_costs(engine::DeviceId device) {
  const uint64_t bit = uint64_t{1} << device.value % engine::kDevicesMax;
  // Relaxed: a thread that comes second goes on with the assumed costs.
  if ((learnt_.load(std::memory_order_relaxed) & bit) != 0) return;
  if ((learnt_.fetch_or(bit, std::memory_order_relaxed) & bit) != 0) return;
  const engine::CopyCosts costs = devices_.costs(device);
  DriveLock lock(*this);
  lock.lock();
  mover_->set_costs(device, costs);
}

template <class AnyTransfer>
void Transfers::submit_one(AnyTransfer& transfer) {
  transfer.transfers = this;
  DriveLock lock(*this);
  if (!lock.try_lock()) return hand_over(transfer);
  begin(transfer);
  leave(drive());
}

void Transfers::submit(ListTransfer& transfer) {
  submit_one(transfer);
}

void Transfers::submit(PeerTransfer& transfer) {
  submit_one(transfer);
}

template <class AnyTransfer>
void Transfers::post_one(AnyTransfer& transfer) {
  transfer.transfers = this;
  hand_over(transfer);
}

void Transfers::post(Transfer& transfer) {
  post_one(transfer);
}

void Transfers::post(ListTransfer& transfer) {
  post_one(transfer);
}

void Transfers::post(PeerTransfer& transfer) {
  post_one(transfer);
}

void Transfers::submit(std::span<Transfer* const> transfers) {
  DriveLock lock(*this);
  lock.try_lock();
  for (Transfer* const transfer : transfers) {
    transfer->transfers = this;
    if (lock.held()) {
      begin(*transfer);
    } else {
      hand_over(*transfer);
    }
  }
  if (lock.held()) leave(drive());
}

void Transfers::run(engine::CopyOp& copy) {
  bool done = false;  // for the thread that holds the lock
  copy.owner = &done;
  copy.completion = [](engine::Op& ended) { ended.owner_as<bool>() = true; };
  for (bool begun = false;; begun = true) {
    {
      DriveLock lock(*this);
      lock.lock();
      if (!begun) mover_->lanes().submit(copy);
      const bool quiet = drive();
      if (done) return leave(quiet);
    }
    std::this_thread::yield();
  }
}

void Transfers::run(Transfer& transfer) {
  std::atomic<bool> done{false};
  transfer.transfers = this;
  transfer.owner = &done;
  transfer.ended = [](Transfer& ended) {
    auto& flag = ended.owner_as<std::atomic<bool>>();
    // Release pairs with the acquire below. The waiter may be gone from here on, and waking needs
    // no more than the address.
    flag.store(true, std::memory_order_release);
    flag.notify_one();
  };
  bool begun = false;
  const engine::Time began = loop_.clock().now();
  while (!done.load(std::memory_order_acquire)) {
    const engine::Duration spin =
        copying_.load(std::memory_order_relaxed) ? limits::kCopySpin : limits::kRunSpin;
    const bool patient = loop_.clock().now() < began + spin;
    DriveLock lock(*this);
    if (lock.try_lock()) {
      if (!begun) begin(transfer);
      drive_until(done);
      note_help();
      // Operations of other threads go on without this one.
      if (done.load(std::memory_order_relaxed) || !patient) leave(drive());
    } else if (!begun) {
      hand_over(transfer);
    }
    begun = true;
    if (!patient && !done.load(std::memory_order_acquire)) {
      leave_alone();
      break;
    }
    __builtin_ia32_pause();
  }
  done.wait(false, std::memory_order_acquire);
}

// With the lock held: turns of the loop until one finds nothing to do, or there were too many.
// False when work is left.
bool Transfers::drive() {
  for (uint32_t i = 0; i < limits::kPollsForOthers; ++i) {
    if (!loop_.poll()) return true;
  }
  return false;
}

// The same for a thread that is not to be kept by the operations of others.
void Transfers::drive_until(const std::atomic<bool>& done) {
  while (loop_.poll() && !done.load(std::memory_order_relaxed)) {
  }
}

// With the lock held, when this thread stops driving: the transfers' thread is woken for what is
// left. Unless it is `quiet` there is work now. Ends of host reads wake that thread, ends of copies
// and deadlines do not: it must be told of those that come before it gets up.
void Transfers::leave(bool quiet) {
  const bool unseen = asleep_ && mover_->copies_in_flight();
  if (quiet && !unseen && next_deadline() >= gets_up_) return;
  asleep_ = false;
  gets_up_ = {};
  unpark();
}

void Transfers::cancel(Transfer& transfer) {
  DriveLock lock(*this);
  lock.lock();
  // It may still be on its way to the mover.
  loop_.poll();
  mover_->cancel(transfer);
  leave(drive());
}

void Transfers::cancel(ListTransfer& transfer) {
  DriveLock lock(*this);
  lock.lock();
  loop_.poll();
  gatherer_->cancel(transfer);
  leave(drive());
}

void Transfers::help() {
  DriveLock lock(*this);
  if (!lock.try_lock()) return;
  // It calls again.
  (void)drive();
  note_help();
}

void Transfers::note_help() {
  helped_.store(loop_.now().time_since_epoch().count(), std::memory_order_relaxed);
  copying_.store(mover_->copies_in_flight(), std::memory_order_relaxed);
}

void Transfers::leave_alone() {
  helped_.store(0, std::memory_order_relaxed);
  unpark();
}

}  // namespace penstock::route
