// What an update does to a chunk, computed before it is done: which bytes are new, which become
// zeros, which stay. Later parts hide earlier ones. Pure.
#pragma once

#include "limits.h"

#include <map>
#include <span>

#include "penstock/chain_store.h"

namespace penstock::store {

class UpdateEffect {
 public:
  enum class Source : uint8_t { base, zeros, bytes };
  // Bytes [begin, end) of the chunk; new ones are those of the update from `at` on.
  struct Segment {
    uint32_t begin = 0;
    uint32_t end = 0;
    Source source = Source::base;
    uint64_t at = 0;
  };

  // Copies the parts' effect; they are good. `length` is the chunk's before.
  UpdateEffect(std::span<const UpdatePart> parts, uint32_t length);

  // Of the chunk, afterwards.
  uint32_t length() const { return length_; }
  bool removed() const { return removed_; }

  // All that is not as it was lies in [begin, end); empty if nothing changes.
  uint32_t begin() const;
  uint32_t end() const;

  // At least one byte in which all lies that has to be looked at, of a chunk of that length before.
  struct Range {
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  Range range(uint32_t length_before) const;

  // What becomes of a block of the chunk.
  enum class Block : uint8_t {
    stays,     // none of it changes
    zeros,     // all of it becomes zeros
    trimmed,   // a part of it becomes zeros, the rest stays
    written,   // there are new bytes, and none that stay
    combined,  // there are new bytes beside some that stay
  };
  Block block(uint32_t index) const;
  // Makes the block's new content from its old one, which is in `content`.
  void apply(uint32_t index, Bytes bytes, std::byte* content) const;
  // `valid_end` of a block map, afterwards.
  uint32_t valid_end(uint32_t map, uint32_t before) const;

 private:
  void set(uint32_t begin, uint32_t end, Source source, uint64_t at);
  void split(uint32_t at);
  template <class Visit>
  void visit(uint32_t begin, uint32_t end, Visit visit) const;

  std::map<uint32_t, Segment> segments_;  // of the whole chunk, by begin
  std::vector<UpdatePart> parts_;
  uint32_t length_;
  bool removed_ = false;
};

}  // namespace penstock::store
