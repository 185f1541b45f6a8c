#include "listed.h"

#include "held.h"

#include <algorithm>

namespace penstock::client {

using meta::DirectoryEntry;
using meta::FileType;

void Listed::note(InodeId directory, std::span<const DirectoryEntry> entries) {
  if (!is_used() || entries.empty()) return;
  const engine::Time until = core_.clock().now() + limits::kListedFor;
  const std::lock_guard lock(mutex_);
  const auto [at, added] = by_inode_.try_emplace(directory);
  if (added) {
    directories_.emplace_front();
    directories_.front().inode = directory;
  } else {
    directories_.splice(directories_.begin(), directories_, at->second);
  }
  at->second = directories_.begin();
  Directory& here = directories_.front();
  here.looks = 0;
  here.until = until;
  for (const DirectoryEntry& entry : entries) {
    names_ += here.left.insert_or_assign(entry.name, Entry{entry.inode, entry.type}).second ? 1 : 0;
  }
  make_room();
  until_.store(until, std::memory_order_relaxed);
}

// With the lock, as all below.
void Listed::forget(Directories::iterator directory) {
  names_ -= directory->left.size();
  by_inode_.erase(directory->inode);
  directories_.erase(directory);
}

// What was listed longest ago goes; of one directory that is too large, any.
void Listed::make_room() {
  while (names_ > limits::kListedMax) {
    const auto oldest = std::prev(directories_.end());
    if (oldest != directories_.begin()) {
      forget(oldest);
      continue;
    }
    names_ -= 1;
    oldest->left.erase(oldest->left.begin());
  }
}

void Listed::about_to_look(InodeId directory, std::string_view name) {
  if (core_.clock().now() >= until_.load(std::memory_order_relaxed)) return;
  bring(directory, take_some(directory, name));
}

// Nothing, as long as it is not likely that the program looks at all of them.
std::vector<DirectoryEntry> Listed::take_some(InodeId directory, std::string_view name) {
  std::vector<DirectoryEntry> some;
  const engine::Time now = core_.clock().now();
  const std::lock_guard lock(mutex_);
  const auto found = by_inode_.find(directory);
  if (found == by_inode_.end()) return some;
  Directory& here = *found->second;
  if (now >= here.until) {
    forget(found->second);
    return some;
  }
  const auto take = [&](auto at) {
    some.push_back({at->first, at->second.inode, at->second.type});
    names_ -= 1;
    here.left.erase(at);
  };
  const auto looked_at = here.left.find(std::string(name));
  if (looked_at == here.left.end()) return some;
  const bool is_kept = core_.config.entries->is_kept(directory, name, looked_at->second.inode);
  take(looked_at);
  if (is_kept || ++here.looks <= limits::kLooksBeforeAll) {
    some.clear();
  } else {
    while (some.size() < limits::kBroughtAtOnce && !here.left.empty()) take(here.left.begin());
    here.until = now + limits::kListedFor;
    until_.store(here.until, std::memory_order_relaxed);
  }
  if (here.left.empty()) forget(found->second);
  return some;
}

void Listed::bring(InodeId directory, std::span<const DirectoryEntry> entries) {
  if (!is_used() || entries.size() < 2) return;
  std::vector<meta::Look> looks;
  std::vector<InodeId> files;
  for (const DirectoryEntry& entry : entries) {
    if (core_.config.entries->is_kept(directory, entry.name, entry.inode)) continue;
    looks.push_back({.inode = directory, .name = entry.name, .leads_to = entry.inode});
    if (entry.type == FileType::regular) {
      files.push_back(entry.inode);
    } else {
      core_.config.holding->want(entry.inode);
    }
  }
  if (looks.size() < 2) return;
  core_.config.holding->want(directory);
  bring_holds(core_, files, limits::kBringMost);
  // What cannot be had is for each question to say.
  (void)core_.meta.look(looks);
}

// The holds of one call are in use until it is answered: no more of them at a time than it may ask.
void Listed::bring_files(std::span<const Result<meta::Attributes>> found) {
  if (!is_used()) return;
  while (!found.empty()) {
    const size_t count = std::min(found.size(), limits::kLooksAtOnce);
    bring_some(found.first(count));
    found = found.subspan(count);
  }
}

void Listed::bring_some(std::span<const Result<meta::Attributes>> found) {
  std::vector<meta::Look> looks;
  std::vector<InodeId> files;
  for (const Result<meta::Attributes>& one : found) {
    if (!one || one->kept || one->type != FileType::regular) continue;
    files.push_back(one->inode);
    looks.push_back({one->inode, {}});
  }
  if (looks.size() < 2) return;
  bring_holds(core_, files, limits::kBringMost);
  (void)core_.meta.look(looks);
}

}  // namespace penstock::client
