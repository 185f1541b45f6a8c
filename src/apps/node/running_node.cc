#include "running_node.h"

#include <cerrno>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace penstock::apps {

EndSignal::EndSignal() : ended_(::eventfd(0, EFD_CLOEXEC)) {}

void EndSignal::raise() const {
  const uint64_t one = 1;
  (void)!::write(ended_.get(), &one, sizeof one);
}

void EndSignal::wait(int signal_fd) const {
  while (true) {
    pollfd wait[2] = {{signal_fd, POLLIN, 0}, {ended_.get(), POLLIN, 0}};
    if (::poll(wait, 2, -1) < 0 && errno != EINTR) return;
    if (wait[0].revents != 0) {
      signalfd_siginfo info;
      (void)!::read(signal_fd, &info, sizeof info);
      return;
    }
    if (wait[1].revents != 0) return;
  }
}

}  // namespace penstock::apps
