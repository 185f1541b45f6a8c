#include "penstock/testing/processes.h"

#include <cerrno>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock::test {

int ending_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) != child) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  return ending_of(child);
}

}  // namespace penstock::test
