// The content behind SimDiskImage: files with what is read now, what is durable, and what lies
// between the two.
#pragma once

#include <array>
#include <functional>
#include <unordered_map>

#include "penstock/sim.h"

namespace penstock::sim::internal {

// Sparse bytes; pages are shared between copies until one of them is written to.
class SimPages {
 public:
  static constexpr uint64_t kPageBytes = 4096;

  void read(uint64_t offset, MutableBytes to) const;
  void write(uint64_t offset, Bytes from);
  void zero(uint64_t offset, uint64_t length);
  // Makes the pages that [offset, offset + length) touches those of `other`.
  void share(const SimPages& other, uint64_t offset, uint64_t length);

 private:
  using Page = std::array<std::byte, kPageBytes>;
  Page& writable(uint64_t index);
  std::unordered_map<uint64_t, std::shared_ptr<Page>> pages_;
};

// A set of numbers as disjoint half-open intervals.
class SimIntervals {
 public:
  void insert(uint64_t begin, uint64_t end);
  void erase(uint64_t begin, uint64_t end);
  uint64_t count_missing(uint64_t begin, uint64_t end) const;
  uint64_t count() const;

 private:
  std::map<uint64_t, uint64_t> ends_;  // begin -> end
};

// A change that no sync has covered yet.
struct SimChange {
  engine::DiskOpKind kind = engine::DiskOpKind::write;
  uint64_t offset = 0;
  uint64_t length = 0;
  std::vector<std::byte> data;  // of a write
  uint64_t number = 0;
  // A sync that should have covered it failed: later syncs do not cover it either.
  bool doomed = false;
};

struct SimContent {
  SimPages pages;
  SimIntervals allocated;  // page numbers
  uint64_t size = 0;

  void apply(const SimChange& change);
};

struct SimInode {
  SimContent now;
  SimContent durable;
  std::vector<SimChange> unsynced;  // in the order of completion
  uint64_t changes = 0;

  void change(SimChange change);
  // What completed up to change number `mark` becomes durable.
  void sync(uint64_t mark);
  // Only the newest change does.
  void sync_newest();
  void fail_sync(uint64_t mark);
  void power_cut(SimWorld& world, const SimDiskFaults& faults);

 private:
  void keep(const std::function<bool(const SimChange&)>& covers);
};

// Each 512-byte sector of the change is in it or not, by chance.
void apply_torn(SimContent& content, const SimChange& change, engine::Random& random);

struct SimTree {
  // Normalised paths ("/a/b"); a directory has no inode.
  std::map<std::string, std::shared_ptr<SimInode>> nodes;
  std::set<std::string> locked;
  uint64_t capacity_pages = 0;
  // Inodes without a name that are still open: they die with their last user, and their space is
  // counted until then.
  std::vector<std::weak_ptr<SimInode>> removed;

  uint64_t used_pages() const;
  bool has_room(const SimInode& inode, uint64_t offset, uint64_t length) const;
};

std::string normalised(const std::string& path);
std::string parent_of(const std::string& normalised_path);

}  // namespace penstock::sim::internal
