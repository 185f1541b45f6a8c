// What chunks may contain: a record of updates with when they began and ended, against which the
// bytes that a read returned are checked. Each update writes bytes that tell it from every other.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base.h"

namespace penstock::store {

// The bytes that update `id` puts at [begin, begin + to.size()) of a chunk; id 0 stands for zeros.
void fill_content(uint64_t id, uint32_t begin, MutableBytes to);

struct Update {
  static constexpr uint64_t kNever = UINT64_MAX;
  uint64_t id = 0;     // of its content
  uint32_t begin = 0;  // bytes of the chunk
  uint32_t end = 0;
  uint64_t started = 0;  // logical times
  uint64_t ended = kNever;
  bool durable = false;
  bool base = false;  // a remainder of older updates
};

class ChunkHistory {
 public:
  explicit ChunkHistory(uint32_t length) { updates_.push_back(zeros(length)); }

  // Returns a name for it.
  uint64_t begin(Update update);
  void end(uint64_t name, uint64_t now);
  // It had no effect.
  void forget(uint64_t name);
  // Everything that ended before `time` has become durable.
  void make_durable(uint64_t time);
  void make_durable_one(uint64_t name);

  // Whether a read of [offset, offset + bytes.size()) that took place within (from, to) may return
  // `bytes`; the reason why not, or empty.
  std::string check_read(uint32_t offset, Bytes bytes, uint64_t from, uint64_t to) const;
  // Whether `bytes` at `offset` may be what a target shows that goes back to what was committed:
  // nothing older than what is durable.
  std::string check_kept(uint32_t offset, Bytes bytes) const;
  // Whether `bytes` (the whole chunk) may be there after a crash: what is durable, and of the rest
  // each update whole or not at all, and none without those before it that share a block map.
  std::string check_crash(Bytes bytes);
  // What was seen by check_crash() is the past now.
  void rebase();

 private:
  struct Named {
    uint64_t name;
    Update update;
  };
  static Named zeros(uint32_t length);
  struct Seen {
    uint32_t begin;
    uint32_t end;
    const Update* update;
  };
  std::string see_kept(uint32_t offset, Bytes bytes, std::vector<Seen>& seen) const;
  std::vector<uint32_t> cuts(uint32_t begin, uint32_t end) const;
  static bool matches(const Update& update, uint32_t begin, Bytes bytes);
  std::string check_order() const;
  static std::string check_whole(const std::vector<Seen>& seen);
  std::string complaint(uint32_t begin, uint32_t end, Bytes bytes) const;

  std::vector<Named> updates_;
  std::vector<Seen> seen_;
  uint64_t next_name_ = 1;
};

}  // namespace penstock::store
