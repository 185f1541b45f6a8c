#include "guardian.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <new>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <vector>

#include "penstock/fuse.h"

namespace penstock::apps {

struct Guardian::Shared {
  // Held by the node's first thread as long as it lives. The kernel gives the lock of a thread that
  // died to a process that waits for it, before it closes the thread's descriptors: see
  // robust_list(7).
  pthread_mutex_t life;
  std::array<std::atomic<uint64_t>, kMountsMax> devices;  // 0: free
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
};

namespace {

// What a node that can end by itself takes for it at most; freeing much memory takes its time, and
// ending the mounts of a dying node early does no harm.
constexpr int kPatienceMs = 500;
// A process that is being started has a few descriptors, and lower ones than this.
constexpr int kOpenAtStart = 1024;

bool make_life(pthread_mutex_t* life) {
  pthread_mutexattr_t attributes;
  if (::pthread_mutexattr_init(&attributes) != 0) return false;
  const bool made = ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0 &&
                    ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0 &&
                    ::pthread_mutex_init(life, &attributes) == 0 && ::pthread_mutex_lock(life) == 0;
  ::pthread_mutexattr_destroy(&attributes);
  return made;
}

// Programs that wait for an answer of the connection get ENOTCONN from now on. The control file
// system of FUSE names connections by their device; where it is not mounted, root may force an
// unmount.
void abort_connection(dev_t device, const std::string& source) {
  // An unmounted one's number may be another file system's by now.
  const std::vector<MountEntry> mounts = read_mounts();
  const MountEntry* const mount = mount_of_device(mounts, device);
  if (mount == nullptr || mount->source != source || !fuse::is_ours(*mount)) return;
  const std::string control = fmt::format("/sys/fs/fuse/connections/{}/abort", minor(device));
  const UniqueFd file(::open(control.c_str(), O_WRONLY | O_CLOEXEC));
  if (file && ::write(file.get(), "1", 1) == 1) return;
  // A busy mount stays, but its connection ends.
  ::umount2(mount->point.c_str(), MNT_FORCE | UMOUNT_NOFOLLOW);
}

// Nothing of the node is kept open, above all not its locks, and no signal for the node's terminal
// or group ends this process before it.
void leave_everything() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  ::setsid();
  ::prctl(PR_SET_NAME, "penstock-guard");
  if (::syscall(SYS_close_range, 0U, ~0U, 0U) != 0) {
    // A kernel before 5.9, or a container that does not know the call.
    for (int fd = 0; fd < kOpenAtStart; ++fd) ::close(fd);
  }
  static_cast<void>(::chdir("/"));
}

}  // namespace

// What the process does.
void Guardian::guard(Shared& shared, pid_t node, const std::string& source) {
  leave_everything();
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, node, 0)));
  if (!process || ::getppid() != node) return;
  // Either way the node's first thread is dead; that it has the lock is why this one waits.
  static_cast<void>(::pthread_mutex_lock(&shared.life));
  pollfd ended{process.get(), POLLIN, 0};
  if (::poll(&ended, 1, kPatienceMs) != 0) return;
  for (const auto& device : shared.devices) {
    const uint64_t number = device.load(std::memory_order_acquire);
    if (number != 0) abort_connection(number, source);
  }
}

Outcome<std::unique_ptr<Guardian>> Guardian::start(const std::string& source) {
  const auto failure = [](const char* what) {
    return Failure{
        Status::from_errno(errno),
        fmt::format("the process that guards the mounts: {}: {}", what, std::strerror(errno))};
  };
  void* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return failure("no memory to share with it");
  std::unique_ptr<Guardian> guardian(new Guardian(new (memory) Shared{}));
  if (!make_life(&guardian->shared_->life)) return failure("no lock to share with it");
  const pid_t node = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return failure("fork");
  if (child == 0) {
    guard(*guardian->shared_, node, source);
    std::_Exit(0);
  }
  return guardian;
}

void Guardian::watch(dev_t device) {
  for (auto& slot : shared_->devices) {
    uint64_t free = 0;
    if (slot.compare_exchange_strong(free, device, std::memory_order_acq_rel)) return;
  }
}

void Guardian::forget(dev_t device) {
  for (auto& slot : shared_->devices) {
    uint64_t expected = device;
    if (slot.compare_exchange_strong(expected, 0, std::memory_order_acq_rel)) return;
  }
}

}  // namespace penstock::apps
