// What programs have listed, and ask the attributes of next.
#pragma once

#include "core.h"
#include "limits.h"

#include <atomic>
#include <list>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

namespace penstock::client {

// Where other nodes have the same files, a first look at one asks for its entry, a hold and its
// attributes, one after the other. Of what was listed all three are brought for many files
// together: at once where the program that lists wants attributes, else when it has looked at some
// of them. Where nothing is shared it does nothing. Thread safe; for threads that may block.
class Listed {
 public:
  explicit Listed(Core& core) : core_(core) {}

  // A program is told these names of a directory.
  void note(InodeId directory, std::span<const meta::DirectoryEntry> entries);
  // And their attributes: most of them are found without asking now.
  void bring(InodeId directory, std::span<const meta::DirectoryEntry> entries);
  // A program looks at that name.
  void about_to_look(InodeId directory, std::string_view name);
  // The attributes of these were found by paths, and those of files are to be looked at again under
  // a hold.
  void bring_files(std::span<const Result<meta::Attributes>> found);

 private:
  struct Entry {
    InodeId inode;
    meta::FileType type;
  };
  // A directory of which names were told that nobody has looked at.
  struct Directory {
    InodeId inode;
    std::unordered_map<std::string, Entry> left;
    size_t looks = 0;      // that found nothing
    engine::Time until{};  // then the program that listed it does something else
  };
  using Directories = std::list<Directory>;

  bool is_used() const { return core_.config.entries != nullptr && !core_.is_limited(); }
  std::vector<meta::DirectoryEntry> take_some(InodeId directory, std::string_view name);
  void bring_some(std::span<const Result<meta::Attributes>> found);
  void make_room();
  void forget(Directories::iterator directory);

  Core& core_;
  engine::Mutex mutex_;
  // Under it; the first was listed last.
  Directories directories_;
  std::unordered_map<InodeId, Directories::iterator> by_inode_;
  size_t names_ = 0;
  std::atomic<engine::Time> until_{};  // of all
};

}  // namespace penstock::client
