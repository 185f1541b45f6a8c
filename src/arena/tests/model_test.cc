// Random steps of an agent against a plain map.
#include "rig.h"

#include <algorithm>
#include <map>
#include <set>

namespace penstock::arena {
namespace {

constexpr uint64_t kInodes = 4;
constexpr uint32_t kExtents = 40;

class Model {
 public:
  Model(uint64_t seed, uint32_t slabs) : state_(seed), rig_(slabs) {}

  void step() {
    switch (below(8)) {
      case 0:
      case 1:
      case 2:
        return begin();
      case 3:
      case 4:
      case 5:
        return end();
      case 6:
        return change();
      default:
        rig_.segment->clean();
    }
  }

  void check(uint64_t evictions_at_most) {
    std::set<uint32_t> slots;
    uint64_t gone = 0;
    for (uint64_t inode = 1; inode <= kInodes; ++inode) {
      for (uint32_t number = 0; number < kExtents; ++number) {
        const Extent extent = extent_of(inode, number);
        const auto known = published_.find(extent);
        const Found found = rig_.reader->find(extent);
        if (found) {
          ASSERT_TRUE(known != published_.end()) << "what was dropped is still found";
          ASSERT_EQ(found.valid, known->second.valid);
          ASSERT_EQ(rig_.get(extent), known->second.version);
          ASSERT_TRUE(slots.insert(found.slot).second) << "two extents in one slot";
          ASSERT_EQ(rig_.segment->resident(extent), found.valid);
        } else if (known != published_.end()) {
          ++gone;
          published_.erase(known);
        }
      }
    }
    ASSERT_LE(gone, evictions_at_most) << "lost without need";
    evictions_ += gone;
    ASSERT_EQ(rig_.segment->status().evictions, evictions_);
  }

  uint64_t below(uint64_t bound) { return (state_ = mix64(state_)) % bound; }

  void finish() {
    while (!fills_.empty()) end();
  }

 private:
  struct Published {
    uint64_t version;
    uint32_t valid;
  };
  struct Pending {
    Segment::Fill fill;
    bool poisoned = false;
    bool grew = false;
  };

  void begin() {
    const Extent extent = extent_of(below(kInodes) + 1, static_cast<uint32_t>(below(kExtents)));
    const bool may_evict = below(2) == 0;
    Segment::Fill fill;
    const Segment::Start start =
        rig_.segment->begin_fill(extent, static_cast<uint32_t>(below(8)), may_evict, &fill);
    const bool filling = std::any_of(fills_.begin(), fills_.end(), [&](const Pending& p) {
      return p.fill.extent == extent && !p.poisoned;
    });
    if (published_.contains(extent)) {
      ASSERT_EQ(start, Segment::Start::resident);
    } else if (filling) {
      ASSERT_EQ(start, Segment::Start::filling);
    } else if (start == Segment::Start::begun) {
      fills_.push_back({fill});
      return check(may_evict ? 1 : 0);
    } else {
      ASSERT_EQ(start, Segment::Start::crowded);
    }
    check(0);
  }

  void end() {
    if (fills_.empty()) return;
    const auto chosen = fills_.begin() + static_cast<long>(below(fills_.size()));
    const Pending pending = *chosen;
    fills_.erase(chosen);
    const Extent extent = pending.fill.extent;
    if (below(8) == 0) {
      rig_.segment->abandon(pending.fill);
      return check(0);
    }
    const bool partial = below(4) == 0;
    const uint32_t valid =
        partial ? static_cast<uint32_t>(below(kExtentBytes / 8)) * 8 : kExtentBytes;
    const bool expected = valid > 0 && !pending.poisoned && !(partial && pending.grew);
    ASSERT_EQ(rig_.publish(pending.fill, ++version_, valid), expected);
    if (expected && partial) drop_partial(extent.inode, UINT32_MAX);
    if (expected) published_[extent] = {version_, valid};
    check(0);
  }

  void change() {
    const InodeId inode(below(kInodes) + 1);
    const uint64_t offset = below(4) == 0 ? 0 : below(uint64_t{kExtents} * kExtentBytes);
    const uint64_t length = below(8) == 0 ? UINT64_MAX : below(8 * kExtentBytes);
    rig_.segment->invalidate(inode, offset, length);
    if (length == 0) return check(0);
    const uint64_t first = offset / kExtentBytes;
    const uint64_t end = length == UINT64_MAX ? UINT64_MAX : offset + length;
    std::erase_if(published_, [&](const auto& one) {
      const uint64_t begins = uint64_t{one.first.number} * kExtentBytes;
      return one.first.inode == inode && one.first.number >= first && begins < end;
    });
    drop_partial(inode, static_cast<uint32_t>(first));
    for (Pending& pending : fills_) {
      const uint64_t begins = uint64_t{pending.fill.extent.number} * kExtentBytes;
      if (pending.fill.extent.inode != inode || begins >= end) continue;
      (pending.fill.extent.number >= first ? pending.poisoned : pending.grew) = true;
    }
    check(0);
  }

  void drop_partial(InodeId inode, uint32_t below_number) {
    std::erase_if(published_, [&](const auto& one) {
      return one.first.inode == inode && one.second.valid < kExtentBytes &&
             one.first.number < below_number;
    });
  }

  uint64_t state_;
  Rig rig_;
  std::map<Extent, Published> published_;
  std::vector<Pending> fills_;
  uint64_t version_ = 0;
  uint64_t evictions_ = 0;
};

TEST(SegmentModel, agrees_with_a_plain_map_for_random_steps) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Model model(seed, seed % 3 == 0 ? 16 : 2);
    for (int i = 0; i < 600; ++i) {
      model.step();
      if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " step " << i;
    }
    model.finish();
  }
}

}  // namespace
}  // namespace penstock::arena
