// Names, paths, types, times and limits, as POSIX has them.
#include "fixture.h"

namespace penstock::meta {
namespace {

TEST_F(MetaTest, new_file_system_has_a_root) {
  const Attributes root = get(kRootInode);
  EXPECT_EQ(root.type, FileType::directory);
  EXPECT_EQ(root.mode, 0755u);
  EXPECT_EQ(root.links, 2u);
  EXPECT_TRUE(list(kRootInode).empty());
  EXPECT_EQ(meta_->counts()->inodes, 1u);
  EXPECT_EQ(meta_->resolve(root_, "/", true)->inode, kRootInode);
  EXPECT_EQ(meta_->lookup(root_, kRootInode, "..")->inode, kRootInode);
}

TEST_F(MetaTest, new_file_has_the_attributes_asked_for) {
  const Layout layout{16, 2, 3, 77};
  const auto made = meta_->create(alice_, kRootInode, "f", 0644, true, layout);
  EXPECT_EQ(code_of(made), Code::access_denied);
  const InodeId home = directory(kRootInode, "home", 0777);
  bool created = false;
  const auto file = meta_->create(alice_, home, "f", 07640, true, layout, &created);
  ASSERT_TRUE(file.has_value());
  EXPECT_TRUE(created);
  EXPECT_EQ(file->uid, 100u);
  EXPECT_EQ(file->gid, 100u);
  EXPECT_EQ(file->mode, 07640u);
  EXPECT_EQ(file->links, 1u);
  EXPECT_EQ(file->length, 0u);
  EXPECT_EQ(file->layout, layout);
  EXPECT_EQ(file->modified, get(home).modified);
  const auto again = meta_->create(bob_, home, "f", 0600, false, {}, &created);
  ASSERT_TRUE(again.has_value());
  EXPECT_FALSE(created);
  EXPECT_EQ(again->inode, file->inode);
  const auto other = meta_->create(alice_, home, "g", 0600, true);
  EXPECT_EQ(other->layout.chunk_bytes_log2, options_.default_layout.chunk_bytes_log2);
  EXPECT_NE(other->layout.seed, 0u);
  EXPECT_EQ(code_of(meta_->create(alice_, home, "h", 0600, true, Layout{5, 0, 1, 0})),
            Code::invalid_argument);
}

TEST_F(MetaTest, looks_find_entries_and_inodes_whoever_may_see_them) {
  const InodeId home = directory(kRootInode, "home", 0700);
  const InodeId file = meta_->create(root_, home, "f", 0600, true)->inode;
  std::vector<Look> looks;
  const auto add = [&](InodeId inode, const std::string& name) {
    looks.push_back({inode, name, Code::corrupt, false});
  };
  add(home, "f");
  add(home, "none");
  add(file, "");
  add(file, "below");
  add(InodeId(file.value + 100'000), "");
  add(kRootInode, "home");
  ASSERT_TRUE(meta_->look(looks).ok());
  EXPECT_EQ(looks[0].found->inode, file);
  EXPECT_EQ(code_of(looks[1].found), Code::not_found);
  EXPECT_EQ(looks[2].found->mode, 0600u);
  EXPECT_EQ(code_of(looks[3].found), Code::not_directory);
  EXPECT_EQ(code_of(looks[4].found), Code::not_found);
  EXPECT_EQ(looks[5].found->inode, home);
  for (const Look& look : looks) EXPECT_TRUE(look.is_steady);
}

TEST_F(MetaTest, new_files_have_the_stripe_of_their_directory) {
  MetaOptions options;
  options.default_layout.chain_first = 3;
  options.default_layout.chain_count = 9;
  options.default_layout.stripe = 4;
  const auto storage = make_storage("memory");
  const auto meta = open_meta(storage->kv(), clock_, options);
  const auto below = meta->make_directory(root_, kRootInode, "d", 0755);
  ASSERT_TRUE(below.has_value());
  EXPECT_EQ(below->layout, options.default_layout) << "directories pass it on as it is";
  const auto file = meta->create(root_, below->inode, "f", 0644, true);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->layout.chains.size(), 4u);
  EXPECT_EQ(file->layout.stripe, 0u);
  EXPECT_EQ(meta->attributes(file->inode)->layout, file->layout) << "as it was stored";
  const auto places = meta->place_files(root_, {{"/d/g", false}});
  ASSERT_TRUE(places.has_value() && places->front().has_value());
  const NewFile& place = *places->front();
  EXPECT_EQ(place.layout.chains.size(), 4u) << "its bytes come before its name";
  std::vector<Result<MadeFile>> made;
  EXPECT_TRUE(
      meta->create_files(root_, {{.place = place, .mode = 0644, .changes = {}}}, &made).ok());
  EXPECT_EQ(meta->attributes(place.inode)->layout, place.layout);
}

TEST_F(MetaTest, layouts_of_directories_change_as_a_whole_or_not_at_all) {
  const auto directory = meta_->make_directory(root_, kRootInode, "d", 0755);
  ASSERT_TRUE(directory.has_value());
  const auto wider = [](Layout& layout) {
    layout.chunk_bytes_log2 = 20;
    layout.copies = 3;
    return Status();
  };
  const auto set = meta_->set_layout(root_, directory->inode, wider);
  ASSERT_TRUE(set.has_value());
  EXPECT_EQ(set->layout.copies, 3);
  EXPECT_GE(set->changed, directory->changed);
  EXPECT_EQ(meta_->attributes(directory->inode)->layout, set->layout) << "as it was stored";
  const auto refused = [](Layout& layout) {
    layout.copies = 1;
    return Status(Code::not_supported);
  };
  EXPECT_EQ(meta_->set_layout(root_, directory->inode, refused).error(), Code::not_supported);
  const auto bad = [](Layout& layout) {
    layout.copies = 0;
    return Status();
  };
  EXPECT_EQ(meta_->set_layout(root_, directory->inode, bad).error(), Code::invalid_argument);
  const auto listing = [](Layout& layout) {
    layout.chains = {ChainId(0)};
    return Status();
  };
  EXPECT_EQ(meta_->set_layout(root_, directory->inode, listing).error(), Code::invalid_argument);
  EXPECT_EQ(meta_->attributes(directory->inode)->layout, set->layout);
  const auto file = meta_->create(root_, directory->inode, "f", 0644, true);
  EXPECT_EQ(file->layout.copies, 3);
  EXPECT_EQ(meta_->set_layout(root_, file->inode, wider).error(), Code::not_directory);
  EXPECT_EQ(meta_->set_layout({1000, 1000, {}, true}, directory->inode, wider).error(),
            Code::not_permitted);
}

// The directory says so, and its table is not there yet.
TEST_F(MetaTest, no_file_is_made_on_chains_that_cannot_be_reached) {
  bool there = false;
  MetaOptions options;
  options.reaches = [&](const Layout& layout) { return there || layout.table == 0; };
  const auto storage = make_storage("memory");
  const auto meta = open_meta(storage->kv(), clock_, options);
  const auto directory = meta->make_directory(root_, kRootInode, "d", 0755);
  ASSERT_TRUE(meta->set_layout(root_, directory->inode,
                               [](Layout& layout) {
                                 layout.table = 7;
                                 return Status();
                               })
                  .has_value());
  EXPECT_EQ(meta->create(root_, directory->inode, "f", 0644, true).error(), Code::not_serving);
  EXPECT_EQ(meta->create_unnamed(root_, directory->inode, 0644, *meta->unused_id()).error(),
            Code::not_serving);
  EXPECT_EQ(meta->make_node(root_, directory->inode, "f", FileType::regular, 0644, 0).error(),
            Code::not_serving);
  const auto places = meta->place_files(root_, {{"/d/f", false}, {"/f", false}});
  ASSERT_TRUE(places.has_value());
  EXPECT_EQ(places->front().error(), Code::not_serving);
  EXPECT_TRUE(places->back().has_value());
  EXPECT_EQ(meta->lookup(root_, directory->inode, "f").error(), Code::not_found);
  EXPECT_TRUE(meta->make_directory(root_, directory->inode, "below", 0755).has_value());
  there = true;
  EXPECT_TRUE(meta->create(root_, directory->inode, "f", 0644, true).has_value());
}

TEST_F(MetaTest, bad_names_end_with_the_right_code) {
  const std::string longest(255, 'n');
  const std::string too_long(256, 'n');
  const std::pair<std::string, Code> cases[] = {
      {"", Code::not_found},
      {too_long, Code::name_too_long},
      {"a/b", Code::invalid_argument},
      {std::string("a\0b", 3), Code::invalid_argument},
  };
  for (const auto& [name, code] : cases) {
    EXPECT_EQ(code_of(meta_->lookup(root_, kRootInode, name)), code);
    EXPECT_EQ(code_of(meta_->create(root_, kRootInode, name, 0644, false)), code);
    EXPECT_EQ(code_of(meta_->make_directory(root_, kRootInode, name, 0755)), code);
    EXPECT_EQ(code_of(meta_->unlink(root_, kRootInode, name, nullptr)), code);
    EXPECT_EQ(code_of(meta_->remove_directory(root_, kRootInode, name, nullptr)), code);
    EXPECT_EQ(code_of(meta_->rename(root_, kRootInode, "x", kRootInode, name, {}, nullptr)), code);
  }
  EXPECT_EQ(code_of(meta_->create(root_, kRootInode, ".", 0644, true)), Code::already_exists);
  EXPECT_EQ(code_of(meta_->create(root_, kRootInode, "..", 0644, false)), Code::is_directory);
  EXPECT_EQ(code_of(meta_->make_directory(root_, kRootInode, ".", 0755)), Code::already_exists);
  EXPECT_EQ(code_of(meta_->unlink(root_, kRootInode, "..", nullptr)), Code::is_directory);
  EXPECT_EQ(code_of(meta_->remove_directory(root_, kRootInode, ".", nullptr)),
            Code::invalid_argument);
  EXPECT_EQ(code_of(meta_->remove_directory(root_, kRootInode, "..", nullptr)), Code::not_empty);
  EXPECT_EQ(code_of(meta_->rename(root_, kRootInode, ".", kRootInode, "x", {}, nullptr)),
            Code::in_use);
  file(kRootInode, longest);
  EXPECT_TRUE(meta_->lookup(root_, kRootInode, longest).has_value());
  file(kRootInode, "\xff\xfe");  // names are bytes
  EXPECT_TRUE(meta_->lookup(root_, kRootInode, "\xff\xfe").has_value());
}

TEST_F(MetaTest, wrong_types_end_with_the_right_code) {
  const InodeId f = file(kRootInode, "f");
  const InodeId d = directory(kRootInode, "d");
  EXPECT_EQ(code_of(meta_->lookup(root_, f, "x")), Code::not_directory);
  EXPECT_EQ(code_of(meta_->create(root_, f, "x", 0644, true)), Code::not_directory);
  EXPECT_EQ(code_of(meta_->create(root_, kRootInode, "d", 0644, false)), Code::is_directory);
  EXPECT_EQ(code_of(meta_->create(root_, kRootInode, "d", 0644, true)), Code::already_exists);
  EXPECT_EQ(code_of(meta_->unlink(root_, kRootInode, "d", nullptr)), Code::is_directory);
  EXPECT_EQ(code_of(meta_->remove_directory(root_, kRootInode, "f", nullptr)), Code::not_directory);
  EXPECT_EQ(code_of(meta_->link(root_, d, kRootInode, "x")), Code::not_permitted);
  EXPECT_EQ(code_of(meta_->link(root_, f, kRootInode, "d")), Code::already_exists);
  EXPECT_EQ(code_of(meta_->read_symlink(f)), Code::invalid_argument);
  EXPECT_EQ(code_of(meta_->begin_write(d)), Code::is_directory);
  EXPECT_EQ(code_of(meta_->read_directory(f, 0, 1, false, [](auto&, auto*) { return true; })),
            Code::not_directory);
  EXPECT_EQ(code_of(meta_->attributes(InodeId(99))), Code::not_found);
  EXPECT_EQ(code_of(meta_->make_node(root_, kRootInode, "x", FileType::directory, 0, 0)),
            Code::invalid_argument);
  SetAttributes truncate;
  truncate.length = 5;
  EXPECT_EQ(code_of(meta_->set_attributes(root_, d, truncate)), Code::is_directory);
  truncate.length = limits::kFileBytesMax + 1;
  EXPECT_EQ(code_of(meta_->set_attributes(root_, f, truncate)), Code::too_large);
}

TEST_F(MetaTest, paths_are_walked_like_a_kernel_does) {
  const InodeId a = directory(kRootInode, "a");
  const InodeId b = directory(a, "b");
  const InodeId f = file(b, "f");
  ASSERT_TRUE(meta_->make_symlink(root_, a, "relative", "b/f").has_value());
  ASSERT_TRUE(meta_->make_symlink(root_, a, "absolute", "/a/b").has_value());
  ASSERT_TRUE(meta_->make_symlink(root_, a, "dangling", "nowhere").has_value());
  ASSERT_TRUE(meta_->make_symlink(root_, a, "loop", "loop").has_value());
  const auto resolve = [&](const std::string& path, bool follow = true) {
    const auto found = meta_->resolve(root_, path, follow);
    return found ? found->inode : InodeId();
  };
  const auto code = [&](const std::string& path, bool follow = true) {
    return code_of(meta_->resolve(root_, path, follow));
  };
  EXPECT_EQ(resolve("/a/b/f"), f);
  EXPECT_EQ(resolve("//a///b/./../b/f"), f);
  EXPECT_EQ(resolve("/../a/b/"), b);
  EXPECT_EQ(resolve("/a/relative"), f);
  EXPECT_EQ(resolve("/a/absolute/f"), f);
  EXPECT_EQ(resolve("/a/absolute", false), meta_->lookup(root_, a, "absolute")->inode);
  EXPECT_EQ(resolve("/a/absolute/", false), b);
  EXPECT_EQ(resolve("/a/loop", false), meta_->lookup(root_, a, "loop")->inode);
  EXPECT_EQ(code("/a/loop"), Code::too_many_symlinks);
  EXPECT_EQ(code("/a/dangling"), Code::not_found);
  EXPECT_EQ(code("/a/b/f/"), Code::not_directory);
  EXPECT_EQ(code("/a/b/f/x"), Code::not_directory);
  EXPECT_EQ(code("/a/b/f/.."), Code::not_directory);
  EXPECT_EQ(code(""), Code::not_found);
  EXPECT_EQ(code("a"), Code::invalid_argument);
  EXPECT_EQ(code(std::string("/a\0", 3)), Code::invalid_argument);
  EXPECT_EQ(code("/" + std::string(256, 'n')), Code::name_too_long);
  std::string longest;
  while (longest.size() < 4093) longest += "/.";
  EXPECT_EQ(resolve(longest), kRootInode);
  EXPECT_EQ(code(longest + "/./."), Code::name_too_long);
  for (int i = 0; i < 41; ++i) {
    const std::string target = i == 0 ? "b" : "link" + std::to_string(i - 1);
    ASSERT_TRUE(meta_->make_symlink(root_, a, "link" + std::to_string(i), target).has_value());
  }
  EXPECT_EQ(resolve("/a/link39"), b);
  EXPECT_EQ(code("/a/link40"), Code::too_many_symlinks);
  const auto parent = meta_->resolve_parent(root_, "/a/absolute/new/");
  ASSERT_TRUE(parent.has_value());
  EXPECT_EQ(parent->parent.inode, b);
  EXPECT_EQ(parent->name, "new");
  EXPECT_TRUE(parent->must_be_directory);
  EXPECT_EQ(meta_->resolve_parent(root_, "/")->name, ".");
  EXPECT_EQ(code_of(meta_->resolve_parent(root_, "/a/relative/x")), Code::not_directory);
}

TEST_F(MetaTest, times_follow_posix) {
  const InodeId d = directory(kRootInode, "d");
  const Attributes before = get(d);
  const InodeId f = file(d, "f");
  EXPECT_GT(get(d).modified, before.modified);
  EXPECT_GT(get(d).changed, before.changed);
  EXPECT_EQ(get(d).created, before.created);
  const Attributes file_before = get(f);
  ASSERT_TRUE(meta_->link(root_, f, d, "g").has_value());
  EXPECT_GT(get(f).changed, file_before.changed);
  EXPECT_EQ(get(f).modified, file_before.modified);
  const Attributes linked = get(f);
  const Attributes parent = get(d);
  ASSERT_TRUE(set_mode(root_, f, 0600).ok());
  EXPECT_GT(get(f).changed, linked.changed);
  EXPECT_EQ(get(d).modified, parent.modified);
  ASSERT_TRUE(meta_->rename(root_, d, "f", kRootInode, "h", {}, nullptr).ok());
  EXPECT_GT(get(d).modified, parent.modified);
  EXPECT_EQ(get(kRootInode).modified, get(d).modified);
  ASSERT_TRUE(set_mode(root_, d, 0700).ok());
  EXPECT_GT(get(d).changed, get(d).modified);
}

TEST_F(MetaTest, links_are_limited) {
  const InodeId f = file(kRootInode, "f");
  for (int i = 1; i < 65'000; ++i) {
    ASSERT_TRUE(meta_->link(root_, f, kRootInode, std::to_string(i)).has_value()) << i;
  }
  EXPECT_EQ(code_of(meta_->link(root_, f, kRootInode, "more")), Code::too_many_links);
  EXPECT_EQ(get(f).links, 65'000u);
}

TEST_F(MetaTest, subdirectories_are_limited) {
  const InodeId d = directory(kRootInode, "d");
  for (int i = 2; i < 65'000; ++i) directory(d, std::to_string(i));
  EXPECT_EQ(code_of(meta_->make_directory(root_, d, "more", 0755)), Code::too_many_links);
  directory(kRootInode, "elsewhere");
  EXPECT_EQ(meta_->rename(root_, kRootInode, "elsewhere", d, "more", {}, nullptr).code(),
            Code::too_many_links);
  EXPECT_TRUE(meta_->rename(root_, kRootInode, "elsewhere", d, "7", {}, nullptr).ok())
      << "replacing does not add one";
  file(d, "file");
  directory(kRootInode, "again");
  EXPECT_EQ(
      meta_->rename(root_, kRootInode, "again", d, "file", {.exchange = true}, nullptr).code(),
      Code::too_many_links);
  EXPECT_TRUE(meta_->rename(root_, kRootInode, "again", d, "8", {.exchange = true}, nullptr).ok());
  EXPECT_EQ(get(d).links, 65'000u);
}

TEST_F(MetaTest, xattrs_are_limited) {
  const InodeId f = file(kRootInode, "f");
  const std::string largest(64 * 1024, 'v');
  EXPECT_TRUE(meta_->set_xattr(root_, f, "user.big", largest, XattrMode::any).ok());
  EXPECT_EQ(*meta_->get_xattr(root_, f, "user.big"), largest);
  EXPECT_EQ(meta_->set_xattr(root_, f, "user.big", largest + "v", XattrMode::any).code(),
            Code::too_large);
  Status status;
  size_t bytes = sizeof "user.big";
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    const std::string name = "user." + std::to_string(1000 + i) + std::string(200, 'n');
    status = meta_->set_xattr(root_, f, name, "", XattrMode::create);
    if (status.ok()) bytes += name.size() + 1;
  }
  EXPECT_EQ(status.code(), Code::no_space);
  EXPECT_LE(bytes, 64u * 1024);
  EXPECT_GT(bytes, 64u * 1024 - 300);
}

}  // namespace
}  // namespace penstock::meta
