// Many files in one transaction, content first.
#include "../acl.h"
#include "fixture.h"

namespace penstock::meta {
namespace {

constexpr uint64_t kLength = 10'000;

class CreateMany : public MetaTest {
 protected:
  // The places of all must be free; an error shows as the place's number 0.
  std::vector<CompleteFile> place(const Credentials& who, const std::vector<std::string>& paths,
                                  bool replace = false) {
    std::vector<WantedPlace> wanted;
    for (const std::string& path : paths) wanted.push_back({path, replace});
    const auto places = meta_->place_files(who, wanted);
    EXPECT_TRUE(places.has_value());
    std::vector<CompleteFile> files;
    for (size_t i = 0; places && i < paths.size(); ++i) {
      const Result<NewFile>& one = (*places)[i];
      EXPECT_TRUE(one.has_value()) << paths[i] << ": " << (one ? "" : one.error().name());
      files.push_back({one ? *one : NewFile{}, 0666, kLength, {}, false});
    }
    return files;
  }
  std::vector<Result<MadeFile>> make_all(const Credentials& who,
                                         const std::vector<CompleteFile>& files) {
    std::vector<Result<MadeFile>> made;
    EXPECT_TRUE(meta_->create_files(who, files, &made).ok());
    EXPECT_EQ(made.size(), files.size());
    return made;
  }
  Result<Attributes> make(const Credentials& who, const CompleteFile& file) {
    const Result<MadeFile> made = make_all(who, {file}).at(0);
    return made ? Result<Attributes>(made->attributes) : made.error();
  }
  Status place_error(const Credentials& who, const std::string& path, bool replace = false) {
    const auto places = meta_->place_files(who, {{path, replace}});
    EXPECT_TRUE(places.has_value());
    return !places ? places.error() : places->front() ? Status() : places->front().error();
  }
};

TEST_F(CreateMany, gives_all_their_names_and_what_is_known_of_them) {
  const InodeId d = directory(kRootInode, "d");
  const uint64_t before = meta_->counts()->inodes;
  std::vector<CompleteFile> files = place(root_, {"/d/a", "/d/b", "/c"});
  EXPECT_EQ(files[0].place.parent, d);
  EXPECT_EQ(files[2].place.parent, kRootInode);
  EXPECT_TRUE(list(d).empty()) << "a place is no file";
  EXPECT_EQ(meta_->attributes(files[0].place.inode).error().code(), Code::not_found);
  files[1].changes.uid = 7;
  files[1].changes.gid = 8;
  files[1].changes.modified = FileTime{-5, 6};
  const FileTime directory_time = get(d).modified;
  const auto made = make_all(root_, files);
  EXPECT_EQ(list(d), (std::vector<std::string>{"a", "b"}));
  EXPECT_GT(get(d).modified, directory_time);
  EXPECT_EQ(meta_->counts()->inodes, before + 3);
  for (size_t i = 0; i < files.size(); ++i) {
    ASSERT_TRUE(made[i].has_value());
    const Attributes found = get(files[i].place.inode);
    EXPECT_EQ(found.length, kLength);
    EXPECT_EQ(found.links, 1u);
    EXPECT_EQ(found.layout, files[i].place.layout);
    EXPECT_FALSE(found.sparse);
  }
  const Attributes b = *meta_->lookup(root_, d, "b");
  EXPECT_EQ(b.uid, 7u);
  EXPECT_EQ(b.gid, 8u);
  EXPECT_EQ(b.modified, (FileTime{-5, 6}));
  EXPECT_TRUE(meta_->unsettled()->empty());
}

TEST_F(CreateMany, checks_each_place_as_a_creation_would) {
  const InodeId d = directory(kRootInode, "d", 0755);
  file(d, "f");
  directory(kRootInode, "closed", 0700);
  (void)meta_->make_symlink(root_, kRootInode, "to_d", "d");
  (void)meta_->make_symlink(root_, d, "nowhere", "missing");
  EXPECT_EQ(place_error(root_, ""), Code::not_found);
  EXPECT_EQ(place_error(root_, "x"), Code::invalid_argument);
  EXPECT_EQ(place_error(root_, "/"), Code::is_directory);
  EXPECT_EQ(place_error(root_, "/d/"), Code::is_directory);
  EXPECT_EQ(place_error(root_, "/d/.."), Code::is_directory);
  EXPECT_EQ(place_error(root_, std::string("/d/a\0b", 6)), Code::invalid_argument);
  EXPECT_EQ(place_error(root_, "/d/" + std::string(256, 'x')), Code::name_too_long);
  EXPECT_EQ(place_error(root_, "/d/f"), Code::already_exists);
  EXPECT_EQ(place_error(root_, "/d/nowhere"), Code::already_exists) << "no link is followed";
  EXPECT_EQ(place_error(root_, "/d/f/x"), Code::not_directory);
  EXPECT_EQ(place_error(root_, "/missing/x"), Code::not_found);
  EXPECT_EQ(place_error(alice_, "/d/x"), Code::access_denied);
  EXPECT_EQ(place_error(alice_, "/closed/x"), Code::access_denied);
  EXPECT_EQ(place(root_, {"/to_d/x"})[0].place.parent, d) << "but on the way there";
}

TEST_F(CreateMany, checks_again_when_they_get_their_names) {
  const InodeId d = directory(kRootInode, "d", 0777);
  directory(kRootInode, "gone", 0777);
  std::vector<CompleteFile> files =
      place(alice_, {"/d/taken", "/gone/x", "/d/mine", "/d/twice", "/d/twice", "/d/theirs"});
  file(d, "taken");
  ASSERT_TRUE(meta_->remove_directory(root_, kRootInode, "gone", nullptr).ok());
  files[5].changes.uid = bob_.uid;
  const auto made = make_all(alice_, files);
  EXPECT_EQ(made[0].error(), Code::already_exists);
  EXPECT_EQ(made[1].error(), Code::not_found);
  EXPECT_TRUE(made[2].has_value());
  EXPECT_TRUE(made[3].has_value());
  EXPECT_EQ(made[4].error(), Code::already_exists);
  EXPECT_EQ(made[5].error(), Code::not_permitted) << "only root gives files away";
  EXPECT_EQ(list(d), (std::vector<std::string>{"mine", "taken", "twice"}));
  EXPECT_EQ(meta_->attributes(files[5].place.inode).error().code(), Code::not_found);

  const CompleteFile late = place(alice_, {"/d/late"})[0];
  ASSERT_TRUE(set_mode(root_, d, 0755).ok());
  EXPECT_EQ(make(alice_, late).error(), Code::access_denied);
}

TEST_F(CreateMany, keeps_the_rules_of_their_directory) {
  const InodeId d = directory(kRootInode, "d");
  SetAttributes shared;
  shared.gid = bob_.gid;
  shared.mode = 02777;
  ASSERT_TRUE(meta_->set_attributes(root_, d, shared).has_value());
  const Attributes of_group = *make(alice_, place(alice_, {"/d/a"})[0]);
  EXPECT_EQ(of_group.gid, bob_.gid);
  EXPECT_EQ(of_group.uid, alice_.uid);

  // owner rwx, user 200 rwx, group r-x, mask rwx, others --x
  const std::string acl(
      "\x02\0\0\0\x01\0\x07\0\xff\xff\xff\xff\x02\0\x07\0\xc8\0\0\0\x04\0\x05\0\xff\xff\xff\xff"
      "\x10\0\x07\0\xff\xff\xff\xff\x20\0\x01\0\xff\xff\xff\xff",
      44);
  ASSERT_TRUE(meta_->set_xattr(root_, d, kDefaultAclXattr, acl, XattrMode::any).ok());
  const Attributes listed = *make(alice_, place(alice_, {"/d/b"})[0]);
  EXPECT_EQ(listed.mode, 0660u) << "what others get, the list says";
  EXPECT_TRUE(check_access(bob_, get(listed.inode), kAccessRead | kAccessWrite).ok());

  const CompleteFile late = place(alice_, {"/d/late"})[0];
  SetAttributes fixed;
  fixed.flags = kInodeImmutable;
  ASSERT_TRUE(meta_->set_attributes(root_, d, fixed).has_value());
  EXPECT_EQ(make(alice_, late).error(), Code::not_permitted);
  EXPECT_EQ(place_error(alice_, "/d/c"), Code::not_permitted);
}

TEST_F(CreateMany, takes_set_id_bits_away_with_the_owner_unless_they_are_asked_for) {
  std::vector<CompleteFile> files = place(root_, {"/a", "/b"});
  files[0].mode = files[1].mode = 04755;
  files[0].changes.uid = files[1].changes.uid = 7;
  files[1].changes.mode = 04755;
  const auto made = make_all(root_, files);
  EXPECT_EQ(made[0]->attributes.mode, 0755u);
  EXPECT_EQ(made[1]->attributes.mode, 04755u);
}

TEST_F(CreateMany, takes_the_place_of_what_is_there_where_that_is_asked_for) {
  const InodeId d = directory(kRootInode, "d");
  const InodeId a = file(d, "a");
  const InodeId b = file(d, "b");
  file(d, "c");
  ASSERT_TRUE(meta_->link(root_, b, d, "other name").has_value());
  (void)meta_->make_symlink(root_, d, "link", "a");
  const auto in_order = [&] {
    std::vector<std::string> names;
    (void)meta_->read_directory(d, 0, SIZE_MAX, false,
                                [&](const DirectoryEntry& entry, const Attributes*) {
                                  names.push_back(entry.name);
                                  return true;
                                });
    return names;
  };
  std::vector<std::string> expected = in_order();
  const std::vector<CompleteFile> files =
      place(root_, {"/d/a", "/d/b", "/d/link", "/d/new", "/d/new"}, true);
  EXPECT_TRUE(files[0].place.replace);
  EXPECT_FALSE(files[3].place.replace) << "there was nothing";
  const uint64_t inodes = meta_->counts()->inodes;
  const auto made = make_all(root_, files);
  ASSERT_TRUE(made[0] && made[1] && made[2] && made[3]);
  EXPECT_EQ(made[4].error(), Code::already_exists);
  EXPECT_EQ(made[0]->replaced.inode, a);
  EXPECT_TRUE(made[0]->replaced.last_link);
  EXPECT_EQ(made[1]->replaced.inode, b);
  EXPECT_FALSE(made[1]->replaced.last_link);
  EXPECT_TRUE(made[2]->replaced.last_link);
  EXPECT_EQ(made[3]->replaced.inode, InodeId{});
  EXPECT_EQ(get(a).links, 0u);
  EXPECT_EQ(get(b).links, 1u);
  EXPECT_EQ(meta_->lookup(root_, d, "other name")->inode, b);
  EXPECT_EQ(meta_->lookup(root_, d, "link")->inode, files[2].place.inode);
  EXPECT_EQ(meta_->lookup(root_, d, "link")->type, FileType::regular);
  const auto orphans = meta_->orphans(10, {});
  ASSERT_TRUE(orphans.has_value());
  EXPECT_EQ(*orphans, (std::vector<InodeId>{a, made[2]->replaced.inode}));
  for (const InodeId orphan : *orphans) EXPECT_TRUE(meta_->forget(orphan).ok());
  EXPECT_EQ(meta_->counts()->inodes, inodes + 4 - 2);
  expected.push_back("new");
  EXPECT_EQ(in_order(), expected) << "names that were there all the time keep their places";
}

TEST_F(CreateMany, replaces_as_a_rename_may) {
  const InodeId d = directory(kRootInode, "d", 0777);
  const InodeId sticky = directory(kRootInode, "sticky", 01777);
  directory(d, "directory");
  file(sticky, "of_root");
  const InodeId fixed = file(d, "fixed");
  SetAttributes immutable;
  immutable.flags = kInodeImmutable;
  ASSERT_TRUE(meta_->set_attributes(root_, fixed, immutable).has_value());
  EXPECT_EQ(place_error(root_, "/d/directory", true), Code::is_directory);
  EXPECT_EQ(place_error(root_, "/d/fixed", true), Code::not_permitted);
  EXPECT_EQ(place_error(alice_, "/sticky/of_root", true), Code::not_permitted);
  EXPECT_EQ(place_error(root_, "/sticky/of_root", true), Status());

  // And once more when they get their names.
  std::vector<CompleteFile> files =
      place(alice_, {"/d/later", "/sticky/later", "/d/fixed later", "/sticky/mine"}, true);
  directory(d, "later");
  file(sticky, "later");
  ASSERT_TRUE(meta_->set_attributes(root_, file(d, "fixed later"), immutable).has_value());
  ASSERT_TRUE(make(alice_, place(alice_, {"/sticky/mine"})[0]).has_value());
  for (CompleteFile& one : files) one.place.replace = true;
  const auto made = make_all(alice_, files);
  EXPECT_EQ(made[0].error(), Code::is_directory);
  EXPECT_EQ(made[1].error(), Code::not_permitted);
  EXPECT_EQ(made[2].error(), Code::not_permitted);
  EXPECT_TRUE(made[3].has_value()) << "one's own may go";
  ASSERT_TRUE(set_mode(root_, d, 0755).ok());
  EXPECT_EQ(place_error(alice_, "/d/fixed", true), Code::access_denied);
}

}  // namespace
}  // namespace penstock::meta
