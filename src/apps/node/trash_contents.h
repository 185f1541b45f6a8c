// What lies in the trash, as a node finds it.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "penstock/client.h"

namespace penstock::apps {

// For one request, in one thread: remembers what it has found.
class TrashContents {
 public:
  explicit TrashContents(client::FileSystem& files) : files_(files) {}

  struct Hour {
    std::string name;
    meta::TrashHour hour;
    InodeId inode;
  };
  // Those whose name is, or begins before the days with, `wanted`; empty: all. The oldest first.
  Result<std::vector<Hour>> hours(const std::string& wanted);

  struct Entry {
    std::string name;
    InodeId inode;
    uint64_t cookie = 0;
  };
  Result<std::vector<Entry>> entries(InodeId hour, uint64_t after, size_t limit);

  // Where it was, for people: with the numbers of directories whose names are not found.
  std::string path_of(const meta::TrashEntry& entry);

  // Puts it back, and before it the directories that it was in, where these are in the trash. What
  // has the name meanwhile stays: already_exists. stale: its directory is gone for good.
  Status put_back(const Hour& hour, const std::string& name);
  // Puts it into that directory.
  Status put_to(const Hour& hour, const std::string& name, InodeId directory);
  // The newest that was removed by that name of a directory, if there is one.
  Result<std::optional<std::pair<Hour, std::string>>> newest(InodeId parent,
                                                             const std::string& name);

 private:
  std::string path_of(InodeId directory, int depth);
  std::string name_in(InodeId directory, InodeId inode);
  // The hour that a directory lies in, as it was removed.
  std::optional<Hour> hour_of(InodeId directory);
  // By inode, the names of directories in an hour.
  const std::unordered_map<InodeId, std::string>& directories_in(InodeId hour);
  Status put_back(const Hour& hour, const std::string& name, int depth);

  client::FileSystem& files_;
  size_t looked_at_ = 0;  // names
  std::optional<std::vector<Hour>> hours_;
  std::unordered_map<InodeId, std::string> paths_;
  std::unordered_map<InodeId, std::unordered_map<InodeId, std::string>> directories_;
};

}  // namespace penstock::apps
