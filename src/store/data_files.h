// The data files of a target: which block is where, and their growth.
#pragma once

#include "allocator.h"

#include <string>
#include <vector>

#include "penstock/store.h"

namespace penstock::store {

struct Core;

class DataFiles {
 public:
  explicit DataFiles(Core& core);
  ~DataFiles();

  // Opens what is there; `names` are those in the directory. Blocking, before the loop runs.
  Outcome<uint32_t> open(const std::vector<std::string>& names);

  struct Location {
    engine::DiskFile file;
    uint64_t offset;
  };
  Location locate(uint32_t block) const {
    return {files_[block / limits::kDataFileBlocks].file,
            uint64_t{block % limits::kDataFileBlocks} * limits::kBlockBytes};
  }
  engine::DiskFile file(uint32_t index) const { return files_[index].file; }
  static std::string name(uint32_t index);
  static std::optional<uint32_t> index_of(std::string_view name);

  // Starts to reserve more space, if there may be more and none is being reserved. True if it is
  // under way now; the new blocks then go to the allocator.
  bool grow();
  bool growing() const { return growing_; }
  // Bytes that may still be added, as far as is known now.
  uint64_t growth_left_bytes() const;
  // What a target may use of the file system's free space: all but what is left for databases.
  static uint64_t usable_bytes(const TargetConfig& config, const engine::DiskSpace& space);

 private:
  struct File {
    engine::DiskFile file;
    uint32_t blocks = 0;
  };

  bool start_growth();
  void on_grown();
  Outcome<uint32_t> open_one(uint32_t index, bool create);
  std::string path(uint32_t index) const;

  Core& core_;
  std::vector<File> files_;
  uint64_t blocks_ = 0;  // of all files
  uint32_t grow_file_ = 0;
  uint32_t grow_blocks_ = limits::kGrowBlocks;
  bool growing_ = false;
  engine::Time full_until_{};  // there was no room; not tried again before
  engine::DiskOp grow_op_;
};

}  // namespace penstock::store
