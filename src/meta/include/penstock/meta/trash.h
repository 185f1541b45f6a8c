// What was removed and is kept for some days: docs/decisions/0068-trash.md.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base.h"
#include "penstock/engine.h"
#include "penstock/meta/limits.h"

namespace penstock::meta {

// Of the directory in the root that has it all. No other name there can be made like it.
inline constexpr std::string_view kTrashName = ".trash";

// What a directory is of the trash. The numbers are part of the format.
enum class TrashPart : uint8_t {
  none = 0,
  top = 1,    // .trash
  hour = 2,   // what was removed in one hour, and is kept for the same number of days
  entry = 3,  // was removed; nothing is added to it
};

// An hour's directory, "2026-11-28-08.7d": what lies in it was removed in that hour (since 1970,
// UTC).
struct TrashHour {
  int64_t hour = 0;
  uint32_t days = 0;
  friend auto operator<=>(const TrashHour&, const TrashHour&) = default;
};
TrashHour trash_hour(engine::WallTime removed, uint32_t days);
std::string name_of(const TrashHour& hour);
std::optional<TrashHour> parse_trash_hour(std::string_view name);
// From when on all of it is over.
engine::WallTime over_at(const TrashHour& hour);

// The name of what lies in an hour's directory, "PARENT-INODE-NAME": where it was. Too long a name
// is cut at its end, between characters.
struct TrashEntry {
  InodeId parent;
  InodeId inode;
  std::string name;
};
std::string name_of(const TrashEntry& entry);
std::optional<TrashEntry> parse_trash_entry(std::string_view name);

// What a directory says for all below it.
struct TrashSetting {
  InodeId directory;
  uint32_t days = 0;  // 0: nothing is kept
  std::string path;   // where it was when that was set
};
struct TrashDays {
  uint32_t days = 0;
  InodeId set_at;  // the directory that says so; 0: none does
};

// A step of making an hour's directory empty.
struct TrashEmptied {
  std::vector<InodeId> orphans;  // as Removed says
  std::vector<InodeId> linked;   // have other names
  uint64_t removed = 0;          // entries
  uint64_t last = 0;             // the cookie of the last one
  std::string gone;              // the name of the hour, where its directory is gone
  bool finished = false;  // nothing was behind it; and where nothing is left, the hour is gone
};

}  // namespace penstock::meta
