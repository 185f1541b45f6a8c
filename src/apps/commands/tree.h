// Walking a source tree once, in an order in which parents come before their children, with bounded
// memory however many files there are.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <sys/stat.h>
#include <vector>

#include "penstock/base.h"
#include "penstock/console.h"

namespace penstock::apps {

struct TreeEntry {
  std::string path;      // as the operating system reaches it
  std::string relative;  // below the root, without a leading slash; empty for the root itself
  struct stat st {};
};

// Opens the files of a tree. Their paths lead on from the root, so that the kernel does not walk to
// it for each. Thread safe.
class TreeFiles {
 public:
  explicit TreeFiles(const std::string& root);
  // For reading, without following a link; none with errno.
  UniqueFd open(const TreeEntry& entry) const;

 private:
  UniqueFd root_;  // none when it is no directory, or may not be opened
};

// Calls `visit` for the root and everything below it, on the same file system or not, without
// following symbolic links. Unreadable directories go to `problem`.
enum class TreeStep { go_on, not_below, stop };
using TreeVisit = std::function<TreeStep(TreeEntry&& entry)>;
using TreeProblem = std::function<void(const std::string& path, const std::string& why)>;
void walk_tree(const std::string& root, const TreeVisit& visit, const TreeProblem& problem);

// Counts files and bytes ahead of the work and tells `progress`; a thread of its own may run it.
void count_tree(const std::string& root, const std::atomic<bool>& stop,
                console::Progress* progress);

// A bounded queue between one walker and the workers.
class TreeQueue {
 public:
  // Blocks while full; false after close().
  bool push(TreeEntry entry);
  // As many as are worth a trip together, and no more of large ones than keep a worker busy for a
  // moment. Blocks until there are so many; fewer after close(), and none once it is drained.
  std::vector<TreeEntry> pop();
  void close();

 private:
  static constexpr size_t kTogether = 256;
  static constexpr uint64_t kBytesTogether = 4 * kMiB;
  static constexpr size_t kCapacity = 8 * kTogether;
  std::mutex mutex_;
  std::condition_variable filled_;   // kTogether are there, or no more come
  std::condition_variable emptied_;  // there is room again
  std::deque<TreeEntry> entries_;
  bool closed_ = false;
};

// Problems with single files are reported and counted, and the rest goes on; after too many of them
// only the count grows.
class Problems {
 public:
  explicit Problems(const char* command) : command_(command) {}
  void add(const std::string& path, const std::string& why);
  uint64_t count() const;

 private:
  static constexpr uint64_t kShown = 20;
  const char* command_;
  mutable std::mutex mutex_;
  uint64_t count_ = 0;
};

}  // namespace penstock::apps
