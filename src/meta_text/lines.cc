#include "lines.h"

#include "limits.h"
#include "words.h"

#include <bit>

namespace penstock::meta_text {
namespace {

using meta::Attributes;
using meta::FileType;
using meta::Inode;
using meta::Layout;

constexpr uint64_t kModeMax = 07777;
constexpr int kModeBase = 8;

constexpr std::string_view kVersionWord = "penstock-metadata ";
constexpr std::string_view kNextWord = "next ";
constexpr std::string_view kInodeWord = "inode ";
constexpr std::string_view kXattrWord = "xattr ";
constexpr std::string_view kEntryWord = "entry ";
constexpr std::string_view kSessionWord = "session ";
constexpr std::string_view kEndWord = "end ";

bool has_layout(FileType type) {
  return type == FileType::regular || type == FileType::directory;
}

bool has_device(FileType type) {
  return type == FileType::character || type == FileType::block;
}

// Whether its chunk size, its range and its seed say all of it: then no more is written.
bool is_plain(const Layout& layout) {
  Layout plain;
  plain.chunk_bytes_log2 = layout.chunk_bytes_log2;
  plain.chain_first = layout.chain_first;
  plain.chain_count = layout.chain_count;
  plain.seed = layout.seed;
  return layout == plain;
}

void write_layout(WordWriter& writer, const Layout& layout) {
  writer.text(" chunk=").number(layout.chunk_bytes());
  writer.text(" chain=").number(layout.chain_first);
  writer.text(" chains=").number(layout.chain_count);
  writer.text(" seed=").number(layout.seed);
  if (is_plain(layout)) return;
  writer.text(" table=").number(layout.table);
  writer.text(" scheme=").number(static_cast<uint64_t>(layout.scheme));
  writer.text(" copies=").number(layout.copies);
  writer.text(" media=").number(static_cast<uint64_t>(layout.media));
  writer.text(" stripe=").number(layout.stripe);
  for (const ChainId chain : layout.chains) writer.text(" on=").number(chain.value);
}

uint8_t read_byte(WordReader& reader, std::string_view field) {
  reader.text(field);
  return static_cast<uint8_t>(reader.number(UINT8_MAX));
}

// Whether it can be stored is asked when the inode is whole.
void read_rest(WordReader& reader, Layout& layout) {
  reader.text(" table=");
  layout.table = reader.number32();
  layout.scheme = static_cast<meta::Scheme>(read_byte(reader, " scheme="));
  layout.copies = read_byte(reader, " copies=");
  layout.media = static_cast<meta::Media>(read_byte(reader, " media="));
  reader.text(" stripe=");
  layout.stripe = reader.number32();
  while (reader.next_is(" on=") && layout.chains.size() < meta::kListedChainsMax) {
    reader.text(" on=");
    layout.chains.emplace_back(reader.number32());
  }
  reader.require(!is_plain(layout));
}

Layout read_layout(WordReader& reader) {
  Layout layout;
  reader.text(" chunk=");
  const uint64_t bytes = reader.number(limits::kChunkBytesMax);
  reader.require(is_power_of_two(bytes));
  layout.chunk_bytes_log2 = static_cast<uint32_t>(std::countr_zero(bytes));
  reader.text(" chain=");
  layout.chain_first = reader.number32();
  reader.text(" chains=");
  layout.chain_count = reader.number32();
  reader.text(" seed=");
  layout.seed = reader.number(UINT64_MAX);
  if (reader.next_is(" table=")) read_rest(reader, layout);
  return layout;
}

InodeId read_inode_id(WordReader& reader) {
  return InodeId(reader.number(meta::kIdMax));
}

void read_times(WordReader& reader, Attributes& to) {
  reader.text(" accessed=");
  to.accessed = reader.time();
  reader.text(" modified=");
  to.modified = reader.time();
  reader.text(" changed=");
  to.changed = reader.time();
  reader.text(" created=");
  to.created = reader.time();
}

// What only some types have.
void read_own_fields(WordReader& reader, Inode& inode) {
  Attributes& to = inode.attributes;
  if (to.type == FileType::regular) {
    reader.text(" length=");
    to.length = reader.number(limits::kFileBytesMax);
    reader.text(" sparse=");
    to.sparse = reader.flag();
  }
  if (to.type == FileType::directory) {
    reader.text(" parent=");
    inode.parent = read_inode_id(reader);
    to.length = meta::kDirectoryLength;
  }
  if (has_layout(to.type)) to.layout = read_layout(reader);
  if (to.type == FileType::symlink) {
    reader.text(" target=");
    inode.target = reader.bytes(limits::kPathBytesMax);
    to.length = inode.target.size();
  }
  if (has_device(to.type)) {
    reader.text(" device=");
    to.device = reader.number(UINT64_MAX);
  }
}

// A list that is not there has no field, so a field has a list.
std::string read_list(WordReader& reader, std::string_view field) {
  if (!reader.next_is(field)) return {};
  reader.text(field);
  std::string list = reader.bytes(meta::kAclBytesMax);
  reader.require(!list.empty());
  return list;
}

// None is not said.
meta::TrashPart read_trash(WordReader& reader) {
  if (!reader.next_is(" trash=")) return meta::TrashPart::none;
  reader.text(" trash=");
  const uint64_t part = reader.number(static_cast<uint64_t>(meta::TrashPart::entry));
  reader.require(part != 0);
  return static_cast<meta::TrashPart>(part);
}

std::optional<Line> parse_inode(WordReader& reader) {
  InodeLine line;
  Attributes& to = line.inode.attributes;
  to.inode = read_inode_id(reader);
  reader.text(" ");
  to.type = reader.type();
  reader.text(" mode=");
  to.mode = static_cast<uint32_t>(reader.number(kModeMax, kModeBase));
  reader.text(" uid=");
  to.uid = reader.number32();
  reader.text(" gid=");
  to.gid = reader.number32();
  reader.text(" links=");
  to.links = static_cast<uint32_t>(reader.number(meta::kLinksMax));
  if (to.links == 0) {
    reader.text(" nameable=");
    line.nameable = reader.flag();
  }
  reader.text(" generation=");
  to.generation = reader.number(UINT64_MAX);
  reader.text(" flags=");
  to.flags = static_cast<uint32_t>(reader.number(meta::kInodeFlags));
  read_times(reader, to);
  read_own_fields(reader, line.inode);
  to.acl = read_list(reader, " acl=");
  line.inode.default_acl = read_list(reader, " default-acl=");
  line.inode.trash = read_trash(reader);
  if (!reader.finished() || !is_storable(line.inode)) return std::nullopt;
  return line;
}

std::optional<Line> parse_xattr(WordReader& reader) {
  XattrLine line;
  line.inode = read_inode_id(reader);
  reader.text(" name=");
  line.name = reader.bytes(meta::kXattrNameBytesMax);
  reader.require(!line.name.empty() && line.name.find('\0') == std::string::npos);
  reader.text(" value=");
  line.value = reader.bytes(meta::kXattrValueBytesMax);
  if (!reader.finished()) return std::nullopt;
  return line;
}

std::optional<Line> parse_entry(WordReader& reader) {
  EntryLine line;
  line.directory = read_inode_id(reader);
  reader.text(" cookie=");
  line.cookie = reader.number(meta::kIdMax);
  reader.require(line.cookie >= meta::kCookieMin);
  reader.text(" inode=");
  line.entry.inode = read_inode_id(reader);
  reader.text(" type=");
  line.entry.type = reader.type();
  reader.text(" name=");
  line.entry.name = reader.bytes(limits::kNameBytesMax);
  if (!reader.finished() || !is_storable(line.entry)) return std::nullopt;
  return line;
}

std::optional<Line> parse_session(WordReader& reader) {
  SessionLine line;
  line.inode = read_inode_id(reader);
  reader.text(" token=");
  line.token = reader.number(UINT64_MAX);
  if (!reader.finished()) return std::nullopt;
  return line;
}

std::optional<Line> parse_end(WordReader& reader) {
  EndLine line;
  reader.text("inodes=");
  line.counts.inodes = reader.number(UINT64_MAX);
  reader.text(" xattrs=");
  line.counts.xattrs = reader.number(UINT64_MAX);
  reader.text(" entries=");
  line.counts.entries = reader.number(UINT64_MAX);
  reader.text(" sessions=");
  line.counts.sessions = reader.number(UINT64_MAX);
  reader.text(" crc=");
  line.checksum = reader.checksum();
  if (!reader.finished()) return std::nullopt;
  return line;
}

template <class NumberLine>
std::optional<Line> parse_number(WordReader& reader) {
  const NumberLine line{reader.number(UINT64_MAX)};
  if (!reader.finished()) return std::nullopt;
  return line;
}

}  // namespace

void append(std::string& out, const VersionLine& line) {
  WordWriter(out).text(kVersionWord).number(line.version).text("\n");
}

void append(std::string& out, const NextLine& line) {
  WordWriter(out).text(kNextWord).number(line.next).text("\n");
}

void append(std::string& out, const InodeLine& line) {
  const Attributes& from = line.inode.attributes;
  ASSERT(from.links == 0 || !line.nameable);
  const size_t begin = out.size();
  WordWriter writer(out);
  writer.text(kInodeWord).number(from.inode.value).text(" ").type(from.type);
  writer.text(" mode=").number(from.mode, kModeBase);
  writer.text(" uid=").number(from.uid).text(" gid=").number(from.gid);
  writer.text(" links=").number(from.links);
  if (from.links == 0) writer.text(" nameable=").flag(line.nameable);
  writer.text(" generation=").number(from.generation).text(" flags=").number(from.flags);
  writer.text(" accessed=").time(from.accessed).text(" modified=").time(from.modified);
  writer.text(" changed=").time(from.changed).text(" created=").time(from.created);
  if (from.type == FileType::regular) {
    writer.text(" length=").number(from.length).text(" sparse=").flag(from.sparse);
  }
  if (from.type == FileType::directory) writer.text(" parent=").number(line.inode.parent.value);
  if (has_layout(from.type)) write_layout(writer, from.layout);
  if (from.type == FileType::symlink) writer.text(" target=").bytes(line.inode.target);
  if (has_device(from.type)) writer.text(" device=").number(from.device);
  if (!from.acl.empty()) writer.text(" acl=").bytes(from.acl);
  if (!line.inode.default_acl.empty()) writer.text(" default-acl=").bytes(line.inode.default_acl);
  if (line.inode.trash != meta::TrashPart::none) {
    writer.text(" trash=").number(static_cast<uint64_t>(line.inode.trash));
  }
  writer.text("\n");
  ASSERT(out.size() - begin <= kLineBytesMax);
}

void append(std::string& out, const XattrLine& line) {
  const size_t begin = out.size();
  WordWriter writer(out);
  writer.text(kXattrWord).number(line.inode.value);
  writer.text(" name=").bytes(line.name).text(" value=").bytes(line.value).text("\n");
  ASSERT(out.size() - begin <= kLineBytesMax);
}

void append(std::string& out, const EntryLine& line) {
  WordWriter writer(out);
  writer.text(kEntryWord).number(line.directory.value).text(" cookie=").number(line.cookie);
  writer.text(" inode=").number(line.entry.inode.value).text(" type=").type(line.entry.type);
  writer.text(" name=").bytes(line.entry.name).text("\n");
}

void append(std::string& out, const SessionLine& line) {
  WordWriter writer(out);
  writer.text(kSessionWord).number(line.inode.value).text(" token=").number(line.token).text("\n");
}

void append(std::string& out, const EndLine& line) {
  WordWriter writer(out);
  writer.text(kEndWord).text("inodes=").number(line.counts.inodes);
  writer.text(" xattrs=").number(line.counts.xattrs);
  writer.text(" entries=").number(line.counts.entries);
  writer.text(" sessions=").number(line.counts.sessions);
  writer.text(" crc=").checksum(line.checksum).text("\n");
}

std::optional<Line> parse(std::string_view line) {
  WordReader reader(line);
  const auto is = [&](std::string_view word) {
    const bool found = reader.next_is(word);
    if (found) reader.text(word);
    return found;
  };
  // The most frequent ones first.
  if (is(kEntryWord)) return parse_entry(reader);
  if (is(kInodeWord)) return parse_inode(reader);
  if (is(kXattrWord)) return parse_xattr(reader);
  if (is(kSessionWord)) return parse_session(reader);
  if (is(kNextWord)) return parse_number<NextLine>(reader);
  if (is(kVersionWord)) return parse_number<VersionLine>(reader);
  if (is(kEndWord)) return parse_end(reader);
  return std::nullopt;
}

}  // namespace penstock::meta_text
