// Acting as somebody but root.
#pragma once

#include <functional>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock::posix {

inline constexpr uid_t kAlice = 12'001;
inline constexpr uid_t kBob = 12'002;

// What `body` returns (0, or an errno) in a process of the user, who is in a group of the same
// number and in no other.
inline int as_user(uid_t user, const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgroups(0, nullptr) != 0 || ::setgid(user) != 0 || ::setuid(user) != 0) ::_exit(255);
    ::_exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace penstock::posix
