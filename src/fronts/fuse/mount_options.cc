// The words after -o: what mount(8) documents for every file system, and FUSE's own.
#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "penstock/fuse.h"

namespace penstock::fuse {
namespace {

using AccessMode = client::AccessTimes::Mode;

// A word that sets one thing.
struct Word {
  std::string_view name;
  void (*apply)(MountOptions& options);
};

constexpr std::array kWords = {
    Word{"ro", [](MountOptions& o) { o.read_only = true; }},
    Word{"rw", [](MountOptions& o) { o.read_only = false; }},
    Word{"suid", [](MountOptions& o) { o.set_ids = true; }},
    Word{"nosuid", [](MountOptions& o) { o.set_ids = false; }},
    Word{"dev", [](MountOptions& o) { o.devices = true; }},
    Word{"nodev", [](MountOptions& o) { o.devices = false; }},
    Word{"exec", [](MountOptions& o) { o.programs = true; }},
    Word{"noexec", [](MountOptions& o) { o.programs = false; }},
    Word{"noatime", [](MountOptions& o) { o.access_times.mode = AccessMode::none; }},
    Word{"atime", [](MountOptions& o) { o.access_times.mode = AccessMode::relative; }},
    Word{"relatime", [](MountOptions& o) { o.access_times.mode = AccessMode::relative; }},
    Word{"norelatime", [](MountOptions& o) { o.access_times.mode = AccessMode::relative; }},
    Word{"strictatime", [](MountOptions& o) { o.access_times.mode = AccessMode::strict; }},
    Word{"nostrictatime", [](MountOptions& o) { o.access_times.mode = AccessMode::relative; }},
    Word{"diratime", [](MountOptions& o) { o.access_times.directories = true; }},
    Word{"nodiratime", [](MountOptions& o) { o.access_times.directories = false; }},
    Word{"sync", [](MountOptions& o) { o.synchronous = true; }},
    Word{"async", [](MountOptions& o) { o.synchronous = false; }},
    Word{"dirsync", [](MountOptions& o) { o.directory_synchronous = true; }},
    Word{"allow_other", [](MountOptions& o) { o.allow_other = true; }},
    Word{"type=penstock", [](MountOptions& o) { o.like_3fs = false; }},
    Word{"type=hf3fs", [](MountOptions& o) { o.like_3fs = true; }},
    // mount(8) decides which users may mount; the options that these imply apply here.
    Word{"user", [](MountOptions& o) { o.set_ids = o.devices = o.programs = false; }},
    Word{"users", [](MountOptions& o) { o.set_ids = o.devices = o.programs = false; }},
    Word{"owner", [](MountOptions& o) { o.set_ids = o.devices = false; }},
    Word{"group", [](MountOptions& o) { o.set_ids = o.devices = false; }},
};

// Words for mount(8) and for programs that start mounts, or that are always so here: the kernel
// checks permissions of every mount of ours.
constexpr std::array<std::string_view, 11> kOfNoConcern = {
    "defaults",  "auto",   "noauto", "nouser", "nofail",
    "_netdev",   "silent", "loud",   "quiet",  "default_permissions",
    "nolazytime"};

// Beginnings of words that are other programs' own, and of those which mount(8) finds in the
// kernel's table and repeats when it is to change a mount.
constexpr std::array<std::string_view, 12> kForeignBeginnings = {
    "x-",        "X-",  "comment=", "user=",     "user_id=", "group_id=",
    "rootmode=", "fd=", "blksize=", "max_read=", "subtype=", "fsname="};

bool is_of_no_concern(std::string_view word) {
  return std::find(kOfNoConcern.begin(), kOfNoConcern.end(), word) != kOfNoConcern.end() ||
         std::any_of(kForeignBeginnings.begin(), kForeignBeginnings.end(),
                     [&](std::string_view beginning) { return word.starts_with(beginning); });
}

}  // namespace

Outcome<ParsedMountOptions> parse_mount_options(std::string_view list, const MountOptions& base) {
  ParsedMountOptions parsed{base};
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    const std::string_view word = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    if (word.empty() || is_of_no_concern(word)) continue;
    if (word == "remount") {
      parsed.remount = true;
      continue;
    }
    const auto* const known = std::find_if(kWords.begin(), kWords.end(),
                                           [&](const Word& each) { return each.name == word; });
    if (known == kWords.end()) {
      return Failure{Code::invalid_argument,
                     fmt::format("the mount option '{}' is not known (docs/mounting.md lists those "
                                 "that are)",
                                 word)};
    }
    known->apply(parsed.options);
  }
  return parsed;
}

std::string to_text(const MountOptions& options) {
  std::string text = options.read_only ? "ro" : "rw";
  const auto add = [&text](bool said, const char* word) {
    if (said) text += fmt::format(",{}", word);
  };
  add(!options.set_ids, "nosuid");
  add(!options.devices, "nodev");
  add(!options.programs, "noexec");
  add(options.access_times.mode == AccessMode::none, "noatime");
  add(options.access_times.mode == AccessMode::relative, "relatime");
  add(options.access_times.mode == AccessMode::strict, "strictatime");
  add(!options.access_times.directories, "nodiratime");
  add(options.synchronous, "sync");
  add(options.directory_synchronous, "dirsync");
  add(options.allow_other, "allow_other");
  add(options.like_3fs, "type=hf3fs");
  return text;
}

}  // namespace penstock::fuse
