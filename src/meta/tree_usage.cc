#include "tree_usage.h"

#include <unordered_set>

#include "penstock/meta/records/limits.h"

namespace penstock::meta {
namespace {

class TreeUsage {
 public:
  TreeUsage(View& view, size_t inodes_max, const Unplaced& unplaced)
      : view_(view), inodes_max_(inodes_max), unplaced_(unplaced) {}

  Result<std::optional<UsageRecord>> of(InodeId top) {
    directories_.push_back(top);
    while (!directories_.empty()) {
      const InodeId next = directories_.back();
      directories_.pop_back();
      TRY_ASSIGN(const bool goes_on, directory(next));
      if (!goes_on) return std::optional<UsageRecord>();
    }
    return std::optional<UsageRecord>(sum_);
  }

 private:
  // False: there are too many.
  Result<bool> directory(InodeId id) {
    uint64_t after = 0;
    while (true) {
      std::vector<CookieEntry> page;
      TRY(view_.scan_entries(id, after, [&](uint64_t cookie, CookieEntry& entry) {
        after = cookie;
        page.push_back(std::move(entry));
        return page.size() < kEntriesPerTransaction;
      }));
      for (const CookieEntry& entry : page) {
        TRY(name(id, entry));
        if (looked_at_ > inodes_max_) return false;
      }
      if (page.size() < kEntriesPerTransaction) return true;
    }
  }

  Status name(InodeId directory, const CookieEntry& entry) {
    ++looked_at_;
    TRY_ASSIGN(const Inode inode, view_.named_inode(entry.inode));
    if (inode.trash != TrashPart::none) return {};
    if (inode.is_directory()) {
      directories_.push_back(inode.id());
    } else if (inode.parent == InodeId()) {
      if (unplaced_) unplaced_(inode, directory, entry.name);
      return {};
    } else if (inode.parent != directory) {
      return {};
    } else if (inode.attributes.links > 1 && !seen_.insert(inode.id()).second) {
      return {};
    }
    const UsageRecord usage = usage_of(inode.attributes);
    sum_.bytes += usage.bytes;
    sum_.inodes += usage.inodes;
    return {};
  }

  View& view_;
  const size_t inodes_max_;
  const Unplaced& unplaced_;
  std::vector<InodeId> directories_;
  std::unordered_set<InodeId> seen_;  // of those with several names
  UsageRecord sum_;
  size_t looked_at_ = 0;
};

}  // namespace

Result<std::optional<UsageRecord>> usage_below(View& view, InodeId top, size_t inodes_max,
                                               const Unplaced& unplaced) {
  return TreeUsage(view, inodes_max, unplaced).of(top);
}

Result<std::optional<UsageRecord>> usage_of_tree(View& view, const Inode& top, size_t inodes_max) {
  ASSERT(top.is_directory());
  TRY_ASSIGN(std::optional<UsageRecord> below, usage_below(view, top.id(), inodes_max, {}));
  if (!below) return below;
  const UsageRecord own = usage_of(top.attributes);
  return std::optional<UsageRecord>({below->bytes + own.bytes, below->inodes + own.inodes});
}

}  // namespace penstock::meta
