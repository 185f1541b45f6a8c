#include "penstock/route/transfers.h"

#include "limits.h"

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
  made->mover_ = std::make_unique<Mover>(made->loop_, devices, *made->source_, config);
  made->gatherer_ = std::make_unique<Gatherer>(made->loop_, *made->mover_, *made->source_,
                                               made->mover_->lanes(), config.verify);
  // What one finds to do the next can take up in the same turn; the mover polls the lanes.
  made->loop_.add(*made->source_);
  made->loop_.add(*made->gatherer_);
  made->loop_.add(*made->mover_);
  made->loop_.add(*made);
  made->thread_ = std::thread([&self = *made] { self.loop(); });
  return made;
}

Transfers::~Transfers() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(drive_);
      drive();
      gatherer_->cancel_all();
      mover_->cancel_all();
      while (!mover_->idle() || !gatherer_->idle()) {
        if (!loop_.poll()) std::this_thread::yield();
      }
      drive();
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
  source_.reset();
  if (!slots_.empty()) devices_.unpin(slots_);
}

void Transfers::loop() {
  // Sleeps are as long as a copy takes, not 50 microseconds longer.
  ::prctl(PR_SET_TIMERSLACK, 1000);
  const std::lock_guard lock(drive_);
  loop_.run();
}

bool Transfers::prepare_sleep() {
  return !mover_->copies_in_flight() ||
         mover_->next_look() > loop_.clock().now() + limits::kShortSleep;
}

// In the loop's own thread, which holds the lock and leaves it to others while it sleeps.
void Transfers::park(engine::Time deadline) {
  if (mover_->copies_in_flight()) {
    deadline = std::min(deadline, mover_->next_look() - limits::kShortSleep);
  }
  asleep_ = deadline == engine::kNever;
  drive_.unlock();
  source_->sleep(deadline);
  drive_.lock();
  asleep_ = false;
}

void Transfers::begin(Transfer& transfer) {
  transfer.completion = [](engine::Op& op) {
    auto& self = static_cast<Transfer&>(op);
    self.ended(self);
  };
  mover_->submit(transfer);
}

void Transfers::begin(ListTransfer& transfer) {
  transfer.completion = [](engine::Op& op) {
    auto& self = static_cast<ListTransfer&>(op);
    self.ended(self);
  };
  gatherer_->submit(transfer);
}

// Somebody else drives: the transfer is its own message to whoever takes the next turn.
template <class AnyTransfer>
void Transfers::hand_over(AnyTransfer& transfer) {
  transfer.completion = [](engine::Op& op) {
    auto& self = static_cast<AnyTransfer&>(op);
    self.transfers->begin(self);
  };
  loop_.complete_remote(transfer, Code::ok);
}

void Transfers::submit(ListTransfer& transfer) {
  transfer.transfers = this;
  const std::unique_lock lock(drive_, std::try_to_lock);
  if (!lock.owns_lock()) return hand_over(transfer);
  begin(transfer);
  drive();
  leave();
}

void Transfers::submit(std::span<Transfer* const> transfers) {
  const std::unique_lock lock(drive_, std::try_to_lock);
  for (Transfer* const transfer : transfers) {
    transfer->transfers = this;
    if (lock.owns_lock()) {
      begin(*transfer);
    } else {
      hand_over(*transfer);
    }
  }
  if (!lock.owns_lock()) return;
  drive();
  leave();
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
  const engine::Time patience = loop_.clock().now() + limits::kRunSpin;
  while (!done.load(std::memory_order_acquire)) {
    const bool patient = loop_.clock().now() < patience;
    const std::unique_lock lock(drive_, std::try_to_lock);
    if (lock.owns_lock()) {
      if (!begun) begin(transfer);
      drive();
      // What others have under way goes on without this thread.
      if (done.load(std::memory_order_relaxed) || !patient) leave();
    } else if (!begun) {
      hand_over(transfer);
    }
    begun = true;
    if (!patient && !done.load(std::memory_order_acquire)) break;
    __builtin_ia32_pause();
  }
  done.wait(false, std::memory_order_acquire);
}

// With the lock held. Each turn may leave work for the next: nothing stays here that only needs a
// turn.
void Transfers::drive() {
  while (loop_.poll()) {
  }
}

// With the lock held, before nobody may drive for a while. Ends of host reads wake the thread, ends
// of copies do not.
void Transfers::leave() {
  if (asleep_ && mover_->copies_in_flight()) unpark();
}

void Transfers::cancel(Transfer& transfer) {
  const std::lock_guard lock(drive_);
  // It may still be on its way to the mover.
  drive();
  mover_->cancel(transfer);
  drive();
  leave();
}

void Transfers::cancel(ListTransfer& transfer) {
  const std::lock_guard lock(drive_);
  drive();
  gatherer_->cancel(transfer);
  drive();
  leave();
}

void Transfers::help() {
  const std::unique_lock lock(drive_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  drive();
  leave();
}

}  // namespace penstock::route
