#include "transfers.h"

#include "limits.h"
#include "session.h"

#include <sys/prctl.h>

namespace penstock::api {

Transfers::Transfers(Session& session, engine::DeviceMemory& devices)
    : session_(session),
      devices_(devices),
      random_(engine::system_seed()),
      loop_(engine::system_clock(), random_, *this, limits::kTransferSpin) {}

Outcome<std::unique_ptr<Transfers>> Transfers::start(Session& session,
                                                     engine::DeviceMemory& devices) {
  std::unique_ptr<Transfers> transfers(new Transfers(session, devices));
  TRY(transfers->make());
  return transfers;
}

Outcome<void> Transfers::make() {
  TRY_ASSIGN(slots_, session_.make_region(limits::kTransferSlotsBytes));
  const MutableBytes slots(slots_->base, slots_->size);
  TRY(devices_.pin(slots, false));
  pinned_ = true;
  TRY_ASSIGN(Ring * ring, session_.make_ring(limits::kTransferEntries, 1));
  source_ = std::make_unique<RingSource>(loop_, *ring, *slots_);
  mover_ =
      std::make_unique<route::Mover>(loop_, devices_, *source_, route::MoverConfig{.slots = slots});
  loop_.add(*source_);
  loop_.add(*mover_);
  thread_ = std::thread([this] { run(); });
  return {};
}

Transfers::~Transfers() {
  if (thread_.joinable()) {
    {
      std::unique_lock lock(drive_);
      mover_->cancel_all();
      while (!mover_->idle()) loop_.poll();
      loop_.poll();
    }
    loop_.stop();
    thread_.join();
    loop_.remove(*mover_);
    loop_.remove(*source_);
  }
  mover_.reset();
  source_.reset();
  // The ring and the region end with the session, which calls this first.
  if (pinned_) devices_.unpin({slots_->base, slots_->size});
}

void Transfers::run() {
  // Sleeps are as long as a copy takes, not 50 microseconds longer.
  ::prctl(PR_SET_TIMERSLACK, 1000);
  const std::lock_guard lock(drive_);
  loop_.run();
}

// In the loop's own thread, which holds the lock and leaves it to others while it sleeps.
void Transfers::park(engine::Time deadline) {
  if (mover_->copies_in_flight()) {
    deadline = std::min(deadline, loop_.clock().now() + limits::kTransferLook);
  }
  asleep_ = deadline == engine::kNever;
  drive_.unlock();
  source_->sleep(deadline);
  drive_.lock();
  asleep_ = false;
}

void Transfers::unpark() {
  source_->rouse();
}

void Transfers::begin(Transfer& transfer) {
  transfer.completion = [](engine::Op& op) {
    auto& self = static_cast<Transfer&>(op);
    self.ended(self);
  };
  mover_->submit(transfer);
}

void Transfers::submit(Transfer& transfer) {
  transfer.transfers = this;
  const std::unique_lock lock(drive_, std::try_to_lock);
  if (!lock.owns_lock()) {
    // It is its own message to whoever drives.
    transfer.completion = [](engine::Op& op) {
      auto& self = static_cast<Transfer&>(op);
      self.transfers->begin(self);
    };
    return loop_.complete_remote(transfer, Code::ok);
  }
  begin(transfer);
  drive();
}

// With the lock held.
void Transfers::drive() {
  // Each turn may leave work for the next: nothing is left here that only needs a turn.
  while (loop_.poll()) {
  }
  // Ends of host reads wake the thread, ends of copies do not.
  if (asleep_ && mover_->copies_in_flight()) unpark();
}

void Transfers::cancel(Transfer& transfer) {
  const std::lock_guard lock(drive_);
  // It may still be on its way to the mover.
  drive();
  mover_->cancel(transfer);
  drive();
}

void Transfers::help() {
  const std::unique_lock lock(drive_, std::try_to_lock);
  if (lock.owns_lock()) drive();
}

}  // namespace penstock::api
