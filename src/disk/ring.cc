#include "ring.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <sys/uio.h>

namespace penstock::disk {
namespace {

// Best first; a kernel refuses what it does not know: COOP_TASKRUN is 5.19, SUBMIT_ALL 5.18. Rings
// of a single issuer (6.0, and with it DEFER_TASKRUN of 6.1) are tied to one thread for life and
// lose what it had in flight when it ends, while they measure no faster here.
constexpr unsigned kFlagSets[] = {
    IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
    IORING_SETUP_SUBMIT_ALL,
    0,
};

constexpr int kOpcodes[] = {IORING_OP_READ,        IORING_OP_WRITE, IORING_OP_READ_FIXED,
                            IORING_OP_WRITE_FIXED, IORING_OP_FSYNC, IORING_OP_FALLOCATE,
                            IORING_OP_POLL_ADD};

Status status_of(int result) {
  return result >= 0 ? Status() : Status::from_errno(-result);
}

std::string try_operation(io_uring& ring) {
  if ((ring.features & IORING_FEAT_EXT_ARG) == 0) return "the kernel's io_uring is older than 5.11";
  const std::unique_ptr<io_uring_probe, void (*)(io_uring_probe*)> probe(
      io_uring_get_probe_ring(&ring), [](io_uring_probe* p) { io_uring_free_probe(p); });
  if (probe == nullptr) return "io_uring_register: cannot ask for its operations";
  for (const int opcode : kOpcodes) {
    if (!io_uring_opcode_supported(probe.get(), opcode)) {
      return fmt::format("the kernel's io_uring lacks operation {}", opcode);
    }
  }
  io_uring_prep_nop(io_uring_get_sqe(&ring));
  if (const int result = io_uring_submit_and_wait(&ring, 1); result < 0) {
    return fmt::format("io_uring_enter: {}", std::strerror(-result));
  }
  return "";
}

}  // namespace

std::string why_no_uring() {
  io_uring ring{};
  if (const int result = io_uring_queue_init(2, &ring, 0); result < 0) {
    return fmt::format(
        "io_uring_setup: {} (a container's seccomp profile or the sysctl "
        "kernel.io_uring_disabled may forbid it)",
        std::strerror(-result));
  }
  std::string reason = try_operation(ring);
  io_uring_queue_exit(&ring);
  return reason;
}

Status Ring::create(unsigned entries) {
  ASSERT(!open_);
  int result = -EINVAL;
  for (const unsigned flags : kFlagSets) {
    io_uring_params parameters{};
    // Completions of everything in flight, and of wake-ups, fit even if the loop does not look for
    // a while.
    parameters.flags = flags | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
    parameters.cq_entries = entries * 4;
    result = io_uring_queue_init_params(entries, &ring_, &parameters);
    if (result != -EINVAL) break;
  }
  if (result < 0) return status_of(result);
  open_ = true;
  // Both tables only spare the kernel work; without them everything is done the ordinary way.
  file_table_ = io_uring_register_files_sparse(&ring_, kFilesMax) == 0;
  buffer_table_ = io_uring_register_buffers_sparse(&ring_, kBuffersMax) == 0;
  return Code::ok;
}

void Ring::close() {
  if (!open_) return;
  io_uring_queue_exit(&ring_);
  ring_ = {};
  open_ = file_table_ = buffer_table_ = false;
}

Status Ring::set_file(unsigned index, int fd) {
  return status_of(io_uring_register_files_update(&ring_, index, &fd, 1));
}

Status Ring::set_buffer(unsigned slot, MutableBytes memory) {
  const iovec span{memory.data(), memory.size()};
  const __u64 no_tag = 0;
  return status_of(io_uring_register_buffers_update_tag(&ring_, slot, &span, &no_tag, 1));
}

bool Ring::wants_enter() const {
  // The kernel sets these from other contexts; whatever is missed now is seen in a later turn.
  const unsigned flags = __atomic_load_n(ring_.sq.kflags, __ATOMIC_RELAXED);
  return (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

}  // namespace penstock::disk
