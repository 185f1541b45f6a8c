// What is said of locks.
#pragma once

#include <cstdint>
#include <tuple>

#include "penstock/engine.h"
#include "penstock/holds.h"

namespace penstock::locks {

using holds::AgentId;
using holds::RequestId;

// Two spaces that know nothing of one another, as in Linux.
enum class Kind : uint8_t {
  range,  // of fcntl: of a process, or of an open file (OFD)
  whole,  // of flock: of an open file
};

enum class Type : uint8_t {
  none,   // to unlock
  read,   // beside others that read
  write,  // alone
};

// Behind the last byte that a file can have.
inline constexpr uint64_t kEnd = uint64_t{1} << 63;

struct Range {
  uint64_t begin = 0;
  uint64_t end = kEnd;  // above begin
  friend constexpr bool operator==(const Range&, const Range&) = default;
};
constexpr bool overlap(const Range& a, const Range& b) {
  return a.begin < b.end && b.begin < a.end;
}

// Of one agent's owners: by a number that its kernel gives.
struct Owner {
  AgentId agent;
  Kind kind = Kind::range;
  uint64_t number = 0;
  friend constexpr auto operator<=>(const Owner&, const Owner&) = default;
};

// What an owner is to have of a range from now on.
struct Wanted {
  InodeId inode;
  Owner owner;
  Range range;  // with Kind::whole: all
  Type type = Type::none;
  uint32_t pid = 0;  // for who asks whose lock it is
};

enum class Answer : uint8_t {
  done = 1,
  held,      // by another owner
  waits,     // it is answered later
  deadlock,  // it would wait for itself
  full,      // there is no room for more locks
  lost,      // the session is over, and what was locked in it
  ended,     // it was cancelled
  refused,   // a node that is restricted has not shown that it may have it
};

// A lock that is in the way.
struct Held {
  Owner owner;
  Range range;
  Type type = Type::none;
  uint32_t pid = 0;
};

// A request that waits no longer.
struct Ended {
  AgentId agent;
  RequestId request;
  Answer answer = Answer::done;
};

}  // namespace penstock::locks
