// A list of files, opened, read and closed: by requests for many at once, from the node cache where
// that has them.
#pragma once

#include <array>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "penstock/files/file_list.h"
#include "penstock/files/limits.h"
#include "penstock/files/staging_pool.h"
#include "penstock/lanes.h"

namespace penstock::files {

// Used once. The list stays the caller's, which sees each file's size and result in it.
class ReadList {
 public:
  ReadList(lanes::Session& session, StagingPool& staging, std::span<ListedRead> files)
      : session_(session), staging_(staging), files_(files) {}

  // An error when the agent is gone: files that have no result by then get it, too.
  Outcome<void> read();

 private:
  class Worker;
  // Files that one worker asks for together; empty when there are no more.
  std::span<ListedRead> next();
  void work();
  // Whether many of the files that a worker asked for last had to come from the disk.
  void learn(bool from_disk);
  void start_threads(size_t count);
  void fail(const Failure& failure);

  lanes::Session& session_;
  StagingPool& staging_;
  const std::span<ListedRead> files_;

  std::mutex mutex_;
  std::array<std::thread, limits::kListThreadsMax> others_;
  size_t started_ = 0;  // of them
  size_t next_ = 0;
  size_t files_together_ = 0;
  std::optional<Failure> failure_;
};

}  // namespace penstock::files
