// The grammar of lines.
#include "../lines.h"

#include "../limits.h"
#include "sample_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::meta_text {
namespace {

using meta::FileTime;
using meta::FileType;

std::string without_end(const std::string& line) {
  EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
  return line.substr(0, line.size() - 1);
}

TEST(Lines, say_what_is_documented) {
  EXPECT_EQ(text_of(VersionLine{}), "penstock-metadata 1\n");
  EXPECT_EQ(text_of(NextLine{5120}), "next 5120\n");
  EXPECT_EQ(text_of(sample_inode(FileType::regular)),
            "inode 1024 regular mode=4755 uid=1000 gid=4294967295 links=2 generation=77 flags=32 "
            "accessed=-5.999999999 modified=1764080000.000000001 changed=15032385535.000000000 "
            "created=-2147483648.000000001 length=1048576 sparse=0 chunk=1048576 chain=3 chains=4 "
            "seed=18446744073709551615\n");
  InodeLine listed = sample_inode(FileType::regular);
  listed.inode.attributes.layout.table = 3;
  listed.inode.attributes.layout.copies = 2;
  listed.inode.attributes.layout.media = meta::Media::disk;
  listed.inode.attributes.layout.chains = {ChainId(1030), ChainId(1025)};
  const std::string text = text_of(listed);
  EXPECT_TRUE(text.ends_with("615 table=3 scheme=0 copies=2 media=2 stripe=0 on=1030 on=1025\n"))
      << text;
  EXPECT_TRUE(parse_strictly(without_end(text)));
  EXPECT_EQ(text_of(XattrLine{InodeId(7), "user.a b", std::string("\0\xff", 2)}),
            "xattr 7 name=user.a\\x20b value=\\x00\\xff\n");
  EXPECT_EQ(text_of(EntryLine{InodeId(1), 1030, {"a\\b", InodeId(1026), FileType::fifo}}),
            "entry 1 cookie=1030 inode=1026 type=fifo name=a\\x5cb\n");
  EXPECT_EQ(text_of(SessionLine{InodeId(1024), 1031}), "session 1024 token=1031\n");
  EXPECT_EQ(text_of(EndLine{{1, 2, 3, 4}, 0x00c0ffee}),
            "end inodes=1 xattrs=2 entries=3 sessions=4 crc=00c0ffee\n");
}

TEST(Lines, of_every_shape_are_read_as_they_are_written) {
  for (const std::string& line : sample_lines()) {
    EXPECT_TRUE(parse_strictly(without_end(line))) << line;
  }
  const auto inode = parse(without_end(text_of(sample_inode(FileType::directory))));
  ASSERT_TRUE(inode && std::holds_alternative<InodeLine>(*inode));
  const meta::Attributes& read = std::get<InodeLine>(*inode).inode.attributes;
  const InodeLine sample = sample_inode(FileType::directory);
  EXPECT_EQ(read.modified, sample.inode.attributes.modified);
  EXPECT_EQ(read.layout, sample.inode.attributes.layout);
  EXPECT_EQ(std::get<InodeLine>(*inode).inode.parent, meta::kRootInode);
}

TEST(Lines, have_every_time_that_can_be_stored) {
  for (const uint64_t raw : {uint64_t{0}, uint64_t{1}, uint64_t{999'999'999},
                             uint64_t{1'000'000'000}, FileTime().raw() - 1, FileTime().raw(),
                             FileTime().raw() + 1, FileTime::kRawMax - 1, FileTime::kRawMax}) {
    InodeLine line = sample_inode(FileType::fifo);
    line.inode.attributes.created = FileTime::from_raw(raw);
    const auto parsed = parse(without_end(text_of(line)));
    ASSERT_TRUE(parsed.has_value()) << raw;
    EXPECT_EQ(std::get<InodeLine>(*parsed).inode.attributes.created.raw(), raw);
  }
}

TEST(Lines, have_any_byte_in_a_name) {
  std::string name;
  for (int byte = 1; byte < 256; ++byte) {
    if (byte != '/') name.push_back(static_cast<char>(byte));
  }
  const EntryLine line{InodeId(1), 1030, {name, InodeId(1026), FileType::regular}};
  const std::string text = without_end(text_of(line));
  for (const char byte : text) EXPECT_TRUE(byte >= ' ' && byte <= '~');
  const auto parsed = parse(text);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(std::get<EntryLine>(*parsed).entry.name, name);
}

TEST(Lines, of_the_largest_attribute_have_room) {
  const XattrLine line{InodeId(meta::kIdMax), std::string(meta::kXattrNameBytesMax, '\xff'),
                       std::string(meta::kXattrValueBytesMax, '\xff')};
  const std::string text = text_of(line);
  EXPECT_LE(text.size(), kLineBytesMax);
  EXPECT_TRUE(parse_strictly(without_end(text)));
}

TEST(Lines, in_another_form_are_refused) {
  for (const std::string line : {
           "",
           " ",
           "next",
           "next ",
           "next 05",
           "next +5",
           "next -5",
           "next 5 ",
           "next  5",
           "next 18446744073709551616",
           "Next 5",
           "next 5\r",
           "penstock-metadata x",
           "session 1 token=0x5",
           "session 1",
           "session 4611686018427387905 token=1",
           "xattr 7 name= value=",
           "xattr 7 name=a",
           "xattr 7 name=a\\x00 value=",
           "xattr 7 name=a value=\\x4",
           "xattr 7 name=a value=\\x41",
           "xattr 7 name=a value=\\xFF",
           "xattr 7 name=a value=\\n",
           "xattr 7 name=a value=\xc3\xa9",
           "xattr 7 name=a value=a b",
           "entry 1 cookie=1023 inode=5 type=regular name=a",
           "entry 1 cookie=1024 inode=0 type=regular name=a",
           "entry 1 cookie=1024 inode=5 type=file name=a",
           "entry 1 cookie=1024 inode=5 type=regular name=",
           "entry 1 cookie=1024 inode=5 type=regular name=.",
           "entry 1 cookie=1024 inode=5 type=regular name=..",
           "entry 1 cookie=1024 inode=5 type=regular name=a/b",
           "end inodes=1 xattrs=2 entries=3 sessions=4 crc=c0ffee",
           "end inodes=1 xattrs=2 entries=3 sessions=4 crc=00C0FFEE",
           "end inodes=1 xattrs=2 entries=3 sessions=4",
       }) {
    EXPECT_FALSE(parse(line).has_value()) << line;
  }
}

TEST(Lines, of_inodes_that_cannot_be_stored_are_refused) {
  const std::string good = without_end(text_of(sample_inode(FileType::directory)));
  ASSERT_TRUE(parse(good).has_value());
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    const size_t at = line.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return line.replace(at, from.size(), to);
  };
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"inode 1025", "inode 0"},
           {"seed=18446744073709551615", "seed=18446744073709551615 trash=0"},
           {"seed=18446744073709551615", "seed=18446744073709551615 trash=4"},
           {"mode=4755", "mode=14755"},
           {"mode=4755", "mode=4758"},
           {"links=2", "links=65001"},
           {"links=2", "links=0"},
           {"links=2", "links=2 nameable=1"},
           {"flags=32", "flags=1"},
           {"flags=32", "flags=256"},
           {"accessed=-5.999999999", "accessed=-0.000000000"},
           {"accessed=-5.999999999", "accessed=-5.99999999"},
           {"accessed=-5.999999999", "accessed=-2147483649.000000000"},
           {"accessed=-5.999999999", "accessed=15032385535.000000001"},
           {"accessed=-5.999999999", "accessed=-5.9999x9999"},
           {"parent=1", "parent=0"},
           {" parent=1", ""},
           {"chunk=1048576", "chunk=1048577"},
           {"chunk=1048576", "chunk=32768"},
           {"chunk=1048576", "chunk=134217728"},
           {"chunk=1048576", "chunk=0"},
           {"chains=4", "chains=0"},
           {"seed=18446744073709551615", "seed=18446744073709551615 acl="},
           {"seed=18446744073709551615", "seed=18446744073709551615 acl=abc"},
           {"seed=18446744073709551615", "seed=18446744073709551615 target=a"},
           {"seed=18446744073709551615",
            "seed=18446744073709551615 table=0 scheme=0 copies=1 media=0 stripe=0"},
           {"seed=18446744073709551615",
            "seed=18446744073709551615 table=1 scheme=1 copies=1 media=0 stripe=0"},
           {"seed=18446744073709551615",
            "seed=18446744073709551615 table=1 scheme=0 copies=1 media=0 stripe=0 on=7"},
           {"directory", "regular"}}) {
    EXPECT_FALSE(parse(changed(from, to)).has_value()) << from << " -> " << to;
  }
}

TEST(Lines, with_a_byte_lost_added_or_changed_are_refused_or_mean_what_they_say) {
  int taken = 0;
  for (const std::string& sample : sample_lines()) {
    const std::string line = without_end(sample);
    for (size_t at = 0; at < line.size(); ++at) {
      taken += parse_strictly(line.substr(0, at));
      std::string lost = line, added = line;
      taken += parse_strictly(lost.erase(at, 1));
      taken += parse_strictly(added.insert(at, 1, line[at]));
      for (int bit = 0; bit < 8; ++bit) {
        std::string changed = line;
        changed[at] = static_cast<char>(changed[at] ^ 1 << bit);
        taken += parse_strictly(changed);
      }
    }
  }
  // Another number is a number.
  EXPECT_GT(taken, 100);
}

}  // namespace
}  // namespace penstock::meta_text
