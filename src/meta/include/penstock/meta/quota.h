// What directories and users may take up: docs/decisions/0065-quotas.md.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <string>

#include "penstock/base.h"

namespace penstock::meta {

// Whose quota it is. The numbers are part of the format.
struct QuotaSubject {
  enum class Kind : uint8_t { directory = 1, user = 2 };
  Kind kind = Kind::directory;
  uint64_t id = 0;  // an inode, or a user

  static QuotaSubject of_directory(InodeId inode) { return {Kind::directory, inode.value}; }
  static QuotaSubject of_user(uint32_t uid) { return {Kind::user, uid}; }
  friend auto operator<=>(const QuotaSubject&, const QuotaSubject&) = default;
};

// 0: no limit.
struct QuotaLimits {
  uint64_t bytes = 0;
  uint64_t inodes = 0;
  friend bool operator==(const QuotaLimits&, const QuotaLimits&) = default;
};

struct QuotaUsage {
  uint64_t bytes = 0;
  uint64_t inodes = 0;
  friend bool operator==(const QuotaUsage&, const QuotaUsage&) = default;
};

struct Quota {
  QuotaSubject subject;
  QuotaLimits limits;
  QuotaUsage used;
  uint64_t promised = 0;  // bytes that files may still grow by without asking
  bool counted = false;   // until then it binds nobody
  std::string path;       // of a directory, where it was when the quota was set
};

struct QuotaCheck {
  Quota quota;       // as it was counted before
  QuotaUsage found;  // now
};

inline constexpr uint64_t kQuotaBlockBytes = 4096;
// How far a file that was just made may grow before anybody is asked: so that small ones cost
// nothing.
inline constexpr uint64_t kFreeGrowthBytes = 64 * kKiB;

// What a file of this length counts for, holes too; so does, with 0, everything else.
inline uint64_t quota_bytes(uint64_t length) {
  return std::max(kQuotaBlockBytes, align_up(length, kQuotaBlockBytes));
}

}  // namespace penstock::meta
