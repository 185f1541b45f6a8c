#include "trash_contents.h"

#include <algorithm>
#include <fmt/format.h>

namespace penstock::apps {
namespace {

// A name is looked for among so many of its directory: beyond that its number has to do.
constexpr size_t kNamesLookedAt = 20'000;
// And so many in all of a request.
constexpr size_t kNamesLookedAtInAll = 200'000;
// Directories that are shown, or put back, around what was removed.
constexpr int kDirectoriesAround = 256;

client::Credentials trash_keeper() {
  client::Credentials unchecked;
  unchecked.enforce = false;
  return unchecked;
}

}  // namespace

Result<std::vector<TrashContents::Hour>> TrashContents::hours(const std::string& wanted) {
  if (!hours_) {
    std::vector<Hour> all;
    const auto top = files_.lookup(trash_keeper(), meta::kRootInode, meta::kTrashName);
    if (!top && top.error() != Code::not_found) return top.error();
    if (top) {
      TRY(files_.meta().read_directory(
          top->inode, 0, SIZE_MAX, false,
          [&](const meta::DirectoryEntry& entry, const meta::Attributes*) {
            const auto hour = meta::parse_trash_hour(entry.name);
            if (hour) all.push_back({entry.name, *hour, entry.inode});
            return true;
          }));
    }
    std::sort(all.begin(), all.end(), [](const Hour& a, const Hour& b) { return a.hour < b.hour; });
    hours_ = std::move(all);
  }
  std::vector<Hour> some;
  for (const Hour& hour : *hours_) {
    const bool is_it =
        wanted.empty() || hour.name == wanted || hour.name.substr(0, hour.name.find('.')) == wanted;
    if (is_it) some.push_back(hour);
  }
  return some;
}

Result<std::vector<TrashContents::Entry>> TrashContents::entries(InodeId hour, uint64_t after,
                                                                 size_t limit) {
  std::vector<Entry> all;
  TRY(files_.meta().read_directory(hour, after, limit, false,
                                   [&](const meta::DirectoryEntry& entry, const meta::Attributes*) {
                                     all.push_back({entry.name, entry.inode, entry.cookie});
                                     return true;
                                   }));
  return all;
}

const std::unordered_map<InodeId, std::string>& TrashContents::directories_in(InodeId hour) {
  const auto [at, is_new] = directories_.try_emplace(hour);
  if (is_new) {
    (void)files_.meta().read_directory(
        hour, 0, SIZE_MAX, false, [&](const meta::DirectoryEntry& entry, const meta::Attributes*) {
          if (entry.type == meta::FileType::directory) at->second[entry.inode] = entry.name;
          return true;
        });
  }
  return at->second;
}

std::optional<TrashContents::Hour> TrashContents::hour_of(InodeId directory) {
  const auto above = files_.lookup(trash_keeper(), directory, "..");
  const auto all = hours("");
  if (!above || !all) return std::nullopt;
  for (const Hour& hour : *all) {
    if (hour.inode == above->inode) return hour;
  }
  return std::nullopt;
}

std::string TrashContents::name_in(InodeId directory, InodeId inode) {
  std::string name;
  const size_t most = std::min(kNamesLookedAt, kNamesLookedAtInAll - looked_at_);
  (void)files_.meta().read_directory(
      directory, 0, most, false, [&](const meta::DirectoryEntry& entry, const meta::Attributes*) {
        ++looked_at_;
        if (entry.inode == inode) name = entry.name;
        return name.empty();
      });
  return name.empty() ? fmt::format("[inode {}]", inode.value) : name;
}

std::string TrashContents::path_of(InodeId directory, int depth) {
  if (directory == meta::kRootInode) return "";
  if (const auto known = paths_.find(directory); known != paths_.end()) return known->second;
  const std::string number = fmt::format("[inode {}]", directory.value);
  const auto above = files_.lookup(trash_keeper(), directory, "..");
  if (!above || depth == 0) return number;
  std::string path;
  if (const std::optional<Hour> hour = hour_of(directory)) {
    const auto& names = directories_in(hour->inode);
    const auto name = names.find(directory);
    const auto was = name == names.end() ? std::nullopt : meta::parse_trash_entry(name->second);
    path = was ? path_of(was->parent, depth - 1) + "/" + was->name : number;
  } else {
    path = path_of(above->inode, depth - 1) + "/" + name_in(above->inode, directory);
  }
  return paths_[directory] = path;
}

std::string TrashContents::path_of(const meta::TrashEntry& entry) {
  return path_of(entry.parent, kDirectoriesAround) + "/" + entry.name;
}

Status TrashContents::put_to(const Hour& hour, const std::string& name, InodeId directory) {
  const auto was = meta::parse_trash_entry(name);
  if (!was) return Code::invalid_argument;
  meta::RenameFlags flags;
  flags.no_replace = true;
  return files_.rename(trash_keeper(), hour.inode, name, directory, was->name, flags, nullptr);
}

Status TrashContents::put_back(const Hour& hour, const std::string& name) {
  return put_back(hour, name, kDirectoriesAround);
}

Status TrashContents::put_back(const Hour& hour, const std::string& name, int depth) {
  const auto was = meta::parse_trash_entry(name);
  if (!was) return Code::invalid_argument;
  if (depth == 0) return Code::not_supported;
  const auto parent = files_.attributes(was->parent);
  const bool is_there = parent && parent->type == meta::FileType::directory && parent->links > 0;
  if (!is_there) return Code::stale;
  if (const std::optional<Hour> above = hour_of(was->parent)) {
    const auto& names = directories_in(above->inode);
    const auto found = names.find(was->parent);
    if (found == names.end()) return Code::stale;
    TRY(put_back(*above, found->second, depth - 1));
  }
  return put_to(hour, name, was->parent);
}

Result<std::optional<std::pair<TrashContents::Hour, std::string>>> TrashContents::newest(
    InodeId parent, const std::string& name) {
  TRY_ASSIGN(const std::vector<Hour> all, hours(""));
  for (auto hour = all.rbegin(); hour != all.rend(); ++hour) {
    std::string found;
    TRY(files_.meta().read_directory(
        hour->inode, 0, SIZE_MAX, false,
        [&](const meta::DirectoryEntry& entry, const meta::Attributes*) {
          const auto was = meta::parse_trash_entry(entry.name);
          if (was && was->parent == parent && was->name == name) found = entry.name;
          return true;
        }));
    if (!found.empty()) return std::optional(std::pair(*hour, found));
  }
  return std::optional<std::pair<Hour, std::string>>();
}

}  // namespace penstock::apps
