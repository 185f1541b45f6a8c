// Decoders face whatever a damaged database holds.
#include "penstock/meta/records.h"

#include "decode_all.h"

#include <gtest/gtest.h>

#include "penstock/meta/codec.h"

namespace penstock::meta {
namespace {

// The owner, a named user, the group, the mask, others.
std::string sample_acl() {
  constexpr uint8_t kBytes[] = {2,    0, 0, 0,                          //
                                0x01, 0, 7, 0, 0xff, 0xff, 0xff, 0xff,  //
                                0x02, 0, 4, 0, 0x07, 0,    0,    0,     //
                                0x04, 0, 5, 0, 0xff, 0xff, 0xff, 0xff,  //
                                0x10, 0, 5, 0, 0xff, 0xff, 0xff, 0xff,  //
                                0x20, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
  return {reinterpret_cast<const char*>(kBytes), sizeof kBytes};
}

Inode sample(FileType type) {
  Inode inode;
  inode.attributes.inode = InodeId(5);
  inode.attributes.type = type;
  inode.attributes.mode = 06755;
  inode.attributes.uid = UINT32_MAX;
  inode.attributes.links = 3;
  inode.attributes.accessed = engine::WallTime{-1};
  inode.attributes.created = FileTime::from_raw(FileTime::kRawMax);
  inode.attributes.flags = kInodeImmutable;
  inode.attributes.generation = 1;
  inode.xattr_bytes = 77;
  if (type == FileType::directory) inode.parent = InodeId(UINT64_MAX);
  if (type == FileType::regular) {
    inode.attributes.length = limits::kFileBytesMax;
    inode.attributes.sparse = true;
  }
  if (type == FileType::directory) inode.default_acl = sample_acl();
  if (type == FileType::symlink) inode.target = "there";
  return inode;
}

// A file whose layout needs its extension, and a directory.
Inode striped(FileType type) {
  Inode inode = sample(type);
  Layout& layout = inode.attributes.layout;
  layout.chain_first = 2;
  layout.chain_count = 300;
  layout.table = UINT32_MAX;
  layout.copies = kCopiesMax;
  layout.media = Media::memory;
  if (type == FileType::directory) layout.stripe = 7;
  if (type == FileType::regular) layout.chains = {ChainId(UINT32_MAX), ChainId(0), ChainId(128)};
  return inode;
}

std::vector<std::string> samples() {
  std::vector<std::string> encoded;
  encoded.push_back(encode(striped(FileType::regular)));
  encoded.push_back(encode(striped(FileType::directory)));
  for (int type = 0; type < 7; ++type) encoded.push_back(encode(sample(FileType(type))));
  encoded.push_back(encode(DirectoryTimes{engine::WallTime{1}, engine::WallTime{2}}));
  encoded.push_back(encode(Dentry{InodeId(7), FileType::fifo, kCookieMin}));
  encoded.push_back(encode(CookieEntry{"name", InodeId(7), FileType::block}));
  encoded.push_back(encode_number(UINT64_MAX));
  return encoded;
}

TEST(Records, of_files_keep_where_they_are_counted) {
  for (const uint64_t id : {uint64_t{1}, uint64_t{127}, uint64_t{128}, kIdMax, UINT64_MAX}) {
    for (const FileType type : {FileType::regular, FileType::symlink, FileType::fifo}) {
      Inode inode = sample(type);
      inode.parent = InodeId(id);
      if (type == FileType::regular) inode.attributes.layout.copies = 3;
      const auto decoded = decode_inode(InodeId(5), encode(inode));
      ASSERT_TRUE(decoded.has_value()) << id;
      EXPECT_EQ(decoded->parent, inode.parent);
      EXPECT_EQ(decoded->attributes.layout, inode.attributes.layout);
      EXPECT_EQ(encode(*decoded), encode(inode));
    }
  }
}

TEST(Records, of_quotas_keep_every_field) {
  const QuotaRecord quota{{UINT64_MAX, 7}, true, "/a/b"};
  const auto decoded = decode_quota(encode(quota));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->limits, quota.limits);
  EXPECT_TRUE(decoded->counted);
  EXPECT_EQ(decoded->path, "/a/b");
  EXPECT_FALSE(decode_quota(encode(quota) + "x").has_value());
  for (const int64_t number : {int64_t{0}, int64_t{-1}, int64_t{1}, INT64_MIN, INT64_MAX}) {
    const auto usage = decode_usage(encode(UsageRecord{number, -(number / 2)}));
    ASSERT_TRUE(usage.has_value());
    EXPECT_EQ(usage->bytes, number);
    EXPECT_EQ(usage->inodes, -(number / 2));
  }
}

TEST(Records, of_the_trash_keep_every_field) {
  const TrashRecord trash{kTrashDaysMax, "/a/b"};
  const auto decoded = decode_trash(encode(trash));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->days, trash.days);
  EXPECT_EQ(decoded->path, "/a/b");
  EXPECT_FALSE(decode_trash(encode(trash) + "x").has_value());
  for (const TrashPart part :
       {TrashPart::none, TrashPart::top, TrashPart::hour, TrashPart::entry}) {
    Inode inode = sample(FileType::directory);
    inode.trash = part;
    EXPECT_EQ(decode_inode(InodeId(5), encode(inode))->trash, part);
  }
  // Of a file it is none.
  Inode file = sample(FileType::regular);
  file.trash = TrashPart::entry;
  EXPECT_FALSE(is_storable(file));
}

TEST(Records, decode_to_what_was_encoded) {
  for (int type = 0; type < 7; ++type) {
    const Inode inode = sample(FileType(type));
    const auto decoded = decode_inode(InodeId(5), encode(inode));
    ASSERT_TRUE(decoded.has_value()) << type;
    EXPECT_EQ(decoded->attributes.type, inode.attributes.type);
    EXPECT_EQ(decoded->attributes.uid, UINT32_MAX);
    EXPECT_EQ(decoded->attributes.accessed, engine::WallTime{-1});
    EXPECT_EQ(decoded->parent, inode.parent);
    EXPECT_EQ(decoded->target, inode.target);
    EXPECT_EQ(encode(*decoded), encode(inode));
  }
  EXPECT_EQ(decode_number(encode_number(UINT64_MAX)), UINT64_MAX);
  std::string dots = encode(CookieEntry{"ab", InodeId(7), FileType::block});
  dots.replace(dots.size() - 2, 2, "..");
  EXPECT_EQ(decode_cookie_entry(dots), std::nullopt);
}

TEST(Records, of_layouts_keep_every_field) {
  for (const FileType type : {FileType::regular, FileType::directory}) {
    const Inode inode = striped(type);
    const auto decoded = decode_inode(InodeId(5), encode(inode));
    ASSERT_TRUE(decoded.has_value());
    EXPECT_EQ(decoded->attributes.layout, inode.attributes.layout);
  }
  Inode full = striped(FileType::regular);
  full.attributes.layout.chains.clear();
  for (uint32_t i = 0; i < kListedChainsMax; ++i) {
    full.attributes.layout.chains.emplace_back(UINT32_MAX - i);
  }
  const auto decoded = decode_inode(InodeId(5), encode(full));
  ASSERT_TRUE(decoded.has_value()) << "the longest there is";
  EXPECT_EQ(decoded->attributes.layout, full.attributes.layout);
}

// A range alone is as it ever was: what is behind it, in a regular file, is one byte.
TEST(Records, of_a_plain_layout_end_with_no_extension) {
  Inode inode = sample(FileType::regular);
  inode.attributes.layout.seed = 0x0807060504030201;
  const std::string encoded = encode(inode);
  EXPECT_EQ(encoded.substr(encoded.size() - 12),
            std::string("\x16\x00\x01\x01\x02\x03\x04\x05\x06\x07\x08\x00", 12));
}

TEST(Records, with_a_layout_that_cannot_be_are_refused) {
  const auto body = [](uint8_t version, uint8_t scheme, uint8_t copies, uint8_t media,
                       uint8_t stripe, std::initializer_list<uint8_t> chains) {
    std::string bytes{static_cast<char>(version),      '\0',
                      static_cast<char>(scheme),       static_cast<char>(copies),
                      static_cast<char>(media),        static_cast<char>(stripe),
                      static_cast<char>(chains.size())};
    for (const uint8_t chain : chains) bytes.push_back(static_cast<char>(chain));
    return bytes;
  };
  const auto taken = [](FileType type, uint8_t kind, const std::string& extension) {
    Inode inode = sample(type);
    inode.attributes.layout.chain_count = 300;
    std::string record = encode(inode);
    // A file's extensions come last; so do a directory's, behind its list.
    record.back() = 1;
    record.push_back(static_cast<char>(kind));
    record.push_back(static_cast<char>(extension.size()));
    return decode_inode(InodeId(5), record + extension).has_value();
  };
  const FileType file = FileType::regular;
  EXPECT_TRUE(taken(file, 1, body(1, 0, 2, 0, 0, {4, 5})));
  EXPECT_FALSE(taken(file, 2, body(1, 0, 2, 0, 0, {4, 5}))) << "another extension";
  EXPECT_FALSE(taken(file, 1, body(2, 0, 2, 0, 0, {4, 5}))) << "another version";
  EXPECT_FALSE(taken(file, 1, body(1, 1, 2, 0, 0, {4, 5}))) << "another scheme";
  EXPECT_FALSE(taken(file, 1, body(1, 0, 0, 0, 0, {4, 5}))) << "no copy";
  EXPECT_FALSE(taken(file, 1, body(1, 0, 2, 4, 0, {4, 5}))) << "unknown media";
  EXPECT_FALSE(taken(file, 1, body(1, 0, 2, 0, 9, {4, 5}))) << "a file has no stripe";
  EXPECT_FALSE(taken(file, 1, body(1, 0, 2, 0, 0, {4, 4}))) << "a chain twice";
  EXPECT_FALSE(taken(file, 1, body(1, 0, 1, 0, 0, {}))) << "as without the extension";
  EXPECT_FALSE(taken(file, 1, body(1, 0, 2, 0, 0, {4, 5}) + "x")) << "something behind it";
  EXPECT_TRUE(taken(FileType::directory, 1, body(1, 0, 1, 0, 9, {})));
  EXPECT_FALSE(taken(FileType::directory, 1, body(1, 0, 1, 0, 9, {4}))) << "directories list none";
  EXPECT_FALSE(taken(FileType::directory, 1, body(1, 0, 1, 0, 65, {}))) << "wider than a list";
  EXPECT_FALSE(taken(FileType::fifo, 1, body(1, 0, 2, 0, 0, {4, 5}))) << "it has no layout";
}

// A record as version 1 wrote it: times are nanoseconds since 1970 in 64 bits.
std::string version_one(int64_t accessed, int64_t modified) {
  Writer writer;
  for (const uint8_t byte : {1, 0}) writer.byte(byte);                      // version, regular
  for (const uint64_t field : {0644, 7, 8, 1, 1, 0}) writer.varint(field);  // mode to xattr bytes
  for (const int64_t time : {accessed, int64_t{0}, modified, int64_t{0}}) {
    writer.fixed64(static_cast<uint64_t>(time));
  }
  writer.varint(4096);
  writer.byte(22);
  for (const uint64_t field : {0, 1}) writer.varint(field);
  writer.fixed64(5);
  return writer.take();
}

TEST(Records, of_version_one_are_read_and_written_as_today) {
  const auto old = decode_inode(InodeId(5), version_one(-1'500'000'000, INT64_MAX));
  ASSERT_TRUE(old.has_value());
  EXPECT_EQ(old->attributes.accessed, FileTime(-2, 500'000'000));
  EXPECT_EQ(old->attributes.modified, FileTime(9'223'372'036, 854'775'807));
  EXPECT_EQ(old->attributes.created, FileTime());
  EXPECT_EQ(old->attributes.length, 4096u);
  EXPECT_TRUE(old->attributes.sparse) << "it is not known";
  EXPECT_EQ(encode(*old)[0], kInodeVersion);
  const auto again = decode_inode(InodeId(5), encode(*old));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->attributes.accessed, old->attributes.accessed);
  // 1823: before what a file can have.
  EXPECT_EQ(decode_inode(InodeId(5), version_one(-4'637'000'000'000'000'000, 0))
                ->attributes.accessed.seconds(),
            FileTime::kSecondsMin);
  std::string newer = encode(*old);
  newer[0] = kInodeVersion + 1;
  EXPECT_EQ(decode_inode(InodeId(5), newer), std::nullopt);
}

TEST(Records, times_have_the_range_of_ext4) {
  constexpr FileTime kFirstMoment(FileTime::kSecondsMin + 1, 0);
  EXPECT_EQ(kFirstMoment.raw(), 1'000'000'000u);
  constexpr FileTime kLastMoment(FileTime::kSecondsMax - 1, 999'999'999);
  EXPECT_EQ(kLastMoment.seconds(), FileTime::kSecondsMax - 1);
  EXPECT_EQ(kLastMoment.nanoseconds(), 999'999'999);
  EXPECT_EQ(kLastMoment.raw() + 1, FileTime::kRawMax);
  for (const int64_t late : {FileTime::kSecondsMax, INT64_MAX}) {
    EXPECT_EQ(FileTime(late, 7), FileTime::from_raw(FileTime::kRawMax)) << "no nanoseconds there";
  }
  for (const int64_t early : {FileTime::kSecondsMin, INT64_MIN}) {
    EXPECT_EQ(FileTime(early, 7), FileTime::from_raw(0));
  }
  EXPECT_EQ(FileTime(engine::WallTime{INT64_MIN}), FileTime::from_raw(0));
  EXPECT_EQ(FileTime(engine::WallTime{-1}), FileTime(-1, 999'999'999));
  EXPECT_LT(FileTime(-1, 999'999'999), FileTime());
}

// Also that no two byte strings mean the same: decode_all() encodes again and compares.
TEST(Records, survive_any_change_of_their_bytes) {
  engine::SeededRandom random(4);
  size_t refused = 0;
  size_t tried = 0;
  for (const std::string& original : samples()) {
    ASSERT_TRUE(decode_all(original));
    for (size_t length = 0; length < original.size(); ++length) {
      decode_all(original.substr(0, length));
    }
    for (int round = 0; round < 3000; ++round) {
      std::string changed = original;
      for (uint64_t edits = 1 + random.below(3); edits > 0; --edits) {
        const size_t at = random.below(changed.size());
        switch (random.below(3)) {
          case 0:
            changed[at] = static_cast<char>(random.next());
            break;
          case 1:
            changed.insert(at, 1, static_cast<char>(random.next()));
            break;
          default:
            if (changed.size() > 1) changed.erase(at, 1);
        }
      }
      ++tried;
      refused += decode_all(changed) ? 0 : 1;
    }
  }
  EXPECT_GT(refused, tried / 3);
}

}  // namespace
}  // namespace penstock::meta
