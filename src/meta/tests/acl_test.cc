// Access control lists, and the flags of inodes.
#include "../acl.h"

#include "../view.h"
#include "fixture.h"

#include <algorithm>

namespace penstock::meta {
namespace {

struct AclEntry {
  uint16_t tag;
  uint16_t permissions;
  uint32_t id = UINT32_MAX;
};
constexpr uint16_t kOwner = 1, kUser = 2, kOwningGroup = 4, kGroup = 8, kMask = 16, kOthers = 32;

std::string acl(std::initializer_list<AclEntry> entries) {
  std::string bytes("\x02\0\0\0", 4);
  for (const AclEntry& entry : entries) {
    bytes.append(reinterpret_cast<const char*>(&entry), sizeof entry);
  }
  return bytes;
}

TEST(Acl, is_taken_only_in_the_form_that_the_kernel_takes) {
  EXPECT_TRUE(acl_is_good(acl({{kOwner, 7}, {kOwningGroup, 5}, {kOthers, 0}})));
  EXPECT_TRUE(acl_is_good(acl({{kOwner, 7},
                               {kUser, 4, 1},
                               {kUser, 4, 2},
                               {kOwningGroup, 5},
                               {kGroup, 1, 1},
                               {kMask, 7},
                               {kOthers, 0}})));
  const std::string bad[] = {
      "",
      std::string("\x01\0\0\0", 4),
      acl({}),
      acl({{kOwner, 7}, {kOwningGroup, 5}}),
      acl({{kOwner, 7}, {kUser, 4, 1}, {kOwningGroup, 5}, {kOthers, 0}}),
      acl({{kOwner, 8}, {kOwningGroup, 5}, {kOthers, 0}}),
      acl({{kOwner, 7}, {kOwner, 7}, {kOwningGroup, 5}, {kOthers, 0}}),
      acl({{kOwningGroup, 5}, {kOwner, 7}, {kOthers, 0}}),
      acl({{kOwner, 7}, {kUser, 4, 2}, {kUser, 4, 2}, {kOwningGroup, 5}, {kMask, 7}, {kOthers, 0}}),
      acl({{kOwner, 7}, {kUser, 4}, {kOwningGroup, 5}, {kMask, 7}, {kOthers, 0}}),
      acl({{kOwner, 7, 3}, {kOwningGroup, 5}, {kOthers, 0}}),
      acl({{3, 7}, {kOwningGroup, 5}, {kOthers, 0}}),
      acl({{kOwner, 7}, {kOwningGroup, 5}, {kOthers, 0}}) + "x",
  };
  for (const std::string& bytes : bad) EXPECT_FALSE(acl_is_good(bytes)) << bytes.size();
}

TEST_F(MetaTest, lists_grant_and_refuse_by_name) {
  const InodeId f = file(kRootInode, "f", 0640, root_);
  const std::string list = acl({{kOwner, 6},
                                {kUser, 6, 100},
                                {kOwningGroup, 0},
                                {kGroup, 4, 500},
                                {kGroup, 2, 501},
                                {kMask, 6},
                                {kOthers, 0}});
  ASSERT_TRUE(meta_->set_xattr(root_, f, kAccessAclXattr, list, XattrMode::any).ok());
  EXPECT_EQ(get(f).mode, 0660u) << "the mask shows as the group's bits";
  EXPECT_EQ(*meta_->get_xattr(bob_, f, kAccessAclXattr), list);
  EXPECT_EQ(*meta_->list_xattrs(bob_, f), std::vector<std::string>{std::string(kAccessAclXattr)});
  const auto may = [&](const Credentials& who, uint32_t wanted) {
    return check_access(who, get(f), wanted).ok();
  };
  EXPECT_TRUE(may(alice_, kAccessRead | kAccessWrite));
  EXPECT_FALSE(may(bob_, kAccessRead));
  const Credentials member{.uid = 300, .gid = 500, .groups = {501}};
  EXPECT_TRUE(may(member, kAccessRead));
  EXPECT_TRUE(may(member, kAccessWrite));
  EXPECT_FALSE(may(member, kAccessRead | kAccessWrite)) << "no one entry grants both";
  // The mask bounds all users but the owner and others; chmod sets it.
  ASSERT_TRUE(set_mode(root_, f, 0640).ok());
  EXPECT_FALSE(may(alice_, kAccessWrite));
  EXPECT_TRUE(may(alice_, kAccessRead));
  EXPECT_EQ(code_of(meta_->set_xattr(alice_, f, kAccessAclXattr, list, XattrMode::any)),
            Code::not_permitted);
  EXPECT_EQ(code_of(meta_->set_xattr(root_, f, kDefaultAclXattr, list, XattrMode::any)),
            Code::access_denied)
      << "no directory";
  EXPECT_EQ(code_of(meta_->set_xattr(root_, f, kAccessAclXattr, "nonsense", XattrMode::any)),
            Code::invalid_argument);
  ASSERT_TRUE(meta_->remove_xattr(root_, f, kAccessAclXattr).ok());
  EXPECT_FALSE(may(alice_, kAccessRead));
  EXPECT_TRUE(meta_->remove_xattr(root_, f, kAccessAclXattr).ok());  // as on ext4
  // A list that says no more than the mode does is not kept.
  const std::string minimal = acl({{kOwner, 7}, {kOwningGroup, 5}, {kOthers, 1}});
  ASSERT_TRUE(meta_->set_xattr(root_, f, kAccessAclXattr, minimal, XattrMode::any).ok());
  EXPECT_EQ(get(f).mode, 0751u);
  EXPECT_TRUE(get(f).acl.empty());
}

TEST_F(MetaTest, what_is_made_inherits_the_default_list_instead_of_the_umask) {
  const InodeId d = directory(kRootInode, "d", 0777);
  const std::string list =
      acl({{kOwner, 7}, {kUser, 7, 200}, {kOwningGroup, 5}, {kMask, 7}, {kOthers, 1}});
  ASSERT_TRUE(meta_->set_xattr(root_, d, kDefaultAclXattr, list, XattrMode::any).ok());
  EXPECT_EQ(get(d).mode, 0777u);
  Credentials masked = alice_;
  masked.umask = 0077;
  const Attributes f = get(file(d, "f", 0666, masked));
  EXPECT_EQ(f.mode, 0660u) << "what others get, the list says";
  EXPECT_TRUE(check_access(bob_, f, kAccessRead | kAccessWrite).ok());
  const InodeId below = directory(d, "below", 0777, masked);
  EXPECT_EQ(get(below).mode, 0771u);
  EXPECT_EQ(*meta_->get_xattr(root_, below, kDefaultAclXattr), list);
  EXPECT_EQ(get(file(below, "g", 0600, masked)).mode, 0600u);
  ASSERT_TRUE(meta_->remove_xattr(root_, below, kDefaultAclXattr).ok());
  EXPECT_EQ(get(file(below, "h", 0666, masked)).mode, 0600u) << "the umask again";
  EXPECT_EQ(get(meta_->make_symlink(masked, d, "l", "f")->inode).mode, 0777u);
}

TEST_F(MetaTest, immutable_and_append_only_hold_for_root_too) {
  const InodeId d = directory(kRootInode, "d", 0777);
  const InodeId f = file(d, "f", 0666, alice_);
  const auto set_flags = [&](const Credentials& who, InodeId inode, uint32_t flags) {
    SetAttributes changes;
    changes.flags = flags;
    return code_of(meta_->set_attributes(who, inode, changes));
  };
  EXPECT_EQ(set_flags(alice_, f, kInodeImmutable), Code::not_permitted);
  EXPECT_EQ(set_flags(bob_, f, kInodeNoDump), Code::not_permitted);
  EXPECT_EQ(set_flags(alice_, f, kInodeNoDump), Code::ok);
  EXPECT_EQ(set_flags(root_, f, 0x1), Code::not_supported);
  SetAttributes truncate, own, touch, times;
  truncate.length = 1;
  own.uid = 7;
  touch.accessed_now = touch.modified_now = true;
  times.modified = FileTime(5, 0);
  for (const uint32_t flag : {kInodeImmutable, kInodeAppendOnly}) {
    ASSERT_EQ(set_flags(root_, f, flag), Code::ok);
    EXPECT_EQ(set_mode(root_, f, 0600).code(), Code::not_permitted);
    for (const SetAttributes& changes : {truncate, own, times}) {
      EXPECT_EQ(code_of(meta_->set_attributes(root_, f, changes)), Code::not_permitted);
    }
    EXPECT_EQ(code_of(meta_->set_attributes(root_, f, touch)),
              flag == kInodeImmutable ? Code::not_permitted : Code::ok);
    EXPECT_EQ(code_of(meta_->link(root_, f, d, "l")), Code::not_permitted);
    EXPECT_EQ(code_of(meta_->unlink(root_, d, "f", nullptr)), Code::not_permitted);
    EXPECT_EQ(code_of(meta_->rename(root_, d, "f", d, "g", {}, nullptr)), Code::not_permitted);
    EXPECT_EQ(code_of(meta_->set_xattr(root_, f, "user.a", "v", XattrMode::any)),
              Code::not_permitted);
    const bool appended = flag == kInodeAppendOnly;
    EXPECT_EQ(check_open(get(f), {.write = true, .append = true}).ok(), appended);
    EXPECT_FALSE(check_open(get(f), {.write = true}).ok());
    EXPECT_FALSE(check_open(get(f), {.write = true, .append = true, .truncate = true}).ok());
    EXPECT_TRUE(check_open(get(f), {}).ok());
  }
  ASSERT_EQ(set_flags(root_, f, 0), Code::ok);
  ASSERT_EQ(set_flags(root_, d, kInodeAppendOnly), Code::ok);
  file(d, "added");
  EXPECT_EQ(code_of(meta_->unlink(root_, d, "added", nullptr)), Code::not_permitted);
  ASSERT_EQ(set_flags(root_, d, kInodeImmutable), Code::ok);
  EXPECT_EQ(code_of(meta_->create(root_, d, "more", 0644, true)), Code::not_permitted);
  EXPECT_EQ(code_of(meta_->unlink(root_, d, "added", nullptr)), Code::not_permitted);
  EXPECT_EQ(code_of(meta_->rename(root_, d, "added", kRootInode, "x", {}, nullptr)),
            Code::not_permitted);
}

TEST_F(MetaTest, a_file_without_a_name_may_get_one_and_is_collected_otherwise) {
  const InodeId d = directory(kRootInode, "d", 0777);
  const auto unnamed = [&](const Credentials& who, InodeId parent) {
    return meta_->create_unnamed(who, parent, 0644, *meta_->unused_id());
  };
  const auto made = unnamed(alice_, d);
  const auto left = unnamed(alice_, d);
  ASSERT_TRUE(made.has_value() && left.has_value());
  EXPECT_EQ(made->links, 0u);
  EXPECT_EQ(made->uid, 100u);
  EXPECT_TRUE(list(d).empty());
  EXPECT_EQ(meta_->orphans(10)->size(), 2u);
  const auto linked = meta_->link(alice_, made->inode, d, "f");
  ASSERT_TRUE(linked.has_value());
  EXPECT_EQ(linked->links, 1u);
  EXPECT_EQ(*meta_->orphans(10), std::vector<InodeId>{left->inode});
  EXPECT_EQ(meta_->forget(made->inode).code(), Code::in_use);
  // What was removed stays removed.
  ASSERT_TRUE(meta_->unlink(root_, d, "f", nullptr).ok());
  EXPECT_EQ(code_of(meta_->link(root_, made->inode, d, "g")), Code::not_found);
  EXPECT_TRUE(meta_->forget(left->inode).ok());
  EXPECT_EQ(code_of(unnamed(bob_, kRootInode)), Code::access_denied);
}

TEST_F(MetaTest, times_of_access_are_recorded_many_at_once) {
  const InodeId f = file(kRootInode, "f");
  const InodeId d = directory(kRootInode, "d");
  const Attributes before = get(d);
  ASSERT_TRUE(
      meta_->record_accessed({{f, FileTime(50, 1)}, {InodeId(999'999), {}}, {d, FileTime(60, 2)}})
          .ok());
  EXPECT_EQ(get(f).accessed, FileTime(50, 1));
  EXPECT_EQ(get(d).accessed, FileTime(60, 2));
  EXPECT_EQ(get(d).modified, before.modified);
  EXPECT_EQ(get(d).changed, before.changed);
}

TEST_F(MetaTest, a_store_of_version_one_is_opened_and_no_more_by_its_own_program) {
  meta_.reset();
  const Keys keys("");
  const auto version = [&](std::optional<uint64_t> set) {
    std::optional<uint64_t> found;
    EXPECT_TRUE(storage_->kv()
                    .run(engine::KvMode::write,
                         [&](engine::KvTransaction& transaction) -> Status {
                           View view(transaction, keys);
                           if (set) view.put_number("version", *set);
                           TRY_ASSIGN(found, view.number("version"));
                           return {};
                         })
                    .ok());
    return found;
  };
  EXPECT_EQ(version(1), 1u);
  reopen();
  EXPECT_EQ(version({}), kFormatWithoutTrash);
  meta_.reset();
  version(kFormatVersion + 1);
  EXPECT_EQ(Meta::open(storage_->kv(), clock_, {}).error().status.code(), Code::wrong_version);
  version(kFormatWithoutTrash);
}

}  // namespace
}  // namespace penstock::meta
