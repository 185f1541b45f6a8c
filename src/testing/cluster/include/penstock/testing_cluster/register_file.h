// A file whose blocks are registers, and what reads of them may say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/testing_cluster/register.h"

namespace penstock::test {

// Each block of 4 KiB is a Register, written by one thread at a time, and holds the number of the
// write, over and over. A cut writes nothing to the blocks behind it.
//
// Durable are writes that say so, and what was acknowledged before a sync began that succeeds,
// where no node has died since. Today a client cannot know that the store of another node died in
// between, and with it what was not on its disk: that needs the versions that the chunk protocol
// gets with chains.
class RegisterFile {
 public:
  explicit RegisterFile(uint32_t blocks) : registers_(blocks) {}

  uint32_t blocks() const { return static_cast<uint32_t>(registers_.size()); }
  static uint64_t offset(uint32_t block) { return block * kBlock; }
  static constexpr uint64_t kBlock = 4096;

  // The bytes of the next write of this block, which begins now.
  std::string begin_write(uint32_t block);
  void end_write(uint32_t block, bool succeeded, bool durable = true);

  // The file is set to this length, in blocks, by the only thread that writes it. Durable as soon
  // as anything of the file is.
  void begin_cut(uint32_t length);
  void end_cut(uint32_t length, bool succeeded);

  struct Sync {
    uint64_t deaths = 0;
    std::vector<uint64_t> written;  // of each block
  };
  Sync begin_sync() const;
  void end_sync(const Sync& sync, bool succeeded);

  // A node that has the file open or stores it is dead, and what was answered before has arrived.
  void node_died();

  // The moment at which a read of this block begins, to be given to check().
  uint64_t begin_read(uint32_t block) const { return registers_[block].begin_read(); }
  // Empty, or what is wrong with what such a read has found; zeros where the file ends before.
  std::string check(uint32_t block, uint64_t begun_at, const std::string& bytes);

 private:
  std::vector<Register> registers_;
  uint64_t writes_ = 0;  // the number of the last
  uint64_t deaths_ = 0;
  bool cut_is_durable_ = false;
};

// `number` over and over; and the number that `bytes` hold, or what is wrong with them.
std::string bytes_of_number(uint64_t number, size_t length);
std::string read_number(const std::string& bytes, uint64_t& number);

}  // namespace penstock::test
