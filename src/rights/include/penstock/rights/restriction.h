// A restriction of a node (docs/decisions/0066): which users act there, on what, and how. Plain
// data; whoever has the names enforces it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base.h"
#include "penstock/rights/limits.h"

namespace penstock::rights {

// Numbers of users or groups, from the first to the last.
struct IdRange {
  uint32_t first = 0;
  uint32_t last = 0;

  friend bool operator==(const IdRange&, const IdRange&) = default;
};
// In order, with a gap between any two.
using IdRanges = std::vector<IdRange>;

// A user as an agent names it.
struct User {
  uint32_t uid = 0;
  uint32_t gid = 0;

  friend bool operator==(const User&, const User&) = default;
};

struct Restriction {
  IdRanges uids{};               // empty: any
  IdRanges gids{};               // empty: the same as uids
  std::optional<User> squash{};  // who is beyond them becomes this one; without uids everybody
  std::string subtree{};         // what the node has as its root; empty: all files
  bool read_only = false;

  friend bool operator==(const Restriction&, const Restriction&) = default;

  bool is_nothing() const { return *this == Restriction(); }
  bool limits_users() const { return !uids.empty() || !gids.empty() || squash.has_value(); }
};

// Whether it is one that can be kept: foreign input is asked so before it is.
bool is_good(const Restriction& restriction);

bool contains(const IdRanges& ranges, uint32_t id);

// Who acts in the place of that user: itself, or the one that it is squashed to, with no groups
// then. access_denied: nobody. Of its supplementary groups those that are not allowed are left out.
Status admit(const Restriction& restriction, User& user, std::vector<uint32_t>& groups);
// Whether files may be given to that user, or group.
bool may_own(const Restriction& restriction, uint32_t uid);
bool may_own_group(const Restriction& restriction, uint32_t gid);

// As people write it. "1000-1999,5000"; "65534" or "65534:100"; "/data/of one". What is wrong with
// it is in the failure.
Outcome<IdRanges> parse_ids(std::string_view text);
Outcome<User> parse_user(std::string_view text);
Outcome<std::string> parse_subtree(std::string_view text);
std::string text_of(const IdRanges& ranges);
// In the words of the commands that make it; empty: nothing is restricted.
std::string text_of(const Restriction& restriction);

}  // namespace penstock::rights
