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

// Reads what the page cache has of the operation's bytes into the mailbox, part by part: those that
// are there travel while the next are read. Nothing where some are missing.
std::optional<uint64_t> SmallReads::bring(engine::CopyMailbox& mailbox,
                                          const Operation& operation) {
  engine::DeviceSpan to = operation.memory.device;
  const MutableBytes space = mailbox.space_for(to);
  const uint64_t part =
      align_up(std::max(space.size() / limits::kSmallReadParts, limits::kSmallReadPartMin),
               limits::kSmallReadPartMin);
  for (uint64_t done = 0;;) {
    route::HostIo io;
    io.file = operation.file->id;
    io.offset = operation.offset + done;
    io.memory = {space.data() + done, std::min(part, space.size() - done)};
    if (!source_.read_now(io)) {
      to.length = 0;
      if (done > 0) (void)mailbox.send(to);
      return std::nullopt;
    }
    done += io.transferred;
    if (io.transferred < io.memory.length || done == space.size()) return done;
    to.length = done;
    mailbox.offer(to);
  }
}

// False: the operation is as it was before.
bool SmallReads::read(Desk& desk, Operation& operation) {
  if (desk.streak < limits::kSmallReadStreak || desk.last_end < desk.not_before) return false;
  engine::DeviceSpan to = operation.memory.device;
  engine::CopyMailbox* const mailbox = mailbox_of(desk, to.device);
  if (mailbox == nullptr) return false;
  const std::optional<uint64_t> brought = bring(*mailbox, operation);
  if (!brought) return false;
  Status sent = Code::ok;
  to.length = *brought;
  if (to.length > 0) sent = mailbox->send(to);
  if (sent == Code::busy) {
    desk.not_before = now() + limits::kFullGpuPause;
    return false;
  }
  // A device that is lost is no peer of the program's.
  operation.status = sent == Code::peer_gone ? Status(Code::io_error, sent.detail()) : sent;
  operation.transferred = sent.ok() ? *brought : 0;
  operation.route = engine::Route::device_slots;
  return true;
}

}  // namespace penstock::cufile
