// A set of small files in directories, the same on the disk's own file system and in a store.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/engine.h"

namespace penstock::bench {

struct SmallFile {
  std::string path;  // below the root, with a slash in front
  uint64_t bytes = 0;
};

class SmallFilesSet {
 public:
  static constexpr size_t kFilesInDirectory = 256;

  // Sizes between both, each magnitude as often as any other, until there are `total` bytes.
  static SmallFilesSet of_sizes(uint64_t least, uint64_t most, uint64_t total);

  const std::vector<SmallFile>& files() const { return files_; }
  uint64_t bytes() const { return bytes_; }
  // Writes all below `root`, which is made.
  Outcome<void> make(const std::string& root) const;
  // Each file once, in an order that another call does not repeat.
  std::vector<const SmallFile*> shuffled();

 private:
  std::vector<SmallFile> files_;
  uint64_t bytes_ = 0;
  engine::SeededRandom random_{5};
};

// Opens, reads and closes each, by so many threads. Seconds.
Outcome<double> read_by_threads(const std::string& root, const std::vector<const SmallFile*>& files,
                                uint32_t threads);
// Writes back what is dirty, and forgets what the kernel keeps of files. False where only root may.
bool drop_kernel_caches();
// Runs a program, without what it prints. Seconds.
Outcome<double> run_program(const std::vector<std::string>& arguments);

}  // namespace penstock::bench
