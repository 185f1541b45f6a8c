// Which user may do what.
#include "fixture.h"

namespace penstock::meta {
namespace {

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
  touch.accessed_now = touch.modified_now = true;
  EXPECT_EQ(code_of(meta_->set_attributes(bob_, f, touch)), Code::access_denied);
  ASSERT_TRUE(set_mode(alice_, f, 0666).ok());
  EXPECT_TRUE(meta_->set_attributes(bob_, f, touch).has_value());
  SetAttributes one_alone;
  one_alone.modified_now = true;
  EXPECT_EQ(code_of(meta_->set_attributes(bob_, f, one_alone)), Code::not_permitted);
  ASSERT_TRUE(meta_->set_attributes(alice_, f, times).has_value());
  EXPECT_EQ(get(f).modified, engine::WallTime{5});
}

TEST_F(MetaTest, everybody_may_chown_to_nobody_what_has_no_set_id_bits) {
  const InodeId open_to_all = directory(kRootInode, "d", 0777);
  const InodeId f = file(open_to_all, "f", 0600, alice_);
  SetAttributes nobody;
  nobody.chown_to_nobody = true;
  const FileTime before = get(f).changed;
  const auto changed = meta_->set_attributes(bob_, f, nobody);
  ASSERT_TRUE(changed.has_value());
  EXPECT_NE(changed->changed, before);
  EXPECT_EQ(changed->uid, get(f).uid);
  ASSERT_TRUE(set_mode(alice_, f, 06755).ok());
  EXPECT_EQ(code_of(meta_->set_attributes(bob_, f, nobody)), Code::not_permitted);
  EXPECT_EQ(get(f).mode, 06755u);
  ASSERT_TRUE(meta_->set_attributes(alice_, f, nobody).has_value());
  EXPECT_EQ(get(f).mode, 0755u);
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
  EXPECT_EQ(set(root_, "system.posix_acl_access"), Code::invalid_argument) << "no list";
  EXPECT_EQ(set(root_, "system.other"), Code::not_supported);
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

// As may_linkat() of Linux has it, with fs.protected_hardlinks set.
TEST_F(MetaTest, others_files_are_linked_only_by_who_may_read_and_write_them) {
  const InodeId d = directory(kRootInode, "d", 0777);
  int names = 0;
  const auto link = [&](const Credentials& who, InodeId inode) {
    return code_of(meta_->link(who, inode, d, "link" + std::to_string(names++)));
  };
  const InodeId f = file(d, "f", 0600, alice_);
  EXPECT_EQ(link(bob_, f), Code::not_permitted);
  EXPECT_EQ(link(alice_, f), Code::ok);
  EXPECT_EQ(link(root_, f), Code::ok);
  for (const uint32_t refused : {0644u, 0622u, 04666u, 02676u}) {
    ASSERT_TRUE(set_mode(root_, f, refused).ok());
    EXPECT_EQ(link(bob_, f), Code::not_permitted) << refused;
    EXPECT_EQ(link(alice_, f), Code::ok) << refused << ": the owner may";
  }
  for (const uint32_t allowed : {0666u, 02666u}) {
    ASSERT_TRUE(set_mode(root_, f, allowed).ok());
    EXPECT_EQ(link(bob_, f), Code::ok) << allowed;
  }
  const auto fifo = meta_->make_node(alice_, d, "p", FileType::fifo, 0666, 0);
  EXPECT_EQ(link(bob_, fifo->inode), Code::not_permitted);
  const auto symlink = meta_->make_symlink(alice_, d, "l", "f");
  EXPECT_EQ(link(bob_, symlink->inode), Code::not_permitted);
  EXPECT_EQ(code_of(meta_->link(bob_, f, d, "f")), Code::already_exists) << "before all else";
}

TEST_F(MetaTest, a_write_takes_away_what_lets_a_program_run_as_another) {
  const InodeId d = directory(kRootInode, "d", 0777);
  const InodeId f = file(d, "f", 06755, alice_);
  ASSERT_TRUE(meta_->set_xattr(root_, f, "user.kept", "v", XattrMode::any).ok());
  ASSERT_TRUE(meta_->set_xattr(root_, f, kCapabilityXattr, "v", XattrMode::any).ok());
  ASSERT_TRUE(meta_->drop_privileges({bob_}, f));
  EXPECT_EQ(get(f).mode, 0755u);
  EXPECT_EQ(code_of(meta_->get_xattr(root_, f, kCapabilityXattr)), Code::no_data);
  EXPECT_EQ(*meta_->get_xattr(root_, f, "user.kept"), "v");
  const FileTime changed = get(f).changed;
  ASSERT_TRUE(meta_->drop_privileges({bob_}, f));
  EXPECT_EQ(get(f).changed, changed) << "nothing is left to take";
  ASSERT_TRUE(set_mode(root_, f, 02646).ok());
  ASSERT_TRUE(meta_->drop_privileges({alice_}, f));
  EXPECT_EQ(get(f).mode, 02646u) << "alice is in the group";
  ASSERT_TRUE(meta_->drop_privileges({bob_}, f));
  EXPECT_EQ(get(f).mode, 0646u);
}

}  // namespace
}  // namespace penstock::meta
