// Sizes of a ring, as each side keeps them for itself: after set-up neither reads them from shared
// memory again, so a header that changes later changes nothing.
#pragma once

#include "penstock/base.h"
#include "penstock/ring/layout.h"

namespace penstock::ring {

struct Geometry {
  uint32_t entries = 0;  // per lane; a power of two
  uint32_t lanes = 0;

  // Rounds `entries` up to a power of two. invalid_argument outside the limits.
  static Result<Geometry> make(uint32_t entries, uint32_t lanes);

  uint64_t lane_bytes() const;
  uint64_t total_bytes() const { return kHeaderBytes + lanes * lane_bytes(); }
};

// The memory of one ring with its geometry; cheap to copy, owns nothing. The memory stays mapped
// while any side made from it is used.
class Memory {
 public:
  Memory() = default;

  // Writes a new header into `bytes`, zeroed memory of at least geometry.total_bytes(), aligned to
  // a page.
  static Memory format(MutableBytes bytes, Geometry geometry);
  // Reads a header that another process wrote: foreign input. Each field is read once.
  // wrong_version or bad_message when it does not describe a ring that lies wholly in `bytes`.
  static Result<Memory> open(MutableBytes bytes);

  const Geometry& geometry() const { return geometry_; }
  Header& header() const { return *reinterpret_cast<Header*>(base_); }
  LaneControl& control(uint32_t lane) const {
    return *reinterpret_cast<LaneControl*>(lane_base(lane));
  }
  Submission* submissions(uint32_t lane) const {
    return reinterpret_cast<Submission*>(lane_base(lane) + sizeof(LaneControl));
  }
  Completion* completions(uint32_t lane) const {
    return reinterpret_cast<Completion*>(lane_base(lane) + sizeof(LaneControl) +
                                         geometry_.entries * sizeof(Submission));
  }

 private:
  Memory(std::byte* base, Geometry geometry) : base_(base), geometry_(geometry) {}
  std::byte* lane_base(uint32_t lane) const {
    ASSERT(lane < geometry_.lanes);
    return base_ + kHeaderBytes + lane * geometry_.lane_bytes();
  }

  std::byte* base_ = nullptr;
  Geometry geometry_;
};

}  // namespace penstock::ring
