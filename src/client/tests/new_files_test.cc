// Files that get their content before their names.
#include "node.h"

#include <algorithm>

namespace penstock::client {
namespace {

struct Recorder final : Observer {
  std::vector<InodeId> changes;
  std::vector<std::string> entries;
  void data_changed(InodeId inode, uint64_t, uint64_t, std::function<void()> done) override {
    changes.push_back(inode);
    done();
  }
  void entry_changed(InodeId, std::string_view name) override { entries.emplace_back(name); }
};

struct List {
  explicit List(std::vector<std::string> names) : paths(std::move(names)), files(paths.size()) {
    for (size_t i = 0; i < files.size(); ++i) {
      files[i].path = paths[i];
      files[i].mode = 0640;
    }
  }
  std::vector<std::string> paths;
  std::vector<NewFile> files;
};

TEST(NewFiles, are_found_when_they_are_whole) {
  Node node;
  List list({"/a", "/b", "/missing/c", "/a"});
  list.files[1].changes.uid = 7;
  list.files[1].changes.modified = meta::FileTime{-5, 6};
  ASSERT_TRUE(node.files->place_files(node.root, list.files).ok());
  EXPECT_EQ(list.files[2].status, Code::not_found);
  EXPECT_EQ(list.files[2].file, nullptr);
  ASSERT_TRUE(node.write(list.files[0].file, 0, "one").has_value());
  ASSERT_TRUE(node.write(list.files[1].file, 0, std::string(100'000, 'x')).has_value());
  ASSERT_TRUE(node.write(list.files[3].file, 0, "three").has_value());
  EXPECT_EQ(node.files->lookup(node.root, meta::kRootInode, "a").error(), Status(Code::not_found));
  EXPECT_TRUE(node.files->sync_all().ok()) << "what has no name has nothing to be recorded";
  ASSERT_TRUE(node.files->make_files(node.root, list.files, nullptr).ok());
  EXPECT_TRUE(list.files[0].status.ok());
  EXPECT_TRUE(list.files[1].status.ok());
  EXPECT_EQ(list.files[3].status, Code::already_exists) << "one name for one";
  EXPECT_EQ(node.files->status().open_files, 0u);

  const FileRef a = node.open("/a", {});
  EXPECT_EQ(node.read(a, 0, 10), "one");
  const auto b = node.files->lookup(node.root, meta::kRootInode, "b");
  ASSERT_TRUE(b.has_value());
  EXPECT_EQ(b->length, 100'000u);
  EXPECT_EQ(b->uid, 7u);
  EXPECT_EQ(b->mode, 0640u);
  EXPECT_EQ(b->modified, (meta::FileTime{-5, 6}));
  EXPECT_EQ(node.chunk_count(), 3u) << "of the second and only the first /a";
}

TEST(NewFiles, leave_nothing_when_their_maker_gives_them_up) {
  Node node;
  List list({"/a", "/b"});
  ASSERT_TRUE(node.files->place_files(node.root, list.files).ok());
  ASSERT_TRUE(node.write(list.files[0].file, 0, "one").has_value());
  ASSERT_TRUE(node.write(list.files[1].file, 0, "two").has_value());
  list.files[0].status = Code::io_error;
  ASSERT_TRUE(node.files->make_files(node.root, list.files, nullptr).ok());
  EXPECT_EQ(list.files[0].status, Code::io_error);
  EXPECT_EQ(node.files->lookup(node.root, meta::kRootInode, "a").error(), Status(Code::not_found));
  EXPECT_TRUE(node.files->lookup(node.root, meta::kRootInode, "b").has_value());
  EXPECT_EQ(node.chunk_count(), 1u);
}

TEST(NewFiles, leave_nothing_when_the_targets_could_not_be_asked_at_first) {
  Node node;
  List list({"/a"});
  ASSERT_TRUE(node.files->place_files(node.root, list.files).ok());
  ASSERT_TRUE(node.write(list.files[0].file, 0, std::string(100'000, 'x')).has_value());
  list.files[0].status = Code::cancelled;
  for (const auto& target : node.targets) target->fault = [] { return Code::peer_gone; };
  ASSERT_TRUE(node.files->make_files(node.root, list.files, nullptr).ok());
  EXPECT_EQ(node.chunk_count(), 2u);
  for (const auto& target : node.targets) target->fault = [] { return Code::ok; };
  EXPECT_TRUE(
      node.world.run_until([&] { return node.chunk_count() == 0; }, std::chrono::seconds(60)));
}

TEST(NewFiles, can_be_written_and_synced_like_any_other_afterwards) {
  Node node;
  List list({"/a"});
  ASSERT_TRUE(node.files->place_files(node.root, list.files).ok());
  ASSERT_TRUE(node.write(list.files[0].file, 0, "one").has_value());
  ASSERT_TRUE(node.files->make_files(node.root, list.files, nullptr).ok());
  const FileRef a = node.open("/a", {.write = true});
  ASSERT_TRUE(node.write(a, 3, "two").has_value());
  ASSERT_TRUE(node.files->sync_file(a).ok());
  const InodeId id = inode_of(*a);
  node.crash();
  node.start();
  EXPECT_EQ(node.length(id), 6u);
}

TEST(NewFiles, take_the_place_of_others_when_they_are_whole) {
  Node node;
  const FileRef old = node.open("/a");
  ASSERT_TRUE(node.write(old, 0, "old").has_value());
  ASSERT_TRUE(node.files->close_file(node.open("/b")).ok());
  ASSERT_TRUE(node.files->make_directory(node.root, meta::kRootInode, "d", 0755, nullptr));
  List list({"/a", "/b", "/d", "/c", "/a"});
  for (NewFile& file : list.files) file.replace = true;
  Recorder mount;
  node.files->add_observer(mount);
  node.files->watch(meta::kRootInode, mount);
  node.files->watch(inode_of(*old), mount);
  ASSERT_TRUE(node.files->place_files(node.root, list.files).ok());
  EXPECT_EQ(list.files[2].status, Code::is_directory);
  for (NewFile& file : list.files) {
    if (file.file != nullptr) {
      ASSERT_TRUE(node.write(file.file, 0, "new").has_value());
    }
  }
  const FileRef still = node.open("/a", {});
  EXPECT_EQ(node.read(still, 0, 10), "old");
  // Others make one of them meanwhile.
  ASSERT_TRUE(node.files->close_file(node.open("/c")).ok());
  mount.changes.clear();
  ASSERT_TRUE(node.files->make_files(node.root, list.files, nullptr).ok());
  for (const size_t i : {0, 1, 3, 4}) EXPECT_TRUE(list.files[i].status.ok()) << i;
  for (const char* name : {"/a", "/b", "/c"}) {
    EXPECT_EQ(node.read(node.open(name, {}), 0, 10), "new") << name;
    EXPECT_GT(std::count(mount.entries.begin(), mount.entries.end(), name + 1), 0) << name;
  }
  EXPECT_EQ(std::count(mount.changes.begin(), mount.changes.end(), inode_of(*old)), 1)
      << "that it has no name any more";
  EXPECT_EQ(node.read(old, 0, 10), "old") << "it stays for the programs that have it open";
  node.files->remove_observer(mount);
  ASSERT_TRUE(node.files->close_file(old).ok());
  ASSERT_TRUE(node.files->close_file(still).ok());
  while (*node.files->collect(100) != 0) continue;
  EXPECT_EQ(node.chunk_count(), 3u) << "and goes away with them";
}

TEST(NewFiles, are_found_out_about_when_nobody_told_what_became_of_them) {
  int happened = 0;
  constexpr int kTimes = 20;
  for (int i = 0; i < kTimes; ++i) {
    Node node(static_cast<uint64_t>(i + 1));
    FileRef old = node.open("/a");
    ASSERT_TRUE(node.write(old, 0, "old").has_value());
    ASSERT_TRUE(node.files->close_file(std::move(old)).ok());
    List list({"/a", "/b"});
    for (NewFile& file : list.files) file.replace = true;
    Recorder mount;
    node.files->add_observer(mount);
    node.files->watch(meta::kRootInode, mount);
    ASSERT_TRUE(node.files->place_files(node.root, list.files).ok());
    for (NewFile& file : list.files) ASSERT_TRUE(node.write(file.file, 0, "new").has_value());
    node.kv_image.faults.unresolved_commit_permille = 1000;
    const Status status = node.files->make_files(node.root, list.files, nullptr);
    node.kv_image.faults.unresolved_commit_permille = 0;
    EXPECT_EQ(status, Code::may_have_happened);
    EXPECT_EQ(mount.entries, (std::vector<std::string>{"a", "b"}));
    node.files->remove_observer(mount);
    const bool is_there = node.files->lookup(node.root, meta::kRootInode, "b").has_value();
    happened += is_there ? 1 : 0;
    for (const NewFile& file : list.files) {
      EXPECT_EQ(file.status, is_there ? Status() : Status(Code::may_have_happened));
    }
    EXPECT_EQ(node.read(node.open("/a", {}), 0, 10), is_there ? "new" : "old");
    while (*node.files->collect(100) != 0) continue;
    EXPECT_EQ(node.chunk_count(), is_there ? 2u : 3u)
        << "the bytes of what a later life may find are still there";
    node.stop();
    node.start();
    EXPECT_EQ(node.chunk_count(), is_there ? 2u : 1u) << "and go where it did not";
  }
  EXPECT_GT(happened, 0);
  EXPECT_LT(happened, kTimes);
}

TEST(NewFiles, leave_no_bytes_without_a_name_after_a_crash) {
  Node node;
  List list({"/a", "/b"});
  ASSERT_TRUE(node.files->place_files(node.root, list.files).ok());
  ASSERT_TRUE(node.write(list.files[0].file, 0, "one").has_value());
  // Others make far more files meanwhile than are looked at for themselves.
  for (int i = 0; i < 9'000; ++i) {
    const std::string name = "/f" + std::to_string(i);
    ASSERT_TRUE(node.files->close_file(node.open(name)).ok());
  }
  ASSERT_EQ(node.chunk_count(), 1u);
  for (NewFile& file : list.files) file.file.reset();
  node.crash();
  node.start();
  EXPECT_EQ(node.chunk_count(), 0u);
}

}  // namespace
}  // namespace penstock::client
