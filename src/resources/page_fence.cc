#include "penstock/resources/page_fence.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace penstock::resources {
namespace {

// -1: there is none. Written once, before there are sessions.
int fence = -1;

UniqueFd open_fence() {
  // With "user mode only" it needs no privilege; touches by the kernel fail all the same.
  const long fd = ::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
  UniqueFd made(static_cast<int>(fd));
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MISSING_HUGETLBFS;
  if (made && ::ioctl(made.get(), UFFDIO_API, &api) != 0) made.reset();
  return made;
}

}  // namespace

void PageFence::install() {
  static const bool installed = [] {
    fence = open_fence().release();
    return fence >= 0;
  }();
  if (!installed) {
    log::warning(
        "userfaultfd: {}: memory that clients register without pages is paid for by this process "
        "when it is used (allow the system call, or bound the memory of clients)",
        std::strerror(errno));
  }
}

bool PageFence::is_up() {
  return fence >= 0;
}

bool PageFence::enclose(MutableBytes mapping) {
  ASSERT(mapping.data() != nullptr && mapping.size() % 4096 == 0);
  if (fence < 0) return false;
  uffdio_register range{};
  range.range = {reinterpret_cast<uintptr_t>(mapping.data()), mapping.size()};
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  return ::ioctl(fence, UFFDIO_REGISTER, &range) == 0;
}

}  // namespace penstock::resources
