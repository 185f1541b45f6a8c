// One operation on two trees: a mount and the host's own file system must answer alike.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace penstock::posix {

// How an operation ended, as far as programs rely on it.
struct Answer {
  int64_t value = 0;  // what the call returned; -1 with an errno
  int error = 0;
  std::string data;  // contents, names, attributes: whatever came back

  friend bool operator==(const Answer&, const Answer&) = default;
};
std::string to_text(const Answer& answer);

// From a system call's result.
Answer answer_of(int64_t result);
Answer answer_of(int64_t result, std::string data);

// What stat tells, in words; without what legitimately differs (inode and device numbers, block
// counts, a directory's size and times).
Answer stat_of(const std::string& path);
Answer stat_of(int fd);
Answer names_in(const std::string& path);
Answer read_all(int fd);
Answer xattrs_of(const std::string& path);

// Everything below `path`: names, attributes, contents, links, xattrs; sorted.
std::string picture_of(const std::string& path);

}  // namespace penstock::posix
