#include "penstock/meta/records.h"

#include "acl.h"

#include <algorithm>
#include <bit>

#include "penstock/meta/codec.h"
#include "penstock/meta/records/limits.h"

namespace penstock::meta {
namespace {

constexpr uint32_t kModeBits = 07777;
constexpr int kFileTypes = 7;

void write_time(Writer& writer, FileTime time) {
  ASSERT(time.raw() <= FileTime::kRawMax);
  writer.fixed64(time.raw());
}

FileTime read_time(Reader& reader, uint8_t version) {
  const uint64_t stored = reader.fixed64();
  if (version < kInodeVersion) return engine::WallTime{static_cast<int64_t>(stored)};
  reader.require(stored <= FileTime::kRawMax);
  return FileTime::from_raw(std::min(stored, FileTime::kRawMax));
}

// What is kept of an inode in one bit each.
enum Mark : uint64_t { kMarkSparse = 1, kMarkAcl = 2, kMarkDefaultAcl = 4 };
// Two bits: a TrashPart.
constexpr int kTrashShift = 3;
constexpr uint64_t kTrashMarks = uint64_t{3} << kTrashShift;
constexpr uint64_t kMarks = kMarkSparse | kMarkAcl | kMarkDefaultAcl | kTrashMarks;

uint64_t marks_of(const Inode& inode) {
  uint64_t marks = 0;
  if (inode.attributes.sparse) marks |= kMarkSparse;
  if (!inode.attributes.acl.empty()) marks |= kMarkAcl;
  if (!inode.default_acl.empty()) marks |= kMarkDefaultAcl;
  marks |= static_cast<uint64_t>(inode.trash) << kTrashShift;
  return marks;
}

std::string read_acl(Reader& reader) {
  std::string acl = reader.string(kAclBytesMax);
  reader.require(acl_is_good(acl));
  return acl;
}

FileType read_type(Reader& reader) {
  const uint8_t type = reader.byte();
  reader.require(type < kFileTypes);
  return static_cast<FileType>(type % kFileTypes);
}

void read_version(Reader& reader) {
  reader.require(reader.byte() == kRecordVersion);
}

uint8_t read_inode_version(Reader& reader) {
  const uint8_t version = reader.byte();
  reader.require(version >= 1 && version <= kInodeVersion);
  return version;
}

bool layout_is_storable(const Layout& layout, FileType type) {
  return layout_is_good(layout) &&
         (type == FileType::directory ? layout.chains.empty() : layout.stripe == 0);
}

void write_range(Writer& writer, const Layout& layout) {
  ASSERT(layout_is_good(layout));  // what decode_inode() demands
  writer.byte(static_cast<uint8_t>(layout.chunk_bytes_log2));
  writer.varint(layout.chain_first);
  writer.varint(layout.chain_count);
  writer.fixed64(layout.seed);
}

Layout read_range(Reader& reader) {
  Layout layout;
  layout.chunk_bytes_log2 = reader.byte();
  layout.chain_first = reader.varint32();
  layout.chain_count = reader.varint32();
  layout.seed = reader.fixed64();
  reader.require(layout_is_good(layout));
  return layout;
}

// What is behind the number of extensions: for each its kind and a string.
constexpr uint64_t kLayoutExtension = 1;
constexpr uint64_t kCountedInExtension = 2;
constexpr uint64_t kExtensionKinds = 2;
constexpr size_t kCountedInBytesMax = 10;  // a varint
constexpr uint8_t kLayoutVersion = 1;
// Five fields of a byte or a varint of 32 bits, and the list.
constexpr size_t kLayoutBytesMax = 8 * 5 + 5 * kListedChainsMax;

// Whether a range says all of it.
bool is_plain(const Layout& layout) {
  const Layout plain;
  return layout.stripe == plain.stripe && layout.table == plain.table &&
         layout.scheme == plain.scheme && layout.copies == plain.copies &&
         layout.media == plain.media && layout.chains.empty();
}

std::string encode_rest(const Layout& layout) {
  ASSERT(!is_plain(layout));
  Writer writer;
  writer.byte(kLayoutVersion);
  writer.varint(layout.table);
  writer.byte(static_cast<uint8_t>(layout.scheme));
  writer.byte(layout.copies);
  writer.byte(static_cast<uint8_t>(layout.media));
  writer.varint(layout.stripe);
  writer.varint(layout.chains.size());
  for (const ChainId chain : layout.chains) writer.varint(chain.value);
  return writer.take();
}

bool decode_rest(std::string_view bytes, FileType type, Layout& layout) {
  Reader reader(bytes);
  reader.require(reader.byte() == kLayoutVersion);
  layout.table = reader.varint32();
  layout.scheme = static_cast<Scheme>(reader.byte());
  layout.copies = reader.byte();
  layout.media = static_cast<Media>(reader.byte());
  layout.stripe = reader.varint32();
  const uint64_t chains = reader.varint();
  if (chains > kListedChainsMax) return false;
  layout.chains.reserve(chains);
  for (uint64_t i = 0; i < chains; ++i) layout.chains.emplace_back(reader.varint32());
  return reader.finished() && layout_is_storable(layout, type) && !is_plain(layout);
}

bool has_layout(FileType type) {
  return type == FileType::regular || type == FileType::directory;
}

void write_layout(Writer& writer, const Layout& layout) {
  writer.varint(kLayoutExtension);
  const std::string rest = encode_rest(layout);
  ASSERT(rest.size() <= kLayoutBytesMax);
  writer.string(rest);
}

void write_counted_in(Writer& writer, InodeId directory) {
  writer.varint(kCountedInExtension);
  writer.varint(static_cast<uint64_t>(std::bit_width(directory.value) + 6) / 7);
  writer.varint(directory.value);
}

// In the order of their kinds.
void write_extensions(Writer& writer, const Inode& inode) {
  const Attributes& from = inode.attributes;
  const bool layout = has_layout(from.type) && !is_plain(from.layout);
  const bool counted = from.type != FileType::directory && inode.parent != InodeId();
  writer.varint((layout ? 1u : 0u) + (counted ? 1u : 0u));
  if (layout) write_layout(writer, from.layout);
  if (counted) write_counted_in(writer, inode.parent);
}

InodeId decode_counted_in(std::string_view bytes) {
  Reader reader(bytes);
  const InodeId directory(reader.varint());
  return reader.finished() ? directory : InodeId();
}

void read_extension(Reader& reader, uint64_t kind, Inode& inode) {
  Attributes& to = inode.attributes;
  if (kind == kLayoutExtension) {
    reader.require(has_layout(to.type));
    reader.require(decode_rest(reader.string(kLayoutBytesMax), to.type, to.layout));
    return;
  }
  reader.require(kind == kCountedInExtension && to.type != FileType::directory);
  inode.parent = decode_counted_in(reader.string(kCountedInBytesMax));
  reader.require(inode.parent != InodeId());
}

void read_extensions(Reader& reader, Inode& inode) {
  const uint64_t extensions = reader.varint();
  reader.require(extensions <= kExtensionKinds);
  uint64_t before = 0;
  for (uint64_t i = 0; i < extensions && reader.going(); ++i) {
    const uint64_t kind = reader.varint();
    reader.require(kind > before);
    before = kind;
    read_extension(reader, kind, inode);
  }
}

bool has_device(FileType type) {
  return type == FileType::character || type == FileType::block;
}

bool name_is_storable(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

// What decode_inode() demands of every record, but of its lists, whose look costs more.
bool is_storable_but_lists(const Inode& inode) {
  const Attributes& from = inode.attributes;
  return inode.id() != InodeId() && (from.mode & ~kModeBits) == 0 &&
         (from.flags & ~kInodeFlags) == 0 && from.links <= kLinksMax &&
         inode.xattr_bytes <= kXattrListBytesMax &&
         (from.type != FileType::regular || from.length <= limits::kFileBytesMax) &&
         (!has_layout(from.type) || layout_is_storable(from.layout, from.type)) &&
         (from.type != FileType::directory || inode.parent != InodeId()) &&
         (from.type == FileType::symlink) == !inode.target.empty() &&
         inode.target.size() <= limits::kPathBytesMax &&
         (inode.default_acl.empty() || from.type == FileType::directory) &&
         (inode.trash == TrashPart::none || from.type == FileType::directory);
}

bool lists_are_storable(const Inode& inode) {
  return (inode.attributes.acl.empty() || acl_is_good(inode.attributes.acl)) &&
         (inode.default_acl.empty() || acl_is_good(inode.default_acl));
}

}  // namespace

bool is_storable(const Inode& inode) {
  return is_storable_but_lists(inode) && lists_are_storable(inode);
}

bool is_storable(const CookieEntry& entry) {
  return entry.inode != InodeId() && name_is_storable(entry.name) &&
         entry.name.size() <= limits::kNameBytesMax;
}

std::string encode(const Inode& inode) {
  // One that it does not hold of could never be read again.
  ASSERT(is_storable_but_lists(inode));
  DASSERT(lists_are_storable(inode));
  constexpr size_t kUsualBytes = 104;
  const Attributes& from = inode.attributes;
  Writer writer(kUsualBytes);
  const uint64_t marks = marks_of(inode);
  writer.byte(kInodeVersion);
  writer.byte(static_cast<uint8_t>(from.type));
  writer.varint(from.mode);
  writer.varint(from.uid);
  writer.varint(from.gid);
  writer.varint(from.links);
  writer.varint(from.generation);
  writer.varint(inode.xattr_bytes);
  writer.varint(from.flags);
  writer.varint(marks);
  write_time(writer, from.accessed);
  write_time(writer, from.created);
  if (from.type != FileType::directory) {
    write_time(writer, from.modified);
    write_time(writer, from.changed);
  }
  if (from.type == FileType::regular) writer.varint(from.length);
  if (has_layout(from.type)) write_range(writer, from.layout);
  if (from.type == FileType::directory) writer.varint(inode.parent.value);
  if (from.type == FileType::symlink) writer.string(inode.target);
  if (has_device(from.type)) writer.varint(from.device);
  if ((marks & kMarkAcl) != 0) writer.string(from.acl);
  if ((marks & kMarkDefaultAcl) != 0) writer.string(inode.default_acl);
  write_extensions(writer, inode);
  return writer.take();
}

std::optional<Inode> decode_inode(InodeId id, std::string_view bytes) {
  Inode inode;
  Attributes& to = inode.attributes;
  to.inode = id;
  Reader reader(bytes);
  const uint8_t version = read_inode_version(reader);
  to.type = read_type(reader);
  to.mode = reader.varint32();
  reader.require((to.mode & ~kModeBits) == 0);
  to.uid = reader.varint32();
  to.gid = reader.varint32();
  to.links = reader.varint32();
  reader.require(to.links <= kLinksMax);
  to.generation = reader.varint();
  inode.xattr_bytes = reader.varint32();
  reader.require(inode.xattr_bytes <= kXattrListBytesMax);
  to.has_xattrs = inode.xattr_bytes != 0;
  // What version 1 did not know: such a file may have holes.
  uint64_t marks = to.type == FileType::regular ? uint64_t{kMarkSparse} : 0;
  if (version >= kInodeVersion) {
    to.flags = reader.varint32();
    marks = reader.varint();
  }
  reader.require((to.flags & ~kInodeFlags) == 0 && (marks & ~kMarks) == 0);
  to.sparse = (marks & kMarkSparse) != 0;
  inode.trash = static_cast<TrashPart>((marks & kTrashMarks) >> kTrashShift);
  reader.require(inode.trash == TrashPart::none || to.type == FileType::directory);
  to.accessed = read_time(reader, version);
  to.created = read_time(reader, version);
  if (to.type != FileType::directory) {
    to.modified = read_time(reader, version);
    to.changed = read_time(reader, version);
  }
  if (to.type == FileType::regular) {
    to.length = reader.varint();
    reader.require(to.length <= limits::kFileBytesMax);
  }
  if (has_layout(to.type)) to.layout = read_range(reader);
  if (to.type == FileType::directory) {
    inode.parent = InodeId(reader.varint());
    reader.require(inode.parent != InodeId());
    to.length = kDirectoryLength;
  }
  if (to.type == FileType::symlink) {
    inode.target = reader.string(limits::kPathBytesMax);
    reader.require(!inode.target.empty());
    to.length = inode.target.size();
  }
  if (has_device(to.type)) to.device = reader.varint();
  if ((marks & kMarkAcl) != 0) to.acl = read_acl(reader);
  if ((marks & kMarkDefaultAcl) != 0) inode.default_acl = read_acl(reader);
  if (version >= kInodeVersion) read_extensions(reader, inode);
  if (!reader.finished()) return std::nullopt;
  return inode;
}

std::string encode(const DirectoryTimes& times) {
  Writer writer;
  writer.byte(kInodeVersion);
  write_time(writer, times.modified);
  write_time(writer, times.changed);
  return writer.take();
}

std::optional<DirectoryTimes> decode_directory_times(std::string_view bytes) {
  Reader reader(bytes);
  const uint8_t version = read_inode_version(reader);
  DirectoryTimes times;
  times.modified = read_time(reader, version);
  times.changed = read_time(reader, version);
  if (!reader.finished()) return std::nullopt;
  return times;
}

std::string encode(const Dentry& dentry) {
  ASSERT(dentry.inode != InodeId());
  ASSERT(dentry.cookie >= kCookieMin && dentry.cookie <= kIdMax);
  Writer writer;
  writer.byte(kRecordVersion);
  writer.varint(dentry.inode.value);
  writer.byte(static_cast<uint8_t>(dentry.type));
  writer.varint(dentry.cookie);
  return writer.take();
}

std::optional<Dentry> decode_dentry(std::string_view bytes) {
  Reader reader(bytes);
  read_version(reader);
  Dentry dentry;
  dentry.inode = InodeId(reader.varint());
  dentry.type = read_type(reader);
  dentry.cookie = reader.varint();
  reader.require(dentry.inode != InodeId() && dentry.cookie >= kCookieMin &&
                 dentry.cookie <= kIdMax);
  if (!reader.finished()) return std::nullopt;
  return dentry;
}

std::string encode(const CookieEntry& entry) {
  ASSERT(is_storable(entry));
  Writer writer;
  writer.byte(kRecordVersion);
  writer.varint(entry.inode.value);
  writer.byte(static_cast<uint8_t>(entry.type));
  writer.string(entry.name);
  return writer.take();
}

std::optional<CookieEntry> decode_cookie_entry(std::string_view bytes) {
  Reader reader(bytes);
  read_version(reader);
  CookieEntry entry;
  entry.inode = InodeId(reader.varint());
  entry.type = read_type(reader);
  entry.name = reader.string(limits::kNameBytesMax);
  reader.require(entry.inode != InodeId() && name_is_storable(entry.name));
  if (!reader.finished()) return std::nullopt;
  return entry;
}

std::string encode_number(uint64_t number) {
  Writer writer;
  writer.byte(kRecordVersion);
  writer.varint(number);
  return writer.take();
}

std::optional<uint64_t> decode_number(std::string_view bytes) {
  Reader reader(bytes);
  read_version(reader);
  const uint64_t number = reader.varint();
  if (!reader.finished()) return std::nullopt;
  return number;
}

namespace {

// The sign is the lowest bit, so that numbers near 0 are short.
void write_signed(Writer& writer, int64_t value) {
  writer.varint(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63));
}
int64_t read_signed(Reader& reader) {
  const uint64_t folded = reader.varint();
  return static_cast<int64_t>(folded >> 1 ^ (~(folded & 1) + 1));
}

}  // namespace

std::string encode(const QuotaRecord& quota) {
  ASSERT(quota.path.size() <= limits::kPathBytesMax);
  Writer writer;
  writer.byte(kRecordVersion);
  writer.varint(quota.limits.bytes);
  writer.varint(quota.limits.inodes);
  writer.byte(quota.counted ? 1 : 0);
  writer.string(quota.path);
  return writer.take();
}

std::optional<QuotaRecord> decode_quota(std::string_view bytes) {
  Reader reader(bytes);
  read_version(reader);
  QuotaRecord quota;
  quota.limits.bytes = reader.varint();
  quota.limits.inodes = reader.varint();
  const uint8_t counted = reader.byte();
  reader.require(counted <= 1);
  quota.counted = counted == 1;
  quota.path = reader.string(limits::kPathBytesMax);
  if (!reader.finished()) return std::nullopt;
  return quota;
}

std::string encode(const TrashRecord& trash) {
  ASSERT(trash.days <= kTrashDaysMax && trash.path.size() <= limits::kPathBytesMax);
  Writer writer;
  writer.byte(kRecordVersion);
  writer.varint(trash.days);
  writer.string(trash.path);
  return writer.take();
}

std::optional<TrashRecord> decode_trash(std::string_view bytes) {
  Reader reader(bytes);
  read_version(reader);
  TrashRecord trash;
  trash.days = reader.varint32();
  reader.require(trash.days <= kTrashDaysMax);
  trash.path = reader.string(limits::kPathBytesMax);
  if (!reader.finished()) return std::nullopt;
  return trash;
}

std::string encode(const UsageRecord& usage) {
  Writer writer;
  writer.byte(kRecordVersion);
  write_signed(writer, usage.bytes);
  write_signed(writer, usage.inodes);
  return writer.take();
}

std::optional<UsageRecord> decode_usage(std::string_view bytes) {
  Reader reader(bytes);
  read_version(reader);
  UsageRecord usage;
  usage.bytes = read_signed(reader);
  usage.inodes = read_signed(reader);
  if (!reader.finished()) return std::nullopt;
  return usage;
}

}  // namespace penstock::meta
