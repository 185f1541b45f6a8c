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
  Location locate(BlockNumber block) const {
    return {files_[index_of(block)].file, offset_of(block)};
  }
  // In which data file a block is, and where there, in bytes.
  static uint32_t index_of(BlockNumber block) {
    ASSERT(block < limits::kTargetBlocksMax);
    if (block < limits::kSmallFilesBlocks) [[likely]]
      return static_cast<uint32_t>(block / limits::kDataFileBlocks);
    return limits::kDataFilesSmall + static_cast<uint32_t>((block - limits::kSmallFilesBlocks) /
                                                           limits::kDataFileBlocksLarge);
  }
  static uint64_t offset_of(BlockNumber block) {
    const bool small = block < limits::kSmallFilesBlocks;
    const uint64_t within =
        small ? block % limits::kDataFileBlocks
              : (block - limits::kSmallFilesBlocks) % limits::kDataFileBlocksLarge;
    return within * limits::kBlockBytes;
  }
  // The first block of a file, and how many it may have.
  static BlockNumber first_block_of(uint32_t index) {
    if (index < limits::kDataFilesSmall) return BlockNumber{index} * limits::kDataFileBlocks;
    return limits::kSmallFilesBlocks +
           BlockNumber{index - limits::kDataFilesSmall} * limits::kDataFileBlocksLarge;
  }
  static uint32_t blocks_max_of(uint32_t index) {
    return index < limits::kDataFilesSmall ? limits::kDataFileBlocks : limits::kDataFileBlocksLarge;
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
