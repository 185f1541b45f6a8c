// What directories say of the layouts of their new files.
#include "node.h"

#include <gmock/gmock.h>

namespace penstock::client {
namespace {

using meta::Media;
using testing::HasSubstr;

class DirectoryLayoutTest : public testing::Test {
 protected:
  DirectoryLayoutTest() {
    directory = node.files->make_directory(node.root, meta::kRootInode, "d", 0755, nullptr)->inode;
  }

  // Two chains in three copies on flash, which lie on the targets of the node.
  void offer_copies() {
    for (uint32_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(node.chains->learn(ChainId(100 + i), {NodeId{1}, 2 + i}).ok());
    }
    EXPECT_TRUE(
        node.tables
            ->offer(
                {.id = 7, .chain_first = 100, .chain_count = 2, .copies = 3, .media = Media::flash})
            .ok());
  }
  Outcome<Attributes> set(const LayoutChange& change) {
    return node.files->set_layout(node.root, directory, change, nullptr);
  }
  std::string refusal(const LayoutChange& change) {
    const Outcome<Attributes> made = set(change);
    return made ? "it was not refused" : made.error().message;
  }
  std::string text(InodeId inode, std::string_view name = kLayoutXattr) {
    const Result<std::string> value = node.files->get_xattr(node.root, inode, name);
    return value ? *value : std::string(value.error().name());
  }
  Status set_text(std::string_view value) {
    return node.files->set_xattr(node.root, directory, kLayoutXattr, value, meta::XattrMode::any,
                                 nullptr);
  }
  bool has_chunk(size_t target, InodeId inode) {
    return node.targets[target]->chunks.contains({inode, 0});
  }

  Node node{1, 4};
  InodeId directory;
};

TEST_F(DirectoryLayoutTest, is_what_new_files_get_and_new_directories_pass_on) {
  const FileRef before = node.open("/d/before");
  ASSERT_TRUE(set({.chunk_bytes = 131'072, .stripe = 2}).has_value());
  const auto below = node.files->make_directory(node.root, directory, "below", 0755, nullptr);
  const FileRef after = node.open("/d/below/after");
  EXPECT_EQ(text(below->inode), "chunk=131072 stripe=2 copies=1 media=any table=0 chains=0+4");
  const meta::Layout layout = node.files->attributes(inode_of(*after))->layout;
  EXPECT_EQ(layout.chunk_bytes(), 131'072u);
  EXPECT_EQ(layout.chains.size(), 2u);
  EXPECT_EQ(text(inode_of(*before)), "chunk=65536 copies=1 media=any table=0 chains=0+4");
  EXPECT_THAT(text(inode_of(*after)), HasSubstr("chunk=131072 copies=1 media=any table=0 chains="));
  EXPECT_EQ(text(meta::kRootInode), "chunk=65536 stripe=all copies=1 media=any table=0 chains=0+4");
}

TEST_F(DirectoryLayoutTest, takes_a_table_that_came_while_the_node_runs) {
  EXPECT_EQ(refusal({.copies = 3}), "no table of chains has 3 copies; there is: 1 copy (4 chains)");
  EXPECT_EQ(refusal({.media = Media::flash}),
            "no table of chains has 1 copy on flash; there is: 1 copy (4 chains)");
  offer_copies();
  EXPECT_EQ(refusal({.copies = 2, .media = Media::disk}),
            "no table of chains has 2 copies on disk; there is: 1 copy (4 chains), 3 copies on "
            "flash (2 chains)");
  EXPECT_EQ(text(directory), "chunk=65536 stripe=all copies=1 media=any table=0 chains=0+4")
      << "what was refused changed nothing";
  ASSERT_TRUE(set({.stripe = 1, .copies = 3}).has_value());
  EXPECT_EQ(text(directory), "chunk=65536 stripe=1 copies=3 media=any table=7 chains=100+2");
  const FileRef file = node.open("/d/f");
  EXPECT_TRUE(node.write(file, 0, "12345").has_value());
  EXPECT_EQ(node.read(file, 0, 5), "12345");
  EXPECT_NE(has_chunk(2, inode_of(*file)), has_chunk(3, inode_of(*file)));
  EXPECT_FALSE(has_chunk(0, inode_of(*file)) || has_chunk(1, inode_of(*file)));
}

TEST_F(DirectoryLayoutTest, learns_that_its_table_has_grown_when_it_is_set_anew) {
  offer_copies();
  ASSERT_TRUE(set({.copies = 3}).has_value());
  EXPECT_TRUE(node.chains->learn(ChainId(102), {NodeId{1}, 0}).ok());
  EXPECT_TRUE(
      node.tables->offer({.id = 7, .chain_first = 100, .chain_count = 3, .copies = 3}).ok());
  ASSERT_TRUE(set({.chunk_bytes = 131'072}).has_value());
  EXPECT_THAT(text(directory), HasSubstr("chains=100+2"));
  ASSERT_TRUE(set({.copies = 3}).has_value());
  EXPECT_THAT(text(directory), HasSubstr("chains=100+3"));
}

TEST_F(DirectoryLayoutTest, says_what_is_possible) {
  EXPECT_THAT(refusal({.chunk_bytes = 100'000}), HasSubstr("65536 to 67108864 bytes"));
  EXPECT_THAT(refusal({.chunk_bytes = 1 << 12}), HasSubstr("a power of two"));
  EXPECT_THAT(refusal({.chunk_bytes = 0}), HasSubstr("a power of two"));
  EXPECT_THAT(refusal({.copies = 0}), HasSubstr("1 to 8 copies"));
  EXPECT_THAT(refusal({.copies = 257}), HasSubstr("1 to 8 copies"));
  const FileRef file = node.open("/d/f");
  const auto of_file = node.files->set_layout(node.root, inode_of(*file), {.stripe = 1}, nullptr);
  ASSERT_FALSE(of_file.has_value());
  EXPECT_EQ(of_file.error().status, Status(Code::not_directory));
  EXPECT_THAT(of_file.error().message, HasSubstr("set that of its directory"));
}

TEST_F(DirectoryLayoutTest, is_its_owners_to_set) {
  const Credentials other{1000, 1000, {}, true};
  const auto set = node.files->set_layout(other, directory, {.stripe = 1}, nullptr);
  ASSERT_FALSE(set.has_value());
  EXPECT_EQ(set.error().status, Status(Code::not_permitted));
  meta::SetAttributes given;
  given.uid = 1000;
  EXPECT_TRUE(node.files->set_attributes(node.root, directory, given, nullptr).has_value());
  EXPECT_TRUE(node.files->set_layout(other, directory, {.stripe = 1}, nullptr).has_value());
}

TEST_F(DirectoryLayoutTest, is_an_attribute_that_is_not_listed) {
  offer_copies();
  EXPECT_TRUE(set_text("copies=3 chunk=262144  stripe=1\n").ok());
  EXPECT_EQ(text(directory), "chunk=262144 stripe=1 copies=3 media=any table=7 chains=100+2");
  EXPECT_TRUE(set_text("stripe=all media=flash").ok());
  EXPECT_EQ(text(directory), "chunk=262144 stripe=all copies=3 media=flash table=7 chains=100+2");
  EXPECT_EQ(text(directory, kTablesXattr),
            "table=0 copies=1 media=any chains=0+4\ntable=7 copies=3 media=flash chains=100+2");
  for (const char* bad :
       {"", " ", "stripe", "stripe=", "stripe=0", "stripe=x", "stripe=1 stripe=2", "copies=-1",
        "copies=4294967299", "chunk=65536k", "media=tape", "media=flash media=disk", "table=7",
        "chains=0+4", "=1", "chunk=99999999999999999999"}) {
    EXPECT_EQ(set_text(bad), Status(Code::invalid_argument)) << bad;
  }
  EXPECT_EQ(set_text("copies=2"), Status(Code::not_supported));
  EXPECT_EQ(node.files->set_xattr(node.root, directory, kTablesXattr, "table=1",
                                  meta::XattrMode::any, nullptr),
            Status(Code::not_supported));
  EXPECT_EQ(node.files->remove_xattr(node.root, directory, kLayoutXattr, nullptr),
            Status(Code::not_supported));
  EXPECT_TRUE(node.meta->list_xattrs(node.root, directory)->empty());
}

TEST(ChainTables, one_that_is_much_larger_takes_the_place_of_the_present_one) {
  inodes::ChainTables tables;
  const ChainTable present{.id = 1, .chain_first = 100, .chain_count = 8, .copies = 2};
  ChainTable later{.id = 2, .chain_first = 200, .chain_count = 15, .copies = 2};
  ASSERT_TRUE(tables.offer(present).ok());
  ASSERT_TRUE(tables.offer(later).ok());
  EXPECT_EQ(tables.choose({.copies = 2, .present = 1}), present);
  later.chain_count = 16;
  ASSERT_TRUE(tables.offer(later).ok());
  EXPECT_EQ(tables.choose({.copies = 2, .present = 1}), later);
  EXPECT_EQ(tables.choose({.copies = 2, .present = 2}), later);
}

TEST(ChainTables, are_found_by_what_they_are_like) {
  inodes::ChainTables tables;
  EXPECT_EQ(tables.choose({}), std::nullopt);
  const inodes::ChainTable small{.id = 3, .chain_count = 2, .media = Media::flash};
  const inodes::ChainTable large{.id = 5, .chain_first = 2, .chain_count = 3};
  EXPECT_TRUE(tables.offer(large).ok());
  EXPECT_TRUE(tables.offer(small).ok());
  EXPECT_EQ(tables.all(), (std::vector<inodes::ChainTable>{small, large}));
  EXPECT_EQ(tables.choose({}), large) << "the one with more chains";
  EXPECT_EQ(tables.choose({.present = 3}), small) << "but the one that is in use comes first";
  EXPECT_EQ(tables.choose({.media = Media::flash}), small);
  EXPECT_EQ(tables.choose({.copies = 2}), std::nullopt);
  EXPECT_EQ(tables.offer({.id = 6, .chain_count = 0}), Status(Code::invalid_argument));
  EXPECT_EQ(tables.offer({.id = 6, .chain_count = 1, .copies = 9}), Status(Code::invalid_argument));
  EXPECT_EQ(tables.offer({.id = 6, .chain_first = UINT32_MAX, .chain_count = 2}),
            Status(Code::invalid_argument));
  for (uint32_t id = 10; id < 10 + inodes::limits::kTablesMax - 2; ++id) {
    EXPECT_TRUE(tables.offer({.id = id, .chain_count = 1}).ok());
  }
  EXPECT_EQ(tables.offer({.id = 9, .chain_count = 1}), Status(Code::too_large));
  EXPECT_TRUE(tables.offer({.id = 3, .chain_count = 4}).ok()) << "it has grown";
  EXPECT_EQ(tables.all().front().chain_count, 4u);
}

}  // namespace
}  // namespace penstock::client
