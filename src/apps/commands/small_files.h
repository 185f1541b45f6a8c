// Small files of a tree, gathered in memory and made in a file system of ours many at a time.
#pragma once

#include "tree.h"

#include <algorithm>
#include <string>
#include <unistd.h>
#include <vector>

#include "penstock/console.h"

namespace penstock::apps {

// One worker's. Owner thread only.
class SmallFiles {
 public:
  struct File {
    TreeEntry entry;
    std::string destination;
  };

  static Outcome<SmallFiles> create(penstock_session* session);

  // Whether it is one for here: regular, small, and without holes.
  static bool takes(const TreeEntry& entry);
  bool has_room_for(const TreeEntry& entry) const;
  // Reads it, and takes the entry. False, and nothing has happened, if it is not as its entry says,
  // or cannot be read.
  bool add(const TreeFiles& tree, TreeEntry& entry, std::string destination);

  // Makes all that were added, and gives the memory free. Calls `made` with each file that is there
  // now, with its owner, mode and times, and returns the others, of which nothing is.
  template <class Made>
  std::vector<File> make(const Made& made) {
    std::vector<File> others;
    create_all();
    for (size_t i = 0; i < files_.size(); ++i) {
      if (requests_[i].result == 0) {
        made(files_[i].entry);
      } else {
        others.push_back(std::move(files_[i]));
      }
    }
    files_.clear();
    requests_.clear();
    used_ = 0;
    files_max_ = std::min(2 * files_max_, kFilesMax);
    return others;
  }

 private:
  // What one request takes; and memory for as many of one block, which is cleared and pinned before
  // the first file is read. The first ones are shorter, so
  // that the node has work while the command still reads.
  static constexpr size_t kFilesMax = 512;
  static constexpr size_t kFirstFiles = 64;
  static constexpr uint64_t kBytes = 2 * kMiB;
  static constexpr uint64_t kFileBytesMax = 256 * kKiB;

  explicit SmallFiles(penstock_session* session) : session_(session) {}
  void create_all();

  penstock_session* session_;
  bool is_root_ = ::geteuid() == 0;
  console::Region region_;
  uint64_t used_ = 0;
  size_t files_max_ = kFirstFiles;
  std::vector<File> files_;
  std::vector<penstock_new_file> requests_;  // of each
};

}  // namespace penstock::apps
