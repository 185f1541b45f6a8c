// One line of each shape, for tests and the fuzzer.
#pragma once

#include "../lines.h"

#include <string>
#include <vector>

namespace penstock::meta_text {

// A good access control list, as system.posix_acl_access has it, that grants user 5 something.
inline std::string sample_acl() {
  struct Entry {
    uint16_t tag;
    uint16_t permissions;
    uint32_t id;
  };
  std::string list("\x02\0\0\0", 4);
  for (const Entry& entry : {Entry{1, 6, UINT32_MAX}, Entry{2, 7, 5}, Entry{4, 4, UINT32_MAX},
                             Entry{16, 7, UINT32_MAX}, Entry{32, 0, UINT32_MAX}}) {
    list.append(reinterpret_cast<const char*>(&entry), sizeof entry);
  }
  return list;
}

inline InodeLine sample_inode(meta::FileType type) {
  InodeLine line;
  meta::Attributes& to = line.inode.attributes;
  to.inode = InodeId(1024 + static_cast<uint64_t>(type));
  to.type = type;
  to.mode = 04755;
  to.uid = 1000;
  to.gid = UINT32_MAX;
  to.links = 2;
  to.generation = 77;
  to.flags = meta::kInodeAppendOnly;
  to.accessed = meta::FileTime(-5, 999'999'999);
  to.modified = meta::FileTime(1'764'080'000, 1);
  to.changed = meta::FileTime::from_raw(meta::FileTime::kRawMax);
  to.created = meta::FileTime::from_raw(1);
  to.layout = {.chunk_bytes_log2 = 20, .chain_first = 3, .chain_count = 4, .seed = UINT64_MAX};
  if (type == meta::FileType::regular) to.length = 1 << 20;
  if (type == meta::FileType::directory) line.inode.parent = meta::kRootInode;
  if (type == meta::FileType::symlink) line.inode.target = "../to \xc3\xa9\\where";
  if (type == meta::FileType::block) to.device = 0x801;
  return line;
}

template <class AnyLine>
std::string text_of(const AnyLine& line) {
  std::string text;
  append(text, line);
  return text;
}

// With their ends.
inline std::vector<std::string> sample_lines() {
  using meta::FileType;
  std::vector<std::string> lines = {text_of(VersionLine{}), text_of(NextLine{5120})};
  for (const FileType type :
       {FileType::regular, FileType::directory, FileType::symlink, FileType::fifo, FileType::socket,
        FileType::character, FileType::block}) {
    lines.push_back(text_of(sample_inode(type)));
  }
  InodeLine orphan = sample_inode(FileType::regular);
  orphan.inode.attributes.links = 0;
  orphan.nameable = true;
  lines.push_back(text_of(orphan));
  InodeLine with_lists = sample_inode(FileType::directory);
  with_lists.inode.attributes.acl = with_lists.inode.default_acl = sample_acl();
  lines.push_back(text_of(with_lists));
  InodeLine hour = sample_inode(FileType::directory);
  hour.inode.trash = meta::TrashPart::hour;
  lines.push_back(text_of(hour));
  lines.push_back(text_of(XattrLine{InodeId(1025), "user.a b", std::string("\0\xff", 2)}));
  lines.push_back(text_of(XattrLine{InodeId(1025), "user.empty", ""}));
  lines.push_back(text_of(
      EntryLine{InodeId(1), 1030, {"odd \n name=\x7f\\", InodeId(1026), FileType::symlink}}));
  lines.push_back(text_of(SessionLine{InodeId(1024), 1031}));
  lines.push_back(text_of(EndLine{{1, 2, 3, 4}, 0x00c0ffee}));
  return lines;
}

// Whether the line is taken. What is taken is written as these bytes again, and can be stored.
inline bool parse_strictly(std::string_view line) {
  const std::optional<Line> parsed = parse(line);
  if (!parsed) return false;
  const std::string again = std::visit([](const auto& any) { return text_of(any); }, *parsed);
  ASSERT(again.size() == line.size() + 1 && again.starts_with(line) && again.back() == '\n');
  if (const auto* inode = std::get_if<InodeLine>(&*parsed)) {
    const std::string record = encode(inode->inode);
    ASSERT(meta::decode_inode(inode->inode.id(), record).has_value());
  }
  if (const auto* entry = std::get_if<EntryLine>(&*parsed)) {
    ASSERT(meta::decode_cookie_entry(encode(entry->entry)).has_value());
  }
  return true;
}

}  // namespace penstock::meta_text
