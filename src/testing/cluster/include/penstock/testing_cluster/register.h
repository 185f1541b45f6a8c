// What one thread at a time writes and any thread reads, on nodes that die.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock::test {

// A block of a file, or a name. Each write leaves a value; 0 is "nothing there", as before the
// first. A write that failed may happen at any later moment, before the writer's next one is done,
// or never. So a read finds what the last write that succeeded has left, or one that was begun
// since; and nothing older than an earlier read has found. That is linearisability with one writer.
//
// A death may take back what is not durable: a read that ends later finds the newest durable write
// or any later one. What such a read has found may be lost with the next death.
class Register {
 public:
  void begin_write(uint64_t value);
  enum class Written : uint8_t {
    perhaps,  // it failed
    for_now,  // until a death
    durably,
  };
  void end_write(Written how);

  // The newest write that is known to be there; what is durable once a sync that begins now has
  // succeeded without a death meanwhile: that is what deaths() is for.
  uint64_t written() const { return written_; }
  void synced(uint64_t written);
  bool any_durable() const { return durable_ > 0; }

  void die();

  // The moment at which a read begins, to be given to check().
  uint64_t begin_read() const { return floors_.size() - 1; }
  // Empty, or what is wrong with the value that such a read has found.
  std::string check(uint64_t begun_at, uint64_t value);

 private:
  bool died_since(uint64_t moment) const { return died_at_ > moment; }
  void raise(uint64_t floor);

  // What follows are numbers of writes, which count from 1.
  std::vector<uint64_t> values_{0};  // of each write
  uint64_t written_ = 0;             // the last that succeeded; after a death, that is durable
  uint64_t durable_ = 0;
  std::vector<uint64_t> floors_{0};  // at each moment: no read finds an older one
  uint64_t died_at_ = 0;             // the moment of the last death
  uint64_t write_begun_at_ = 0;
};

}  // namespace penstock::test
