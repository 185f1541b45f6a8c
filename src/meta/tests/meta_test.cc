// POSIX rules, limits and restarts.
#include "harness.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <set>

namespace penstock::meta {
namespace {

class MetaTest : public testing::Test {
 protected:
  MetaTest() { reopen(); }

  void reopen() { meta_ = open_meta(storage_->kv(), clock_, options_); }
  InodeId directory(InodeId parent, const std::string& name, uint32_t mode = 0755,
                    const Credentials& who = {}) {
    const auto made = meta_->make_directory(who, parent, name, mode);
    EXPECT_TRUE(made.has_value());
    return made ? made->inode : InodeId();
  }
  InodeId file(InodeId parent, const std::string& name, uint32_t mode = 0644,
               const Credentials& who = {}) {
    const auto made = meta_->create(who, parent, name, mode, true);
    EXPECT_TRUE(made.has_value());
    return made ? made->inode : InodeId();
  }
  Attributes get(InodeId inode) {
    const auto found = meta_->attributes(inode);
    EXPECT_TRUE(found.has_value());
    return found ? *found : Attributes();
  }
  std::vector<std::string> list(InodeId inode) {
    std::vector<std::string> names;
    EXPECT_TRUE(meta_
                    ->read_directory(inode, 0, SIZE_MAX, false,
                                     [&](const DirectoryEntry& entry, const Attributes* found) {
                                       EXPECT_EQ(found, nullptr);
                                       names.push_back(entry.name);
                                       return true;
                                     })
                    .ok());
    std::sort(names.begin(), names.end());
    return names;
  }
  Status set_mode(const Credentials& who, InodeId inode, uint32_t mode) {
    SetAttributes changes;
    changes.mode = mode;
    const auto result = meta_->set_attributes(who, inode, changes);
    return result ? Status() : result.error();
  }

  const Credentials root_;
  const Credentials alice_{.uid = 100, .gid = 100, .groups = {500}};
  const Credentials bob_{.uid = 200, .gid = 200, .groups = {}};
  TickingClock clock_;
  MetaOptions options_;
  std::unique_ptr<Storage> storage_ = make_storage("memory");
  std::unique_ptr<Meta> meta_;
};

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

TEST_F(MetaTest, mode_bits_decide_who_may_look_and_change) {
  const InodeId locked = directory(kRootInode, "locked", 0700);
  file(locked, "f");
  EXPECT_EQ(code_of(meta_->lookup(alice_, locked, "f")), Code::access_denied);
  EXPECT_EQ(code_of(meta_->resolve(alice_, "/locked/f", true)), Code::access_denied);
  Credentials checked = alice_;
  checked.enforce = false;
  EXPECT_TRUE(meta_->lookup(checked, locked, "f").has_value());
  EXPECT_TRUE(set_mode(root_, locked, 0755).ok());
  EXPECT_TRUE(meta_->lookup(alice_, locked, "f").has_value());
  EXPECT_EQ(code_of(meta_->create(alice_, locked, "g", 0644, true)), Code::access_denied);
  EXPECT_TRUE(meta_->create(alice_, locked, "f", 0644, false).has_value()) << "it exists";
  EXPECT_EQ(code_of(meta_->unlink(alice_, locked, "f", nullptr)), Code::access_denied);
  EXPECT_EQ(code_of(meta_->unlink(alice_, locked, "g", nullptr)), Code::not_found);
  Attributes attributes;
  attributes.uid = 100;
  attributes.gid = 500;
  attributes.mode = 0470;
  EXPECT_TRUE(check_access(alice_, attributes, kAccessRead).ok());
  EXPECT_FALSE(check_access(alice_, attributes, kAccessWrite).ok()) << "the owner's bits count";
  attributes.uid = 1;
  EXPECT_TRUE(check_access(alice_, attributes, kAccessRead | kAccessWrite).ok());
  EXPECT_FALSE(check_access(bob_, attributes, kAccessRead).ok());
  EXPECT_TRUE(check_access(root_, attributes, kAccessExecute).ok());
  attributes.mode = 0666;
  EXPECT_FALSE(check_access(root_, attributes, kAccessExecute).ok());
}

TEST_F(MetaTest, only_owners_change_attributes) {
  const InodeId f = file(kRootInode, "f");
  SetAttributes own;
  own.uid = 100;
  own.gid = 100;
  ASSERT_TRUE(meta_->set_attributes(root_, f, own).has_value());
  EXPECT_EQ(set_mode(bob_, f, 0777).code(), Code::not_permitted);
  EXPECT_TRUE(set_mode(alice_, f, 0640).ok());
  SetAttributes give_away;
  give_away.uid = 200;
  EXPECT_EQ(code_of(meta_->set_attributes(alice_, f, give_away)), Code::not_permitted);
  SetAttributes regroup;
  regroup.gid = 500;
  EXPECT_TRUE(meta_->set_attributes(alice_, f, regroup).has_value());
  regroup.gid = 501;
  EXPECT_EQ(code_of(meta_->set_attributes(alice_, f, regroup)), Code::not_permitted);
  SetAttributes times;
  times.modified = engine::WallTime{5};
  EXPECT_EQ(code_of(meta_->set_attributes(bob_, f, times)), Code::not_permitted);
  SetAttributes touch;
  touch.modified_now = true;
  EXPECT_EQ(code_of(meta_->set_attributes(bob_, f, touch)), Code::access_denied);
  ASSERT_TRUE(set_mode(alice_, f, 0666).ok());
  EXPECT_TRUE(meta_->set_attributes(bob_, f, touch).has_value());
  ASSERT_TRUE(meta_->set_attributes(alice_, f, times).has_value());
  EXPECT_EQ(get(f).modified.nanoseconds, 5);
}

TEST_F(MetaTest, set_id_bits_are_cleared_as_posix_says) {
  const InodeId open_to_all = directory(kRootInode, "d", 0777);
  const InodeId f = file(open_to_all, "f", 06755, alice_);
  SetAttributes truncate;
  truncate.length = 0;
  ASSERT_TRUE(meta_->set_attributes(root_, f, truncate).has_value());
  EXPECT_EQ(get(f).mode, 06755u) << "root may";
  ASSERT_TRUE(meta_->set_attributes(alice_, f, truncate).has_value());
  EXPECT_EQ(get(f).mode, 0755u);
  ASSERT_TRUE(set_mode(alice_, f, 06755).ok());
  SetAttributes regroup;
  regroup.gid = 500;
  ASSERT_TRUE(meta_->set_attributes(alice_, f, regroup).has_value());
  EXPECT_EQ(get(f).mode, 0755u);
  ASSERT_TRUE(set_mode(alice_, f, 02644).ok());
  EXPECT_EQ(get(f).mode, 02644u);
  regroup.gid = 100;
  ASSERT_TRUE(meta_->set_attributes(alice_, f, regroup).has_value());
  EXPECT_EQ(get(f).mode, 02644u) << "without group execution it means locking";
  regroup.gid = 777;
  ASSERT_TRUE(meta_->set_attributes(root_, f, regroup).has_value());
  ASSERT_TRUE(set_mode(alice_, f, 02755).ok());
  EXPECT_EQ(get(f).mode, 0755u) << "not a member of the group";
}

TEST_F(MetaTest, set_group_id_directories_give_their_group) {
  const InodeId d = directory(kRootInode, "d", 0777);
  SetAttributes group;
  group.gid = 500;
  group.mode = 02777;
  ASSERT_TRUE(meta_->set_attributes(root_, d, group).has_value());
  EXPECT_EQ(get(file(d, "f", 0644, bob_)).gid, 500u);
  EXPECT_EQ(get(file(d, "g", 02755, bob_)).mode, 0755u);
  const Attributes below = get(directory(d, "below", 0755, bob_));
  EXPECT_EQ(below.gid, 500u);
  EXPECT_EQ(below.mode, 02755u);
}

TEST_F(MetaTest, sticky_directories_keep_others_entries) {
  const InodeId tmp = directory(kRootInode, "tmp", 01777);
  file(tmp, "alices", 0666, alice_);
  file(tmp, "bobs", 0666, bob_);
  directory(tmp, "alices-d", 0777, alice_);
  EXPECT_EQ(meta_->unlink(bob_, tmp, "alices", nullptr).code(), Code::not_permitted);
  EXPECT_EQ(meta_->remove_directory(bob_, tmp, "alices-d", nullptr).code(), Code::not_permitted);
  EXPECT_EQ(meta_->rename(bob_, tmp, "alices", tmp, "x", {}, nullptr).code(), Code::not_permitted);
  EXPECT_EQ(meta_->rename(bob_, tmp, "bobs", tmp, "alices", {}, nullptr).code(),
            Code::not_permitted);
  EXPECT_TRUE(meta_->unlink(alice_, tmp, "alices", nullptr).ok());
  EXPECT_TRUE(meta_->unlink(root_, tmp, "bobs", nullptr).ok());
}

TEST_F(MetaTest, moving_a_directory_needs_the_right_to_write_it) {
  const InodeId a = directory(kRootInode, "a", 0777);
  const InodeId b = directory(kRootInode, "b", 0777);
  directory(a, "roots", 0755);
  EXPECT_EQ(meta_->rename(alice_, a, "roots", b, "x", {}, nullptr).code(), Code::access_denied);
  EXPECT_TRUE(meta_->rename(alice_, a, "roots", a, "x", {}, nullptr).ok());
}

TEST_F(MetaTest, devices_are_made_by_root_only) {
  const InodeId d = directory(kRootInode, "d", 0777);
  EXPECT_EQ(code_of(meta_->make_node(alice_, d, "c", FileType::character, 0600, 0x103)),
            Code::not_permitted);
  EXPECT_TRUE(meta_->make_node(alice_, d, "p", FileType::fifo, 0600, 0x103).has_value());
  const auto made = meta_->make_node(root_, d, "c", FileType::character, 0600, 0x103);
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(get(made->inode).device, 0x103u);
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
  EXPECT_EQ(get(d).links, 65'000u);
}

TEST_F(MetaTest, xattrs_follow_their_namespaces) {
  const InodeId d = directory(kRootInode, "d", 0777);
  const InodeId f = file(d, "f", 0644, alice_);
  const auto set = [&](const Credentials& who, const std::string& name) {
    return meta_->set_xattr(who, f, name, "v", XattrMode::any).code();
  };
  EXPECT_EQ(set(alice_, "user.a"), Code::ok);
  EXPECT_EQ(set(bob_, "user.b"), Code::access_denied);
  EXPECT_EQ(set(alice_, "trusted.a"), Code::not_permitted);
  EXPECT_EQ(set(root_, "trusted.a"), Code::ok);
  EXPECT_EQ(set(alice_, "security.a"), Code::not_permitted);
  EXPECT_EQ(set(root_, "security.a"), Code::ok);
  EXPECT_EQ(set(root_, "system.posix_acl_access"), Code::not_supported);
  EXPECT_EQ(set(root_, "strange"), Code::not_supported);
  EXPECT_EQ(set(root_, "user."), Code::invalid_argument);
  EXPECT_EQ(set(root_, "user." + std::string(251, 'n')), Code::result_too_large);
  EXPECT_EQ(*meta_->list_xattrs(bob_, f), (std::vector<std::string>{"security.a", "user.a"}));
  EXPECT_EQ(meta_->list_xattrs(root_, f)->size(), 3u);
  EXPECT_EQ(code_of(meta_->get_xattr(bob_, f, "trusted.a")), Code::no_data);
  EXPECT_EQ(*meta_->get_xattr(bob_, f, "security.a"), "v");
  EXPECT_EQ(*meta_->get_xattr(root_, f, "trusted.a"), "v");
  const auto link = meta_->make_symlink(root_, d, "l", "f");
  EXPECT_EQ(meta_->set_xattr(root_, link->inode, "user.a", "", XattrMode::any).code(),
            Code::not_permitted);
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

TEST_F(MetaTest, rename_keeps_cookies_so_that_listings_stay_whole) {
  for (const char* name : {"a", "b", "c", "d"}) file(kRootInode, name);
  const auto cookie = [&](const std::string& name) {
    uint64_t found = 0;
    EXPECT_TRUE(meta_
                    ->read_directory(kRootInode, 0, SIZE_MAX, false,
                                     [&](const DirectoryEntry& entry, const Attributes*) {
                                       if (entry.name != name) return true;
                                       EXPECT_EQ(found, 0u) << "listed twice";
                                       found = entry.cookie;
                                       return true;
                                     })
                    .ok());
    return found;
  };
  const uint64_t a = cookie("a");
  const uint64_t b = cookie("b");
  const uint64_t d = cookie("d");
  ASSERT_TRUE(meta_->rename(root_, kRootInode, "a", kRootInode, "x", {}, nullptr).ok());
  EXPECT_EQ(cookie("x"), a) << "the file stays where it is in the listing";
  ASSERT_TRUE(meta_->rename(root_, kRootInode, "x", kRootInode, "d", {}, nullptr).ok());
  EXPECT_EQ(cookie("d"), d) << "the name was there all the time";
  RenameFlags exchange{.no_replace = false, .exchange = true};
  ASSERT_TRUE(meta_->rename(root_, kRootInode, "b", kRootInode, "d", exchange, nullptr).ok());
  EXPECT_EQ(cookie("b"), b);
  EXPECT_EQ(cookie("d"), d);
}

TEST_F(MetaTest, listing_shows_what_stays_once_while_others_come_and_go) {
  constexpr int kStaying = 300;
  for (int i = 0; i < kStaying; ++i) {
    file(kRootInode, "stays" + std::to_string(i));
    file(kRootInode, "goes" + std::to_string(i));
  }
  engine::SeededRandom random(9);
  std::map<std::string, int> seen;
  uint64_t last = 0;
  for (bool more = true; more;) {
    more = false;
    ASSERT_TRUE(meta_
                    ->read_directory(kRootInode, last, 1 + random.below(9), false,
                                     [&](const DirectoryEntry& entry, const Attributes*) {
                                       ++seen[entry.name];
                                       last = entry.cookie;
                                       more = true;
                                       return random.chance(7, 8);  // a full buffer
                                     })
                    .ok());
    const std::string number = std::to_string(random.below(kStaying));
    (void)meta_->unlink(root_, kRootInode, "goes" + number, nullptr);
    file(kRootInode, "comes" + std::to_string(last));
    (void)meta_->rename(root_, kRootInode, "goes" + std::to_string(random.below(kStaying)),
                        kRootInode, "stays" + number, {}, nullptr);
    if (seen.size() > 3 * kStaying) break;  // new entries come after all others
  }
  for (int i = 0; i < kStaying; ++i) EXPECT_EQ(seen["stays" + std::to_string(i)], 1) << i;
  for (const auto& [name, count] : seen) EXPECT_EQ(count, 1) << name;
}

TEST_F(MetaTest, orphans_live_until_forgotten) {
  const InodeId f = file(kRootInode, "f");
  ASSERT_TRUE(meta_->set_xattr(root_, f, "user.a", "v", XattrMode::any).ok());
  EXPECT_EQ(meta_->forget(f).code(), Code::in_use);
  ASSERT_TRUE(meta_->begin_write(f).has_value());
  Removed removed;
  ASSERT_TRUE(meta_->unlink(root_, kRootInode, "f", &removed).ok());
  EXPECT_TRUE(removed.last_link);
  EXPECT_EQ(removed.inode, f);
  EXPECT_EQ(get(f).links, 0u);
  EXPECT_EQ(code_of(meta_->link(root_, f, kRootInode, "g")), Code::not_found);
  ASSERT_TRUE(meta_->settle(f, {.length = 9, .modified = {3}}, false).ok());
  EXPECT_EQ(get(f).length, 9u);
  reopen();
  EXPECT_EQ(*meta_->orphans(10), std::vector<InodeId>{f});
  EXPECT_EQ(meta_->counts()->inodes, 2u);
  EXPECT_TRUE(meta_->forget(f).ok());
  EXPECT_TRUE(meta_->forget(f).ok()) << "again";
  EXPECT_TRUE(meta_->orphans(10)->empty());
  EXPECT_TRUE(meta_->unsettled()->empty());
  EXPECT_EQ(code_of(meta_->attributes(f)), Code::not_found);
  EXPECT_EQ(meta_->counts()->inodes, 1u);
}

TEST_F(MetaTest, nothing_is_made_in_a_removed_directory) {
  const InodeId d = directory(kRootInode, "d");
  const InodeId f = file(kRootInode, "f");
  ASSERT_TRUE(meta_->remove_directory(root_, kRootInode, "d", nullptr).ok());
  EXPECT_EQ(code_of(meta_->create(root_, d, "x", 0644, true)), Code::not_found);
  EXPECT_EQ(code_of(meta_->link(root_, f, d, "x")), Code::not_found);
  EXPECT_EQ(meta_->rename(root_, kRootInode, "f", d, "x", {}, nullptr).code(), Code::not_found);
  EXPECT_EQ(get(d).links, 0u);
  EXPECT_TRUE(list(d).empty());
}

TEST_F(MetaTest, write_sessions_are_found_after_a_restart) {
  const InodeId f = file(kRootInode, "f");
  const InodeId g = file(kRootInode, "g");
  const InodeId h = file(kRootInode, "h");
  for (const InodeId inode : {f, g, h}) ASSERT_TRUE(meta_->begin_write(inode).has_value());
  EXPECT_NE(*meta_->begin_write(f), *meta_->begin_write(f));
  ASSERT_TRUE(meta_->settle(g, {.length = 5, .modified = {1}, .end_session = true}, true).ok());
  ASSERT_TRUE(meta_->end_write(h).ok());
  reopen();
  EXPECT_EQ(*meta_->unsettled(), std::vector<InodeId>{f});
  EXPECT_EQ(get(g).length, 5u);
  ASSERT_TRUE(meta_->settle(g, {.length = 3, .modified = {1}, .only_grow = true}, false).ok());
  EXPECT_EQ(get(g).length, 5u);
  ASSERT_TRUE(meta_->settle(g, {.length = 3, .modified = {2}}, false).ok());
  EXPECT_EQ(get(g).length, 3u);
  EXPECT_EQ(get(g).modified.nanoseconds, 2);
  EXPECT_EQ(meta_->settle(InodeId(7777), {}, false).code(), Code::not_found);
}

TEST_F(MetaTest, format_of_another_version_is_refused) {
  meta_.reset();
  ASSERT_TRUE(storage_->kv()
                  .run(engine::KvMode::write,
                       [](engine::KvTransaction& transaction) -> Status {
                         transaction.put("Sversion", "\x01\x63");
                         return {};
                       })
                  .ok());
  const auto opened = Meta::open(storage_->kv(), clock_, {});
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().status.code(), Code::wrong_version);
  EXPECT_NE(opened.error().message.find("99"), std::string::npos) << opened.error().message;
}

TEST_F(MetaTest, database_with_other_content_is_refused) {
  const auto other = make_storage("memory");
  ASSERT_TRUE(other->kv()
                  .run(engine::KvMode::write,
                       [](engine::KvTransaction& transaction) -> Status {
                         transaction.put("something", "else");
                         return {};
                       })
                  .ok());
  EXPECT_EQ(Meta::open(other->kv(), clock_, {}).error().status.code(), Code::corrupt);
  MetaOptions options;
  options.key_prefix = "m/";
  EXPECT_NE(open_meta(other->kv(), clock_, options), nullptr) << "beside it there is room";
}

TEST_F(MetaTest, damaged_records_end_with_corrupt) {
  log::set_level(log::Level::off);
  file(kRootInode, "f");
  directory(kRootInode, "d");
  std::vector<std::pair<std::string, std::string>> records;
  ASSERT_TRUE(storage_->kv()
                  .run(engine::KvMode::read,
                       [&](engine::KvTransaction& transaction) -> Status {
                         return transaction.scan("", "", [&](auto key, auto value) {
                           records.emplace_back(key, value);
                           return true;
                         });
                       })
                  .ok());
  const auto put = [&](const std::string& key, const std::optional<std::string>& value) {
    EXPECT_TRUE(storage_->kv()
                    .run(engine::KvMode::write,
                         [&](engine::KvTransaction& transaction) -> Status {
                           if (value) {
                             transaction.put(key, *value);
                           } else {
                             transaction.erase(key);
                           }
                           return {};
                         })
                    .ok());
  };
  const auto use_everything = [&] {
    bool corrupt = false;
    const auto note = [&](Code code) { corrupt = corrupt || code == Code::corrupt; };
    note(code_of(meta_->attributes(kRootInode)));
    note(code_of(meta_->resolve(root_, "/f", true)));
    note(code_of(meta_->resolve(root_, "/d/x", true)));
    note(code_of(meta_->lookup(root_, kRootInode, "d")));
    note(
        code_of(meta_->read_directory(kRootInode, 0, 99, true, [](auto&, auto*) { return true; })));
    return corrupt;
  };
  EXPECT_FALSE(use_everything());
  for (const auto& [key, value] : records) {
    if (key[0] == 'S') continue;
    put(key, value + "x");
    EXPECT_TRUE(use_everything()) << key;
    put(key, "");
    EXPECT_TRUE(use_everything()) << key;
    put(key, value);
  }
  EXPECT_FALSE(use_everything());
  log::set_level(log::Level::warning);
}

TEST(MetaSimulation, ids_are_not_given_twice_when_power_is_cut) {
  const Credentials root;
  TickingClock clock;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimStorage storage(seed);
    std::set<uint64_t> given;
    for (int life = 0; life < 4; ++life) {
      auto meta = open_meta(storage.kv(), clock);
      ASSERT_NE(meta, nullptr);
      for (int i = 0; i < 20; ++i) {
        const std::string name = "f" + std::to_string(life) + "-" + std::to_string(i);
        const auto made = meta->create(root, kRootInode, name, 0644, true);
        ASSERT_TRUE(made.has_value());
        EXPECT_TRUE(given.insert(made->inode.value).second) << "seed " << seed;
      }
      meta.reset();
      storage.power_cut();
    }
  }
}

TEST(MetaSimulation, durable_settle_saves_everything_before_it_from_a_power_cut) {
  const Credentials root;
  TickingClock clock;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimStorage storage(seed);
    auto meta = open_meta(storage.kv(), clock);
    const InodeId d = meta->make_directory(root, kRootInode, "d", 0755)->inode;
    const InodeId f = meta->create(root, d, "f", 0644, true)->inode;
    ASSERT_TRUE(meta->rename(root, d, "f", kRootInode, "g", {}, nullptr).ok());
    ASSERT_TRUE(meta->settle(f, {.length = 42, .modified = {1}}, true).ok());
    meta.reset();
    storage.power_cut();
    meta = open_meta(storage.kv(), clock);
    const auto found = meta->resolve(root, "/g", true);
    ASSERT_TRUE(found.has_value()) << "seed " << seed;
    EXPECT_EQ(found->length, 42u);
    EXPECT_TRUE(meta->resolve(root, "/d", true).has_value());
  }
}

}  // namespace
}  // namespace penstock::meta
