#include "listed.h"

#include "held.h"

namespace penstock::client {

using meta::DirectoryEntry;
using meta::FileType;

void Listed::note(InodeId directory, std::span<const DirectoryEntry> entries) {
  if (!is_used() || entries.empty()) return;
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
  for (const DirectoryEntry& entry : entries) {
    names_ += here.left.insert_or_assign(entry.name, entry).second ? 1 : 0;
  }
  make_room();
  has_some_.store(!directories_.empty(), std::memory_order_relaxed);
}

// With the lock. What was listed longest ago goes; of one directory that is too large, any.
void Listed::make_room() {
  while (names_ > limits::kListedMax) {
    Directory& oldest = directories_.back();
    if (&oldest == &directories_.front()) {
      names_ -= 1;
      oldest.left.erase(oldest.left.begin());
      continue;
    }
    names_ -= oldest.left.size();
    by_inode_.erase(oldest.inode);
    directories_.pop_back();
  }
}

void Listed::about_to_look(InodeId directory, std::string_view name) {
  if (!has_some_.load(std::memory_order_relaxed)) return;
  bring(directory, take_some(directory, name));
}

// Nothing, as long as it is not likely that the program looks at all of them.
std::vector<DirectoryEntry> Listed::take_some(InodeId directory, std::string_view name) {
  std::vector<DirectoryEntry> some;
  const std::lock_guard lock(mutex_);
  const auto found = by_inode_.find(directory);
  if (found == by_inode_.end()) return some;
  Directory& here = *found->second;
  const auto looked_at = here.left.find(std::string(name));
  if (looked_at == here.left.end()) return some;
  const bool is_kept = core_.config.entries->is_kept(directory, name, looked_at->second.inode);
  if (!is_kept && ++here.looks > limits::kLooksBeforeAll) {
    some.push_back(std::move(looked_at->second));
  }
  names_ -= 1;
  here.left.erase(looked_at);
  while (!some.empty() && some.size() < limits::kBroughtAtOnce && !here.left.empty()) {
    const auto next = here.left.begin();
    some.push_back(std::move(next->second));
    names_ -= 1;
    here.left.erase(next);
  }
  if (here.left.empty()) {
    directories_.erase(found->second);
    by_inode_.erase(found);
    has_some_.store(!directories_.empty(), std::memory_order_relaxed);
  }
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

void Listed::bring_files(std::span<const Result<meta::Attributes>> found) {
  if (!is_used()) return;
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
