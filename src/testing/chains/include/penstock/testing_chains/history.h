// Histories of registers that several clients read and write at once, and whether they are
// linearisable: whether the operations could have happened one after the other, each between its
// beginning and its end.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace penstock::test {

// Values of writes are unique, but for 0, which registers have at first and may get again. A write
// whose end is unknown may have happened at any later moment, or never; a read whose end is unknown
// says nothing. Beginnings and ends are told in the order in which they happen.
class History {
 public:
  using Register = std::pair<uint64_t, uint64_t>;  // chunk, and which of its registers
  using Operation = size_t;

  Operation begin_write(Register which, uint64_t value);
  Operation begin_read(Register which);
  void end_write(Operation operation);
  void end_read(Operation operation, uint64_t value);
  // The write has failed for good: it did not happen, and never will.
  void forget_write(Operation operation);

  // Empty, or which register cannot have behaved so, with its operations.
  std::string check() const;
  size_t ended() const { return ended_; }

 private:
  struct Entry {
    Register which;
    bool is_write = false;
    uint64_t value = 0;
    uint64_t begun = 0;
    uint64_t over = UINT64_MAX;  // unknown
    bool never = false;          // a write that must not be seen
  };
  static std::string explain(const Register& which, const std::vector<Entry>& entries);

  std::vector<Entry> entries_;
  uint64_t moment_ = 0;
  size_t ended_ = 0;
};

}  // namespace penstock::test
