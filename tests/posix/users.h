// Acting as somebody but root.
#pragma once

#include <functional>
#include <grp.h>
#include <unistd.h>

#include "penstock/testing.h"

namespace penstock::posix {

inline constexpr uid_t kAlice = 12'001;
inline constexpr uid_t kBob = 12'002;

// What `body` returns (0, or an errno) in a process of the user, who is in a group of the same
// number and in no other.
inline int as_user(uid_t user, const std::function<int()>& body) {
  return test::in_child([&] {
    const bool is_they = ::setgroups(0, nullptr) == 0 && ::setgid(user) == 0 && ::setuid(user) == 0;
    return is_they ? body() : 255;
  });
}

}  // namespace penstock::posix
