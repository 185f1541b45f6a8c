// Feeds bytes to every decoder; for the tests and the fuzzer.
#pragma once

#include <string>
#include <string_view>

#include "penstock/meta/records.h"

namespace penstock::meta {

// True if any of them takes the bytes. What is taken must encode to the same bytes again.
inline bool decode_all(std::string_view bytes) {
  bool taken = false;
  const auto check = [&](const auto& decoded, const auto& encoded) {
    if (!decoded) return;
    taken = true;
    // What version 1 wrote means the same in today's bytes.
    if (bytes.front() != encoded(*decoded).front()) return;
    ASSERT(encoded(*decoded) == bytes);
  };
  const auto again = [](const auto& record) { return encode(record); };
  check(decode_inode(InodeId(5), bytes), again);
  check(decode_directory_times(bytes), again);
  check(decode_dentry(bytes), again);
  check(decode_cookie_entry(bytes), again);
  check(decode_quota(bytes), again);
  check(decode_usage(bytes), again);
  check(decode_trash(bytes), again);
  check(decode_number(bytes), [](uint64_t number) { return encode_number(number); });
  return taken;
}

}  // namespace penstock::meta
