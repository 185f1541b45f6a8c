// A file whose blocks are registers, and what reads of them may say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base.h"

namespace penstock::test {

// Each block of 4 KiB is written by one thread at a time and holds one number, over and over. A
// write that failed may happen at any later moment, before that thread's next write of it is done,
// or never. So a read says the number of the last write that succeeded, or of one that was begun
// since; and never an older one than an earlier read has said. That is linearisability of a
// register with one writer.
class RegisterFile {
 public:
  explicit RegisterFile(uint32_t blocks) : registers_(blocks) {}

  uint32_t blocks() const { return static_cast<uint32_t>(registers_.size()); }
  static uint64_t offset(uint32_t block) { return block * kBlock; }
  static constexpr uint64_t kBlock = 4096;

  // The bytes of the next write of this block, which begins now.
  std::string begin_write(uint32_t block);
  void end_write(uint32_t block, bool succeeded);

  // What a read that begins now may not fall behind, to be given to check().
  uint64_t begin_read(uint32_t block) const { return registers_[block].known; }
  // Empty, or what is wrong with what such a read has found.
  std::string check(uint32_t block, uint64_t begun_at, const std::string& bytes);

 private:
  struct Register {
    uint64_t begun = 0;  // the number of the last write that began
    uint64_t known = 0;  // the newest number that is known to be there, or replaced by a newer one
  };
  std::vector<Register> registers_;
};

}  // namespace penstock::test
