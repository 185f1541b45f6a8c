#include "small_reads.h"

#include "limits.h"

namespace penstock::cufile {

namespace {

engine::Time now() {
  return engine::system_clock().now();
}

}  // namespace

// Two threads share a desk only when there are more of them than desks; then one of them goes the
// other way.
SmallReads::Desk* SmallReads::take_desk() {
  static std::atomic<size_t> threads{0};
  static thread_local const size_t number = threads.fetch_add(1, std::memory_order_relaxed);
  Desk& desk = desks_[number % kDesks];
  // Acquire pairs with leave().
  return desk.taken.exchange(true, std::memory_order_acquire) ? nullptr : &desk;
}

bool SmallReads::takes_mover(const Operation& operation) {
  // Relaxed: it only says who of many goes which way.
  return operation.memory.length > limits::kMailboxBestBytes &&
         !mover_taken_.load(std::memory_order_relaxed) &&
         !mover_taken_.exchange(true, std::memory_order_relaxed);
}

void SmallReads::note_begin(Desk& desk) {
  const bool is_close = now() - desk.last_end < limits::kSmallReadGap;
  desk.streak = is_close ? desk.streak + 1 : 0;
}

void SmallReads::leave(Desk& desk) {
  desk.last_end = now();
  desk.taken.store(false, std::memory_order_release);
}

engine::CopyMailbox* SmallReads::mailbox_of(Desk& desk, engine::DeviceId device) {
  desk.mailboxes.resize(devices_.devices().size());
  std::unique_ptr<engine::CopyMailbox>& mailbox = desk.mailboxes[device.value];
  if (mailbox != nullptr) return mailbox.get();
  Outcome<std::unique_ptr<engine::CopyMailbox>> made = devices_.make_mailbox(device);
  if (made) {
    mailbox = std::move(*made);
  } else {
    desk.not_before = now() + limits::kNoMailboxPause;
  }
  return mailbox.get();
}

// False: the operation is as it was before.
bool SmallReads::read(Desk& desk, Operation& operation) {
  if (desk.streak < limits::kSmallReadStreak || desk.last_end < desk.not_before) return false;
  engine::DeviceSpan to = operation.memory.device;
  engine::CopyMailbox* const mailbox = mailbox_of(desk, to.device);
  if (mailbox == nullptr) return false;
  const MutableBytes space = mailbox->space_for(to);
  route::HostIo io;
  io.file = operation.file->id;
  io.offset = operation.offset;
  io.memory = {space.data(), space.size()};
  if (!source_.read_now(io)) return false;
  Status sent = Code::ok;
  to.length = io.transferred;
  if (to.length > 0) sent = mailbox->send(to);
  // No room for a kernel, or none could be started: the mover needs none.
  if (!sent.ok() && sent != Code::peer_gone && sent != Code::invalid_argument) {
    desk.not_before = now() + limits::kFullGpuPause;
    return false;
  }
  // A device that is lost is no peer of the program's.
  operation.status = sent == Code::peer_gone ? Status(Code::io_error, sent.detail()) : sent;
  operation.transferred = sent.ok() ? io.transferred : 0;
  operation.route = engine::Route::device_slots;
  return true;
}

}  // namespace penstock::cufile
