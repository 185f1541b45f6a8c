// Decoders face whatever a damaged database holds.
#include "records.h"

#include "decode_all.h"

#include <gtest/gtest.h>

namespace penstock::meta {
namespace {

Inode sample(FileType type) {
  Inode inode;
  inode.attributes.inode = InodeId(5);
  inode.attributes.type = type;
  inode.attributes.mode = 06755;
  inode.attributes.uid = UINT32_MAX;
  inode.attributes.links = 3;
  inode.attributes.accessed = {-1};
  inode.attributes.created = {INT64_MAX};
  inode.attributes.generation = 1;
  inode.xattr_bytes = 77;
  if (type == FileType::directory) inode.parent = InodeId(UINT64_MAX);
  if (type == FileType::regular) inode.attributes.length = limits::kFileBytesMax;
  if (type == FileType::symlink) inode.target = "there";
  return inode;
}

std::vector<std::string> samples() {
  std::vector<std::string> encoded;
  for (int type = 0; type < 7; ++type) encoded.push_back(encode(sample(FileType(type))));
  encoded.push_back(encode(DirectoryTimes{{1}, {2}}));
  encoded.push_back(encode(Dentry{InodeId(7), FileType::fifo, kCookieMin}));
  encoded.push_back(encode(CookieEntry{"name", InodeId(7), FileType::block}));
  encoded.push_back(encode_number(UINT64_MAX));
  return encoded;
}

TEST(Records, decode_to_what_was_encoded) {
  for (int type = 0; type < 7; ++type) {
    const Inode inode = sample(FileType(type));
    const auto decoded = decode_inode(InodeId(5), encode(inode));
    ASSERT_TRUE(decoded.has_value()) << type;
    EXPECT_EQ(decoded->attributes.type, inode.attributes.type);
    EXPECT_EQ(decoded->attributes.uid, UINT32_MAX);
    EXPECT_EQ(decoded->attributes.accessed.nanoseconds, -1);
    EXPECT_EQ(decoded->parent, inode.parent);
    EXPECT_EQ(decoded->target, inode.target);
    EXPECT_EQ(encode(*decoded), encode(inode));
  }
  EXPECT_EQ(decode_number(encode_number(UINT64_MAX)), UINT64_MAX);
  EXPECT_EQ(decode_cookie_entry(encode(CookieEntry{"..", InodeId(7), FileType::block})),
            std::nullopt);
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
