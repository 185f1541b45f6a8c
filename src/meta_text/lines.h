// The lines of the namespace as text, each as a value, and their grammar. A value has one form
// only: what is not written exactly as append() writes it does not parse. Format:
// docs/formats/metadata-text.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "penstock/meta_records.h"
#include "penstock/meta_text.h"

namespace penstock::meta_text {

inline constexpr uint64_t kTextVersion = 1;

// The first line of every text.
struct VersionLine {
  uint64_t version = kTextVersion;
};

// The first id that was not given yet, nor reserved.
struct NextLine {
  uint64_t next = 0;
};

// `inode.attributes` has all times, of directories too. What follows from other lines is not in it:
// has_xattrs and xattr_bytes.
struct InodeLine {
  meta::Inode inode;
  bool nameable = false;  // it has no links, and may get a name
};

struct XattrLine {
  InodeId inode;
  std::string name;
  std::string value;
};

struct EntryLine {
  InodeId directory;
  uint64_t cookie = 0;
  meta::CookieEntry entry;
};

struct SessionLine {
  InodeId inode;
  uint64_t token = 0;
};

// The last line. `checksum`: CRC-32C of all bytes before it.
struct EndLine {
  Counts counts;
  uint32_t checksum = 0;
};

using Line =
    std::variant<VersionLine, NextLine, InodeLine, XattrLine, EntryLine, SessionLine, EndLine>;

// Each adds a line with its end.
void append(std::string& out, const VersionLine& line);
void append(std::string& out, const NextLine& line);
void append(std::string& out, const InodeLine& line);
void append(std::string& out, const XattrLine& line);
void append(std::string& out, const EntryLine& line);
void append(std::string& out, const SessionLine& line);
void append(std::string& out, const EndLine& line);

// A line without its end; nullopt for anything but what append() makes. What it says of an inode,
// an attribute or an entry can be stored.
std::optional<Line> parse(std::string_view line);

}  // namespace penstock::meta_text
