#include "socket_ring.h"

#include <cerrno>
#include <sys/eventfd.h>
#include <sys/mman.h>

namespace penstock::tcp {
namespace {

constexpr int kBufferGroup = 0;
constexpr uint64_t kWhatMask = SocketRing::kWhatMax;
constexpr uint64_t kIgnored = 0;  // a completion that means nothing
constexpr size_t kBufferRingBytes = limits::kStagedBuffers * sizeof(io_uring_buf);
static_assert(is_power_of_two(limits::kStagedBuffers) && limits::kStagedBuffers <= 32768);

// Best first, as for disks: a loop may move to another thread, so none of a single issuer.
constexpr unsigned kFlagSets[] = {
    IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
    IORING_SETUP_SUBMIT_ALL,
    0,
};

}  // namespace

Status SocketRing::create() {
  ASSERT(!open_);
  int result = -EINVAL;
  for (const unsigned flags : kFlagSets) {
    io_uring_params parameters{};
    parameters.flags = flags | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
    parameters.cq_entries = limits::kRingCompletions;
    result = io_uring_queue_init_params(limits::kRingEntries, &ring_, &parameters);
    if (result != -EINVAL) break;
  }
  if (result < 0) return Status(Code::not_supported, static_cast<uint32_t>(-result));
  open_ = true;
  eventfd_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!eventfd_) return Status::from_errno(errno);
  result = io_uring_register_eventfd(&ring_, eventfd_.get());
  if (result < 0) return Status(Code::not_supported, static_cast<uint32_t>(-result));
  (void)io_uring_cq_eventfd_toggle(&ring_, false);

  void* const memory =
      ::mmap(nullptr, kBufferRingBytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
  if (memory == MAP_FAILED) return Code::no_memory;
  buffer_ring_memory_ = memory;
  io_uring_buf_reg registration{};
  registration.ring_addr = reinterpret_cast<uint64_t>(memory);
  registration.ring_entries = limits::kStagedBuffers;
  registration.bgid = kBufferGroup;
  result = io_uring_register_buf_ring(&ring_, &registration, 0);
  if (result < 0) return Status(Code::not_supported, static_cast<uint32_t>(-result));
  buffers_ = static_cast<io_uring_buf_ring*>(memory);
  io_uring_buf_ring_init(buffers_);
  staging_ = std::make_unique<std::byte[]>(size_t{limits::kStagedBuffers} * limits::kStagedBytes);
  for (uint32_t i = 0; i < limits::kStagedBuffers; ++i) {
    give_back(i << IORING_CQE_BUFFER_SHIFT | IORING_CQE_F_BUFFER);
  }
  return Code::ok;
}

SocketRing::~SocketRing() {
  ASSERT(in_flight_ == 0);
  if (open_) io_uring_queue_exit(&ring_);
  if (buffer_ring_memory_ != nullptr) ::munmap(buffer_ring_memory_, kBufferRingBytes);
}

io_uring_sqe& SocketRing::next_entry(SocketUser& user, uint32_t what) {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  while (entry == nullptr) {
    entered(io_uring_submit(&ring_));
    entry = io_uring_get_sqe(&ring_);
  }
  ASSERT(what <= kWhatMax);
  ++in_flight_;
  // The preparing functions leave user_data alone.
  io_uring_sqe_set_data64(entry, reinterpret_cast<uint64_t>(&user) | what);
  return *entry;
}

void SocketRing::receive_staged(SocketUser& user, uint32_t what, int socket, uint32_t most) {
  ASSERT(most <= limits::kStagedBytes);
  io_uring_sqe& entry = next_entry(user, what);
  io_uring_prep_recv(&entry, socket, nullptr, most, 0);
  entry.flags |= IOSQE_BUFFER_SELECT;
  entry.buf_group = kBufferGroup;
}

void SocketRing::receive(SocketUser& user, uint32_t what, int socket, MutableBytes place) {
  ASSERT(!place.empty());
  io_uring_prep_recv(&next_entry(user, what), socket, place.data(), place.size(), MSG_WAITALL);
}

void SocketRing::send(SocketUser& user, uint32_t what, int socket, const msghdr& message,
                      Sending sending) {
  const unsigned all = sending == Sending::all ? MSG_WAITALL : 0;
  io_uring_prep_sendmsg(&next_entry(user, what), socket, &message, MSG_NOSIGNAL | all);
}

void SocketRing::accept(SocketUser& user, uint32_t what, int socket) {
  // Blocking, as the ring waits in the kernel for those only.
  io_uring_prep_accept(&next_entry(user, what), socket, nullptr, nullptr, SOCK_CLOEXEC);
}

void SocketRing::connect(SocketUser& user, uint32_t what, int socket, const sockaddr& to,
                         socklen_t length) {
  io_uring_prep_connect(&next_entry(user, what), socket, &to, length);
}

void SocketRing::cancel(SocketUser& user, uint32_t what) {
  io_uring_sqe& entry = next_entry(user, what);
  io_uring_prep_cancel64(&entry, reinterpret_cast<uint64_t>(&user) | what, 0);
  io_uring_sqe_set_data64(&entry, kIgnored);
}

Bytes SocketRing::staged(int result, uint32_t flags) const {
  ASSERT(result >= 0 && (flags & IORING_CQE_F_BUFFER) != 0);
  const size_t index = flags >> IORING_CQE_BUFFER_SHIFT;
  ASSERT(index < limits::kStagedBuffers);
  return {staging_.get() + index * limits::kStagedBytes, static_cast<size_t>(result)};
}

void SocketRing::give_back(uint32_t flags) {
  const uint32_t index = flags >> IORING_CQE_BUFFER_SHIFT;
  ASSERT((flags & IORING_CQE_F_BUFFER) != 0 && index < limits::kStagedBuffers);
  io_uring_buf_ring_add(buffers_, staging_.get() + size_t{index} * limits::kStagedBytes,
                        limits::kStagedBytes, static_cast<unsigned short>(index),
                        io_uring_buf_ring_mask(limits::kStagedBuffers), 0);
  io_uring_buf_ring_advance(buffers_, 1);
}

// Whatever was not submitted for one of these reasons is still in the queue for the next turn.
void SocketRing::entered(int result) {
  enters_.add();
  ASSERT(result >= 0 || result == -EINTR || result == -EAGAIN || result == -EBUSY);
}

bool SocketRing::wants_enter() const {
  // The kernel sets these from other contexts; whatever is missed now is seen in a later turn.
  const unsigned flags = __atomic_load_n(ring_.sq.kflags, __ATOMIC_RELAXED);
  return (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

void SocketRing::submit() {
  if (io_uring_sq_ready(&ring_) != 0) entered(io_uring_submit(&ring_));
}

bool SocketRing::poll() {
  if (io_uring_sq_ready(&ring_) != 0 || wants_enter()) {
    entered(io_uring_submit_and_get_events(&ring_));
  }
  return harvest();
}

bool SocketRing::harvest() {
  // Not those that appear meanwhile: other parts of the loop have a turn, too.
  const unsigned ready = io_uring_cq_ready(&ring_);
  for (unsigned i = 0; i < ready; ++i) {
    io_uring_cqe* completion = nullptr;
    if (io_uring_peek_cqe(&ring_, &completion) != 0) break;
    const io_uring_cqe seen = *completion;
    io_uring_cqe_seen(&ring_, completion);
    ASSERT(in_flight_ > 0);
    --in_flight_;
    if (seen.user_data == kIgnored) continue;
    auto& user = *reinterpret_cast<SocketUser*>(seen.user_data & ~kWhatMask);
    user.on_completion(static_cast<uint32_t>(seen.user_data & kWhatMask), seen.res, seen.flags);
  }
  return ready != 0;
}

bool SocketRing::prepare_sleep() {
  submit();
  (void)io_uring_cq_eventfd_toggle(&ring_, true);
  // Either the kernel sees the flag when it adds a completion, or that is seen here. A full fence,
  // by a name that the thread sanitizer takes, too.
  __sync_synchronize();
  return io_uring_cq_ready(&ring_) == 0 && !wants_enter();
}

void SocketRing::woke() {
  (void)io_uring_cq_eventfd_toggle(&ring_, false);
}

void SocketRing::wait() {
  ASSERT(in_flight_ != 0);
  entered(io_uring_submit_and_wait(&ring_, 1));
  (void)harvest();
}

void SocketRing::drain() {
  while (in_flight_ != 0) wait();
}

}  // namespace penstock::tcp
