#include "caller.h"

#include <cstdint>
#include <fmt/format.h>
#include <fstream>
#include <linux/capability.h>
#include <string>

#include "penstock/base.h"

namespace penstock::fuse {
namespace {

constexpr uint64_t kActsAsOwner =
    uint64_t{1} << CAP_CHOWN | uint64_t{1} << CAP_FOWNER | uint64_t{1} << CAP_FSETID;

uint64_t capabilities_of(pid_t caller) {
  std::ifstream status(fmt::format("/proc/{}/status", caller));
  for (std::string word; status >> word;) {
    uint64_t effective = 0;
    if (word == "CapEff:" && status >> std::hex >> effective) return effective;
  }
  return 0;
}

// In lines of: the first of some there, the first of these here, how many.
bool is_mapped(pid_t caller, const char* map, uint64_t id) {
  std::ifstream lines(fmt::format("/proc/{}/{}", caller, map));
  for (uint64_t there = 0, here = 0, count = 0; lines >> there >> here >> count;) {
    if (id >= here && id - here < count) return true;
  }
  return false;
}

}  // namespace

bool may_act_as_owner(pid_t caller, uid_t owner, gid_t group) {
  ASSERT(caller >= 0);
  return (capabilities_of(caller) & kActsAsOwner) != 0 && is_mapped(caller, "uid_map", owner) &&
         is_mapped(caller, "gid_map", group);
}

}  // namespace penstock::fuse
