// A process of another user of this machine, which holds what it took: a lock, or a share of
// something.
#pragma once

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <string>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "penstock/base.h"

namespace penstock::test {

// A process of user `uid` that has run `take`, and lives until this is destroyed. Where it ran, it
// may have left children behind: they live as long.
class OtherProcess {
 public:
  OtherProcess(uid_t uid, const std::function<bool()>& take, bool leave_to_child = false) {
    int said[2], over[2];
    if (::pipe2(said, O_CLOEXEC) != 0 || ::pipe2(over, O_CLOEXEC) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(over[1]);
      const bool became = uid == 0 || (::setgid(uid) == 0 && ::setuid(uid) == 0);
      const char word = became && take() ? 'y' : 'n';
      if (leave_to_child && ::fork() > 0) ::_exit(0);
      (void)!::write(said[1], &word, 1);
      char end = 0;
      (void)!::read(over[0], &end, 1);
      ::_exit(0);
    }
    ::close(said[1]);
    ::close(over[0]);
    over_.reset(over[1]);
    const UniqueFd listening(said[0]);
    char word = 0;
    took_ = ::read(listening.get(), &word, 1) == 1 && word == 'y';
    if (leave_to_child) ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }
  ~OtherProcess() {
    over_.reset();
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  bool took() const { return took_; }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  bool took_ = false;
  UniqueFd over_;
};

// Opens the file for reading, which is all that another user may do, and locks it. The descriptor
// stays open.
inline bool take_flock(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  return fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0;
}

}  // namespace penstock::test
