#include "small_reads.h"

#include "../limits.h"

#include <algorithm>

namespace penstock::cufile {

namespace {

engine::Time now() {
  return engine::system_clock().now();
}

}  // namespace

// Two threads share a state only when there are more threads than states. While one of them has it
// the other's reads go by the mover.
SmallReads::ThreadState* SmallReads::take_state() {
  static std::atomic<size_t> threads{0};
  static thread_local const size_t number = threads.fetch_add(1, std::memory_order_relaxed);
  ThreadState& state = states_[number % kThreadStates];
  // Acquire pairs with leave().
  return state.taken.exchange(true, std::memory_order_acquire) ? nullptr : &state;
}

bool SmallReads::takes_mover(const Operation& operation) {
  // Relaxed: it only decides which of many reads goes by the mover.
  return operation.memory.length > limits::kMailboxBestBytes &&
         !mover_taken_.load(std::memory_order_relaxed) &&
         !mover_taken_.exchange(true, std::memory_order_relaxed);
}

void SmallReads::note_begin(ThreadState& state) {
  const bool is_close = now() - state.last_end < limits::kSmallReadGap;
  state.streak = is_close ? state.streak + 1 : 0;
  state.is_look = false;
}

// A read that found no pinned pages.
void SmallReads::note_unpinned(ThreadState& state) {
  if (++state.unpinned < state.look_after) return;
  state.is_look = true;
  state.unpinned = 0;
  state.look_after =
      std::clamp(2 * state.look_after, limits::kUnpinnedReadsMin, limits::kUnpinnedReadsMax);
}

void SmallReads::leave(ThreadState& state) {
  state.last_end = now();
  state.taken.store(false, std::memory_order_release);
}

// Null: the read goes another way.
engine::CopyMailbox* SmallReads::mailbox_of(ThreadState& state, const Operation& operation) {
  if (state.streak < limits::kSmallReadStreak || state.last_end < state.not_before) return nullptr;
  const engine::DeviceId device = operation.memory.device.device;
  state.mailboxes.resize(devices_.devices().size());
  std::unique_ptr<engine::CopyMailbox>& mailbox = state.mailboxes[device.value];
  if (mailbox != nullptr) return mailbox.get();
  Outcome<std::unique_ptr<engine::CopyMailbox>> made = devices_.make_mailbox(device);
  if (made) {
    mailbox = std::move(*made);
  } else {
    state.not_before = now() + limits::kNoMailboxPause;
  }
  return mailbox.get();
}

// The three that follow return false when the operation is still to be carried out. This one reads
// from pinned pages. They lie as the file does modulo 16, being whole.
bool SmallReads::read(ThreadState& state, Operation& operation) {
  const auto to = reinterpret_cast<uintptr_t>(operation.memory.device.data);
  if (operation.memory.length < limits::kPinnedReadMin) return false;
  if ((to - operation.offset) % engine::kMailboxUnit != 0) return false;
  engine::CopyMailbox* const mailbox = mailbox_of(state, operation);
  if (mailbox == nullptr) return false;
  const local::HeldPages pages =
      source_.hold(operation.file->id, operation.offset, operation.memory.length);
  if (!pages) {
    note_unpinned(state);
    return false;
  }
  // Where most reads find pinned pages, the mover need not see each read that does not.
  state.look_after /= 2;
  operation.route = engine::Route::device_mapped;
  return send(state, *mailbox, operation, pages.data(), pages.length());
}

// From the page cache, by way of the mailbox's own memory.
bool SmallReads::copy(ThreadState& state, Operation& operation) {
  engine::CopyMailbox* const mailbox = state.is_look ? nullptr : mailbox_of(state, operation);
  if (mailbox == nullptr) return false;
  const MutableBytes space = mailbox->space_for(operation.memory.device);
  route::HostIo io;
  io.file = operation.file->id;
  io.offset = operation.offset;
  io.memory = {space.data(), space.size()};
  // Shorter ones need no pinned pages.
  const bool counts = io.memory.length >= limits::kPinnedReadMin;
  if (counts && source_.note_read(io.file, io.offset, limits::kCopyWeight * io.memory.length)) {
    return false;
  }
  if (!source_.read_now(io)) return false;
  operation.route = engine::Route::device_slots;
  return send(state, *mailbox, operation, space.data(), io.transferred);
}

bool SmallReads::send(ThreadState& state, engine::CopyMailbox& mailbox, Operation& operation,
                      const std::byte* source, uint64_t length) {
  engine::DeviceSpan to = operation.memory.device;
  to.length = length;
  const Status sent = length > 0 ? mailbox.send(to, source) : Status();
  // No room for a kernel, or none could be started: the mover copies without one.
  if (!sent.ok() && sent != Code::peer_gone && sent != Code::invalid_argument) {
    state.not_before = now() + limits::kFullGpuPause;
    return false;
  }
  // peer_gone would mean an agent or a server to the program.
  operation.status = sent == Code::peer_gone ? Status(Code::io_error, sent.detail()) : sent;
  operation.transferred = sent.ok() ? length : 0;
  return true;
}

}  // namespace penstock::cufile
