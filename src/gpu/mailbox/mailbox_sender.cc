#include "mailbox_sender.h"

#include "../limits.h"

#include <atomic>

namespace penstock::gpu {

namespace {

template <class Word>
Word load(const Word& word) {
  // Acquire pairs with what the device, or a test in its place, did before it stored; sequential
  // consistency keeps it behind the request that was written before.
  return std::atomic_ref(const_cast<Word&>(word)).load(std::memory_order_seq_cst);
}

}  // namespace

void MailboxSender::write(const MailboxRequest& request) {
  const device::Pair words = pack(request);
  // Release: the bytes in the buffer are there before. The second store is a full fence: what is
  // looked at next is looked at after the device can see the request.
  std::atomic_ref(mailbox_.request.first).store(words.first, std::memory_order_release);
  std::atomic_ref(mailbox_.request.second).exchange(words.second, std::memory_order_seq_cst);
}

MailboxSender::Answer MailboxSender::answer_to(uint32_t number) const {
  const uint32_t answer = load(mailbox_.answer);
  if (answer == pack_answer(number, true)) return Answer::copied;
  return answer == pack_answer(number, false) ? Answer::was_void : Answer::none;
}

bool MailboxSender::has_begun() const {
  return load(mailbox_.begun) == numbers_.kernel;
}

bool MailboxSender::has_left() const {
  return load(mailbox_.left) == numbers_.kernel;
}

Status MailboxSender::start_kernel() {
  const Status started = kernels_.start(numbers_.kernel + 1);
  if (started.ok()) ++numbers_.kernel;
  return started;
}

Status MailboxSender::send(uint64_t destination, uint64_t source, uint32_t length) {
  DASSERT(length > 0 && length <= kMailboxBytesMax);
  if ((destination | source) > kMailboxAddresses) return Code::not_supported;
  if (gave_up_ && !has_begun()) return Code::busy;
  gave_up_ = false;
  const engine::Clock& clock = engine::system_clock();
  const engine::Time began = clock.now();
  for (uint32_t kernels = 1;; ++kernels) {
    if (has_left()) TRY(start_kernel());
    if (!kernels_.is_there()) return Code::invalid_argument;
    numbers_.request = (numbers_.request + 1) & kMailboxNumbers;
    if (numbers_.request == 0) numbers_.request = 1;
    const MailboxRequest request{source, destination, numbers_.request, length};
    write(request);
    if (const std::optional<Status> ended = wait(request)) return *ended;
    // The next kernel must not serve what was asked of this one.
    write(void_of(request));
    // Kernels begin and leave before they see this thread's request.
    const bool is_over = clock.now() - began > patience_;
    if (is_over && kernels >= limits::kMailboxKernels) return Code::busy;
  }
}

std::optional<Status> MailboxSender::wait(const MailboxRequest& request) {
  const engine::Clock& clock = engine::system_clock();
  const engine::Time began = clock.now();
  engine::Time looked_after = began;
  bool is_void = false;
  for (uint32_t looks = 1;; ++looks) {
    const bool left = has_left();  // if so, there is an answer by now, or never
    const Answer answer = answer_to(request.number);
    if (answer != Answer::none) return answer == Answer::copied ? Code::ok : Code::busy;
    if (left) return is_void ? std::optional<Status>(Code::busy) : std::nullopt;
    __builtin_ia32_pause();
    if (looks % limits::kMailboxLooks != 0) continue;
    const engine::Time now = clock.now();
    if (!is_void && !has_begun() && now - began > patience_) {
      write(void_of(request));
      is_void = true;
      gave_up_ = !has_begun();
      if (gave_up_) return Code::busy;
      // The kernel began in between, and its answer tells whether it saw the request or that it is
      // void.
    }
    if (now - looked_after > limits::kQuietTime) {
      looked_after = now;
      // Anything else may pass, and the request stands.
      const Status state = kernels_.look_after();
      if (state == Code::peer_gone) return state;
    }
  }
}

}  // namespace penstock::gpu
