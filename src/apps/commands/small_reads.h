// Small files of a file system of ours, read many at a time, for a tree that they are held against.
#pragma once

#include "tree.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "penstock/console.h"

namespace penstock::apps {

// One worker's. Owner thread only.
class SmallReads {
 public:
  // `error` is 0 or a positive errno; the bytes are there only with 0, as many as the entry says.
  using Check =
      std::function<void(const TreeEntry& entry, int error, std::span<const std::byte> bytes)>;

  static Outcome<SmallReads> create(penstock_session* session);

  // Whether it is one for here: regular and small.
  static bool takes(const TreeEntry& entry);
  bool has_room_for(const TreeEntry& entry) const;
  // `destination` is the file of ours; it is as long as the entry says.
  void add(TreeEntry entry, std::string destination);
  // Reads all that were added, shows each to `check`, and gives the memory free.
  void read(const Check& check);

 private:
  // What one request takes; and memory for as many of a usual size.
  static constexpr size_t kFilesMax = 512;
  static constexpr uint64_t kBytes = 4 * kMiB;
  static constexpr uint64_t kFileBytesMax = 256 * kKiB;
  struct File {
    TreeEntry entry;
    std::string destination;
    uint64_t offset = 0;
  };

  explicit SmallReads(penstock_session* session) : session_(session) {}

  penstock_session* session_;
  console::Region region_;
  uint64_t used_ = 0;
  std::vector<File> files_;
};

}  // namespace penstock::apps
