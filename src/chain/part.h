// What a target is in the newest version of a chain that it has adopted.
#pragma once

#include <optional>
#include <span>

#include "penstock/chain/view.h"

namespace penstock::chain {

class Part {
 public:
  Part(TargetId target, uint64_t incarnation) : target_(target), incarnation_(incarnation) {}

  // `view` is newer than the last one.
  void adopt(const View& view) {
    ASSERT(view.version > view_.version);
    ASSERT(view.syncing() == nullptr || view.serving() > 0);
    view_ = view;
    active = false;
    index_.reset();
    for (size_t i = 0; i < view_.members.size(); ++i) {
      const Member& member = view_.members[i];
      if (member.target == target_ && member.incarnation == incarnation_) index_ = i;
    }
  }

  uint64_t version() const { return view_.version; }
  const View& view() const { return view_; }
  bool serves() const { return stands(Standing::serving); }
  bool syncs() const { return stands(Standing::syncing); }
  bool is_head() const { return serves() && *index_ == 0; }
  bool is_commit_point() const { return serves() && *index_ + 1 == view_.serving(); }

  // How many stand before it. For what serves or syncs.
  size_t place() const {
    ASSERT(serves() || syncs());
    return *index_;
  }

  // Null for the head, and for what neither serves nor syncs.
  const Member* predecessor() const {
    if (syncs()) return view_.serving() > 0 ? &view_.members[view_.serving() - 1] : nullptr;
    return serves() && *index_ > 0 ? &view_.members[*index_ - 1] : nullptr;
  }
  // One of those that serve before it; null if that target is none.
  const Member* before(TargetId target) const {
    if (!serves()) return nullptr;
    for (size_t i = 0; i < *index_; ++i) {
      if (view_.members[i].target == target) return &view_.members[i];
    }
    return nullptr;
  }
  // All of those, the head first.
  std::span<const Member> all_before() const {
    if (!serves()) return {};
    return std::span(view_.members).first(*index_);
  }
  // The next that serves; null for the commit point.
  const Member* next() const {
    return serves() && !is_commit_point() ? &view_.members[*index_ + 1] : nullptr;
  }
  // For the commit point: the syncing one behind it.
  const Member* follower() const { return is_commit_point() ? view_.syncing() : nullptr; }
  const Member& commit_point() const { return view_.members[view_.serving() - 1]; }

  TargetId target() const { return target_; }
  uint64_t incarnation() const { return incarnation_; }

  // All that serve before it have adopted this version.
  bool active = false;

 private:
  bool stands(Standing standing) const {
    return index_.has_value() && view_.members[*index_].standing == standing;
  }

  const TargetId target_;
  const uint64_t incarnation_;
  View view_;
  std::optional<size_t> index_;
};

}  // namespace penstock::chain
