#include "../access_times.h"
#include "node.h"

namespace penstock::client {
namespace {

using std::chrono::milliseconds;

Credentials user(uint32_t uid) {
  Credentials credentials;
  credentials.uid = uid;
  credentials.gid = uid;
  return credentials;
}

TEST(OpenTest, follows_the_mode_bits_unless_root_asks) {
  Node node;
  EXPECT_TRUE(node.files->close_file(node.open("/a")).ok());  // root, 0644
  EXPECT_TRUE(node.files->open_path(user(7), "/a", {}, 0, {}, nullptr).has_value());
  EXPECT_EQ(node.files->open_path(user(7), "/a", {.write = true}, 0, {}, nullptr).error(),
            Status(Code::access_denied));
  meta::SetAttributes secret;
  secret.mode = 0000;
  const InodeId id = node.files->lookup(node.root, meta::kRootInode, "a")->inode;
  EXPECT_TRUE(node.files->set_attributes(node.root, id, secret, nullptr).has_value());
  EXPECT_EQ(node.files->open_inode(user(7), id, {}, true, nullptr).error(),
            Status(Code::access_denied));
  EXPECT_TRUE(node.files->open_inode(user(7), id, {}, false, nullptr).has_value());
  EXPECT_TRUE(node.files->open_inode(node.root, id, {.write = true}, true, nullptr).has_value());
}

TEST(OpenTest, creator_may_write_when_the_new_mode_forbids_it) {
  Node node;
  ASSERT_TRUE(
      node.files->make_directory(node.root, meta::kRootInode, "d", 0777, nullptr).has_value());
  const auto made =
      node.files->open_path(user(7), "/d/a", {.write = true, .create = true}, 0400, {}, nullptr);
  ASSERT_TRUE(made.has_value());
  EXPECT_TRUE(node.write(*made, 0, "x").has_value());
  EXPECT_EQ(node.files->open_path(user(7), "/d/a", {.write = true}, 0, {}, nullptr).error(),
            Status(Code::access_denied));
}

TEST(OpenTest, refuses_what_is_no_regular_file) {
  Node node;
  ASSERT_TRUE(
      node.files->make_directory(node.root, meta::kRootInode, "d", 0755, nullptr).has_value());
  ASSERT_TRUE(
      node.files
          ->make_node(node.root, meta::kRootInode, "p", meta::FileType::fifo, 0644, 0, nullptr)
          .has_value());
  EXPECT_EQ(node.files->open_path(node.root, "/d", {}, 0, {}, nullptr).error(),
            Status(Code::is_directory));
  EXPECT_EQ(node.files->open_path(node.root, "/p", {}, 0, {}, nullptr).error(),
            Status(Code::not_supported));
  EXPECT_EQ(node.files->open_path(node.root, "/none", {}, 0, {}, nullptr).error(),
            Status(Code::not_found));
  EXPECT_EQ(node.files->open_inode(node.root, InodeId{12345}, {}, true, nullptr).error(),
            Status(Code::not_found));
  EXPECT_EQ(node.files->open_path(node.root, "/a", {.read = true, .truncate = true}, 0, {}, nullptr)
                .error(),
            Status(Code::invalid_argument));
  EXPECT_EQ(node.files->status().open_files, 0u);
}

TEST(OpenTest, exclusive_creation_fails_when_the_name_exists) {
  Node node;
  const OpenFlags exclusive{.write = true, .create = true, .exclusive = true};
  EXPECT_TRUE(node.files->open_path(node.root, "/a", exclusive, 0644, {}, nullptr).has_value());
  EXPECT_EQ(node.files->open_path(node.root, "/a", exclusive, 0644, {}, nullptr).error(),
            Status(Code::already_exists));
}

TEST(OpenTest, creates_through_symbolic_links_that_lead_nowhere_yet) {
  Node node;
  ASSERT_TRUE(
      node.files->make_directory(node.root, meta::kRootInode, "d", 0755, nullptr).has_value());
  const InodeId d = node.files->lookup(node.root, meta::kRootInode, "d")->inode;
  ASSERT_TRUE(node.files->make_symlink(node.root, d, "relative", "new1", nullptr).has_value());
  ASSERT_TRUE(node.files->make_symlink(node.root, d, "absolute", "/new2", nullptr).has_value());
  ASSERT_TRUE(node.files->make_symlink(node.root, d, "loop", "loop", nullptr).has_value());
  const OpenFlags create{.write = true, .create = true};
  EXPECT_TRUE(node.files->open_path(node.root, "/d/relative", create, 0644, {}, nullptr));
  EXPECT_TRUE(node.files->open_path(node.root, "/d/absolute", create, 0644, {}, nullptr));
  EXPECT_EQ(node.files->open_path(node.root, "/d/loop", create, 0644, {}, nullptr).error(),
            Status(Code::too_many_symlinks));
  EXPECT_TRUE(node.files->resolve(node.root, "/d/new1", false).has_value());
  EXPECT_TRUE(node.files->resolve(node.root, "/new2", false).has_value());
}

TEST(OpenTest, truncation_empties_the_file_for_everybody) {
  Node node;
  const FileRef old = node.open("/a");
  EXPECT_TRUE(node.write(old, 0, std::string(200'000, 'x')).has_value());
  const FileRef cut = node.open("/a", {.write = true, .truncate = true});
  EXPECT_EQ(length_of(*old), 0u);
  EXPECT_EQ(node.read(old, 0, 10), "");
  EXPECT_EQ(node.chunk_count(), 0u);
  EXPECT_TRUE(node.write(cut, 5, "y").has_value());
  EXPECT_EQ(node.read(old, 0, 10), std::string(5, '\0') + "y");
}

TEST(LengthTest, is_seen_by_others_before_it_is_settled) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, "12345").has_value());
  EXPECT_EQ(node.meta->attributes(inode_of(*file))->length, 0u);
  EXPECT_EQ(node.files->lookup(node.root, meta::kRootInode, "a")->length, 5u);
  EXPECT_EQ(node.files->resolve(node.root, "/a", true)->length, 5u);
  EXPECT_EQ(node.length(inode_of(*file)), 5u);
  const InodeId id = inode_of(*file);
  EXPECT_TRUE(node.files->close_file(file).ok());
  EXPECT_EQ(node.meta->attributes(id)->length, 5u);
  EXPECT_TRUE(node.meta->unsettled()->empty());
}

TEST(LengthTest, is_settled_in_the_background_when_the_last_reference_is_dropped) {
  Node node;
  FileRef file = node.open("/a");
  const InodeId id = inode_of(*file);
  EXPECT_TRUE(node.write(file, 0, "12345").has_value());
  file = nullptr;
  EXPECT_TRUE(node.files->collect(10).has_value());
  EXPECT_EQ(node.meta->attributes(id)->length, 5u);
  EXPECT_EQ(node.files->status().open_files, 0u);
}

TEST(LengthTest, modification_time_follows_writes_and_explicit_times) {
  Node node;
  const FileRef file = node.open("/a");
  const InodeId id = inode_of(*file);
  const auto created = node.files->attributes(id)->modified;
  node.world.run_for(milliseconds(5));
  EXPECT_TRUE(node.write(file, 0, "x").has_value());
  const auto written = node.files->attributes(id)->modified;
  EXPECT_GT(written, created);
  meta::SetAttributes changes;
  changes.modified = engine::WallTime{12345};
  EXPECT_TRUE(node.files->set_attributes(node.root, id, changes, nullptr).has_value());
  EXPECT_EQ(node.files->attributes(id)->modified, engine::WallTime{12345});
  EXPECT_TRUE(node.files->close_file(file).ok());
  EXPECT_EQ(node.files->attributes(id)->modified, engine::WallTime{12345});
}

TEST(CutTest, removes_exactly_what_lies_behind_the_new_end) {
  Node node;
  const FileRef file = node.open("/a");
  const InodeId id = inode_of(*file);
  EXPECT_TRUE(node.write(file, 0, std::string(5 * 65536, 'x')).has_value());
  EXPECT_TRUE(node.truncate(id, 2 * 65536 + 100).ok());
  EXPECT_EQ(node.chunk_count(), 3u);
  EXPECT_EQ(node.length(id), 2u * 65536 + 100);
  EXPECT_TRUE(node.truncate(id, 5 * 65536).ok());
  EXPECT_EQ(node.read(file, 2 * 65536, 3 * 65536),
            std::string(100, 'x') + std::string(3 * 65536 - 100, '\0'));
  EXPECT_TRUE(node.truncate(id, 65536).ok());
  EXPECT_EQ(node.chunk_count(), 1u);
  EXPECT_TRUE(node.truncate(id, 0).ok());
  EXPECT_EQ(node.chunk_count(), 0u);
  EXPECT_EQ(node.truncate(id, limits::kFileBytesMax + 1), Status(Code::too_large));
  EXPECT_EQ(node.truncate(meta::kRootInode, 0), Status(Code::is_directory));
}

TEST(CutTest, works_on_a_file_that_nobody_has_open) {
  Node node;
  FileRef file = node.open("/a");
  const InodeId id = inode_of(*file);
  EXPECT_TRUE(node.write(file, 0, std::string(1000, 'x')).has_value());
  EXPECT_TRUE(node.files->close_file(std::move(file)).ok());
  EXPECT_TRUE(node.truncate(id, 10).ok());
  EXPECT_TRUE(node.truncate(id, 20).ok());
  EXPECT_EQ(node.length(id), 20u);
  EXPECT_EQ(node.read(node.open("/a"), 0, 100), std::string(10, 'x') + std::string(10, '\0'));
}

TEST(CutTest, needs_the_right_to_write) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, "12345").has_value());
  meta::SetAttributes changes;
  changes.length = 0;
  EXPECT_EQ(node.files->set_attributes(user(7), inode_of(*file), changes, nullptr).error(),
            Status(Code::access_denied));
  EXPECT_EQ(node.read(file, 0, 10), "12345");
}

TEST(PunchTest, makes_zeros_and_keeps_the_length) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(200'000, 'x')).has_value());
  EXPECT_TRUE(node.files->punch(file, 60'000, 100'000, nullptr, nullptr).ok());
  EXPECT_TRUE(node.files->punch(file, 190'000, 1'000'000, nullptr, nullptr).ok());
  EXPECT_EQ(node.read(file, 0, 300'000), std::string(60'000, 'x') + std::string(100'000, '\0') +
                                             std::string(30'000, 'x') + std::string(10'000, '\0'));
}

TEST(UnlinkTest, keeps_the_bytes_of_an_open_file_until_it_is_closed) {
  Node node;
  FileRef file = node.open("/a");
  const InodeId id = inode_of(*file);
  EXPECT_TRUE(node.write(file, 0, std::string(200'000, 'x')).has_value());
  EXPECT_TRUE(node.files->unlink(node.root, meta::kRootInode, "a", nullptr).ok());
  EXPECT_EQ(*node.files->collect(100), 0u);
  EXPECT_EQ(node.read(file, 199'999, 10), "x");
  EXPECT_TRUE(node.write(file, 200'000, "more").has_value());
  EXPECT_EQ(node.files->attributes(id)->links, 0u);
  EXPECT_EQ(node.length(id), 200'004u);
  EXPECT_EQ(node.files->status().removed_waiting, 1u);
  // One more open of what has no name, as through /proc/self/fd.
  FileRef again = *node.files->open_inode(node.root, id, {}, true, nullptr);
  EXPECT_TRUE(node.files->close_file(std::move(file)).ok());
  EXPECT_EQ(*node.files->collect(100), 0u);
  EXPECT_EQ(node.read(again, 200'000, 10), "more");
  EXPECT_TRUE(node.files->close_file(std::move(again)).ok());
  EXPECT_EQ(node.files->open_inode(node.root, id, {}, true, nullptr).error(), Status(Code::stale));
  EXPECT_EQ(*node.files->collect(100), 1u);
  EXPECT_EQ(node.chunk_count(), 0u);
  EXPECT_EQ(node.files->attributes(id).error(), Status(Code::not_found));
  EXPECT_EQ(node.files->status().removed_waiting, 0u);
}

TEST(SeekTest, walks_over_no_hole_behind_the_last_byte) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(5000, 'x')).has_value());
  constexpr uint64_t kEnd = uint64_t{1} << 36;  // a million chunks
  EXPECT_TRUE(node.truncate(inode_of(*file), kEnd).ok());
  const auto operations = [&] { return node.targets[0]->operations + node.targets[1]->operations; };
  const uint64_t before = operations();
  EXPECT_EQ(*node.files->seek(file, 0, false), 0u);
  EXPECT_EQ(*node.files->seek(file, 0, true), 8192u);
  EXPECT_EQ(*node.files->seek(file, 100'000, true), 100'000u);
  EXPECT_EQ(node.files->seek(file, 8192, false).error().code(), Code::no_data);
  EXPECT_LT(operations() - before, 50u);
}

TEST(UnlinkTest, removed_files_are_collected_by_the_next_life) {
  Node node;
  EXPECT_TRUE(node.write(node.open("/a"), 0, std::string(200'000, 'x')).has_value());
  EXPECT_TRUE(node.files->unlink(node.root, meta::kRootInode, "a", nullptr).ok());
  node.crash();
  node.start();
  EXPECT_GT(node.chunk_count(), 0u);
  EXPECT_EQ(node.files->status().removed_waiting, 1u);
  EXPECT_EQ(*node.files->collect(100), 1u);
  EXPECT_EQ(node.chunk_count(), 0u);
}

TEST(UnlinkTest, collects_many_in_bounded_steps_and_passes_by_those_in_use) {
  Node node;
  std::vector<FileRef> open;
  for (int i = 0; i < 700; ++i) {
    FileRef file = node.open("/" + std::to_string(i));
    EXPECT_TRUE(node.write(file, 0, "x").has_value());
    if (i % 7 == 0) open.push_back(file);
    EXPECT_TRUE(node.files->unlink(node.root, meta::kRootInode, std::to_string(i), nullptr).ok());
  }
  EXPECT_EQ(*node.files->collect(150), 150u);
  EXPECT_EQ(*node.files->collect(10'000), 450u);
  EXPECT_EQ(*node.files->collect(10'000), 0u);
  EXPECT_EQ(node.chunk_count(), 100u);
  open.clear();
  EXPECT_EQ(*node.files->collect(10'000), 100u);
  EXPECT_EQ(node.chunk_count(), 0u);
}

// The collector does not look at the first again each time.
TEST(UnlinkTest, finds_what_is_removed_before_the_place_where_it_ended) {
  Node node;
  FileRef old = node.open("/old");
  EXPECT_TRUE(node.write(old, 0, "x").has_value());
  for (int round = 0; round < 3; ++round) {
    FileRef file = node.open("/new");
    EXPECT_TRUE(node.write(file, 0, "x").has_value());
    EXPECT_TRUE(node.files->unlink(node.root, meta::kRootInode, "new", nullptr).ok());
    EXPECT_TRUE(node.files->close_file(std::move(file)).ok());
    EXPECT_EQ(*node.files->collect(100), 1u);
    EXPECT_EQ(*node.files->collect(100), 0u);
    if (round == 0) {
      EXPECT_TRUE(node.files->unlink(node.root, meta::kRootInode, "old", nullptr).ok());
    }
  }
  EXPECT_EQ(node.chunk_count(), 1u);
  EXPECT_EQ(*node.files->collect(100), 0u) << "it is open";
  EXPECT_TRUE(node.files->close_file(std::move(old)).ok());
  EXPECT_EQ(*node.files->collect(100), 1u);
  EXPECT_EQ(node.chunk_count(), 0u);
}

// Found without a name, and then named and closed before anything is removed.
TEST(UnlinkTest, a_write_that_meets_a_full_disk_gets_what_removed_files_have_held) {
  Node node(1, 1);
  FileRef removed = node.open("/a");
  const InodeId id = inode_of(*removed);
  EXPECT_TRUE(node.write(removed, 0, "takes all the room").has_value());
  const FileRef file = node.open("/b");
  FakeTarget& target = *node.targets[0];
  bool full = false;
  target.fault = [&] { return std::exchange(full, false) ? Status(Code::no_space) : Status(); };
  full = true;
  EXPECT_EQ(node.write(file, 0, "x").error(), Status(Code::no_space));
  EXPECT_TRUE(node.files->close_file(std::move(removed)).ok());
  EXPECT_TRUE(node.files->unlink(node.root, meta::kRootInode, "a", nullptr).ok());
  full = true;
  EXPECT_TRUE(node.write(file, 0, "x").has_value());
  EXPECT_EQ(target.chunks.count({id, 0}), 0u);
  EXPECT_EQ(node.files->status().removed_waiting, 0u);
}

TEST(UnlinkTest, a_file_that_gets_its_first_name_while_others_are_collected_keeps_its_bytes) {
  Node node;
  FileRef file = *node.files->open_unnamed(node.root, meta::kRootInode,
                                           {.read = true, .write = true}, 0644, nullptr, nullptr);
  const InodeId id = inode_of(*file);
  EXPECT_TRUE(node.write(file, 0, "kept").has_value());
  node.kv->during_sync = [&] {
    EXPECT_TRUE(node.files->link(node.root, id, meta::kRootInode, "a", nullptr).has_value());
    EXPECT_TRUE(node.files->close_file(std::move(file)).ok());
  };
  EXPECT_EQ(*node.files->collect(100), 0u);
  EXPECT_EQ(node.kv->during_sync, nullptr) << "nothing came in between";
  EXPECT_EQ(node.read(node.open("/a", {}), 0, 100), "kept");
}

TEST(UnlinkTest, a_replaced_file_goes_like_an_unlinked_one) {
  Node node;
  const FileRef a = node.open("/a");
  FileRef b = node.open("/b");
  EXPECT_TRUE(node.write(a, 0, "a").has_value());
  EXPECT_TRUE(node.write(b, 0, "b").has_value());
  EXPECT_TRUE(
      node.files->rename(node.root, meta::kRootInode, "a", meta::kRootInode, "b", {}, nullptr)
          .ok());
  EXPECT_EQ(node.read(b, 0, 1), "b");
  EXPECT_EQ(node.read(node.open("/b", {}), 0, 1), "a");
  EXPECT_TRUE(node.files->close_file(std::move(b)).ok());
  EXPECT_EQ(*node.files->collect(100), 1u);
  EXPECT_EQ(node.chunk_count(), 1u);
}

TEST(RecoveryTest, finds_the_length_of_files_whose_writer_died) {
  Node node;
  const FileRef grown = node.open("/grown");
  EXPECT_TRUE(node.write(grown, 0, std::string(150'000, 'x')).has_value());
  const FileRef extended = node.open("/extended");
  EXPECT_TRUE(node.write(extended, 0, "x").has_value());
  EXPECT_TRUE(node.truncate(inode_of(*extended), 500'000).ok());
  node.crash();
  node.start();
  EXPECT_EQ(node.length(inode_of(*grown)), 150'000u);
  EXPECT_EQ(node.length(inode_of(*extended)), 500'000u);
  EXPECT_TRUE(node.meta->unsettled()->empty());
}

TEST(RecoveryTest, believes_a_cut_and_not_the_target_that_had_no_time_to_make_it) {
  Node node(1, 1);
  const FileRef file = node.open("/a");
  const InodeId id = inode_of(*file);
  EXPECT_TRUE(node.write(file, 0, std::string(150'000, 'x')).has_value());
  EXPECT_TRUE(node.files->sync_file(file).ok());
  node.targets[0]->fault = [] { return Code::io_error; };
  EXPECT_EQ(node.truncate(id, 10), Status(Code::io_error));
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u) << "the new length is durable first";
  node.crash();
  node.targets[0]->fault = [] { return Code::ok; };
  node.start();
  EXPECT_EQ(node.length(id), 10u);
  // Nor does what the target still holds show later.
  const FileRef again = node.open("/a", {.write = true});
  EXPECT_TRUE(node.write(again, 100, "z").has_value());
  EXPECT_EQ(node.read(again, 0, 1000), std::string(10, 'x') + std::string(90, '\0') + "z");
}

TEST(DataSyncTest, makes_bytes_durable_and_leaves_meta_alone_where_nothing_in_it_is_needed) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(200'000, 'x')).has_value());
  EXPECT_TRUE(node.files->sync_file(file, true).ok()) << "the name and the length, too";
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u);
  const FileRef other = node.open("/b");
  ASSERT_GT(node.kv_image.volatile_commits(), 0u);
  EXPECT_TRUE(node.write(file, 4096, std::string(4096, 'y')).has_value());
  EXPECT_TRUE(node.files->sync_file(file, true).ok());
  EXPECT_GT(node.kv_image.volatile_commits(), 0u) << "meta was synced for nothing";
  EXPECT_TRUE(node.write(file, 200'000, "z").has_value());
  EXPECT_TRUE(node.files->sync_file(file, true).ok());
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u) << "a new length";
  EXPECT_TRUE(node.truncate(inode_of(*file), 300'000).ok());
  EXPECT_TRUE(node.files->sync_file(file, true).ok());
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u) << "a new length without bytes";
  EXPECT_TRUE(node.write(file, 8192, std::string(4096, 'y')).has_value());
  EXPECT_TRUE(node.files->sync_file(file, true).ok());
  EXPECT_TRUE(node.files->sync_file(file).ok());
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u) << "the time of the last write";
  node.crash();
  for (const auto& target : node.targets) target->power_cut();
  node.start();
  EXPECT_EQ(node.length(inode_of(*file)), 300'000u);
  EXPECT_EQ(node.read(node.open("/a", {}), 0, 300'000),
            std::string(4096, 'x') + std::string(8192, 'y') + std::string(200'000 - 12'288, 'x') +
                "z" + std::string(99'999, '\0'));
}

TEST(DataSyncTest, asks_no_target_for_what_durable_writes_have_stored) {
  Node node;
  const FileRef file = node.open("/a");
  const auto syncs = [&] { return node.targets[0]->syncs + node.targets[1]->syncs; };
  const auto write = [&](uint64_t offset, uint64_t length, char byte, bool durable) {
    std::string bytes(length, byte);
    const engine::MemoryRef memory{reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
    const auto wrote = node.files->write(file, offset, memory, durable, nullptr, nullptr);
    EXPECT_EQ(wrote ? *wrote : 0, length);
  };
  write(0, 5000, 'a', false);
  write(5000, 3000, 'b', true);
  EXPECT_TRUE(node.files->sync_file(file).ok());
  EXPECT_EQ(syncs(), 0u);
  write(100, 10, 'c', false);
  EXPECT_TRUE(node.files->sync_file(file, true).ok());
  EXPECT_EQ(syncs(), 2u);
  // In the session a crash finds the end in the targets.
  const FileRef other = node.open("/b");
  write(8000, 100, 'd', true);
  EXPECT_TRUE(node.files->sync_file(file, true).ok());
  EXPECT_EQ(syncs(), 2u);
  EXPECT_GT(node.kv_image.volatile_commits(), 0u) << "meta was synced for nothing";
  // Now two targets have bytes, and each knows of its own.
  write(0, 10, 'e', false);
  write(70'000, 10, 'f', true);
  EXPECT_TRUE(node.files->sync_file(file, true).ok());
  EXPECT_EQ(syncs(), 4u);
  node.crash();
  for (const auto& target : node.targets) target->power_cut();
  node.start();
  std::string expected = std::string(5000, 'a') + std::string(3000, 'b') + std::string(100, 'd');
  expected.replace(100, 10, 10, 'c').replace(0, 10, 10, 'e').resize(70'000);
  EXPECT_TRUE(node.read(node.open("/a", {}), 0, 80'000) == expected + std::string(10, 'f'));
}

TEST(DataSyncTest, makes_a_name_durable_that_came_after_the_last_sync) {
  Node node;
  const FileRef file = *node.files->open_unnamed(
      node.root, meta::kRootInode, {.read = true, .write = true}, 0644, nullptr, nullptr);
  EXPECT_TRUE(node.write(file, 0, "bytes").has_value());
  EXPECT_TRUE(node.files->sync_file(file).ok());
  EXPECT_TRUE(
      node.files->link(node.root, inode_of(*file), meta::kRootInode, "a", nullptr).has_value());
  EXPECT_TRUE(node.files->sync_file(file, true).ok());
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u);
  node.crash();
  for (const auto& target : node.targets) target->power_cut();
  node.start();
  EXPECT_EQ(node.read(node.open("/a", {}), 0, 100), "bytes");
}

TEST(CutTest, is_durable_in_meta_and_targets_when_the_file_was_synced) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(200'000, 'x')).has_value());
  EXPECT_TRUE(node.files->sync_file(file).ok());
  EXPECT_TRUE(node.truncate(inode_of(*file), 70'000).ok());
  node.crash();
  for (const auto& target : node.targets) target->power_cut();
  EXPECT_EQ(node.chunk_count(), 2u);
  node.start();
  EXPECT_EQ(node.length(inode_of(*file)), 70'000u);
  EXPECT_EQ(node.read(node.open("/a", {}), 0, 200'000), std::string(70'000, 'x'));
}

TEST(CutTest, costs_no_sync_when_nothing_was_promised) {
  Node node;
  const FileRef other = node.open("/other");
  FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(200'000, 'x')).has_value());
  EXPECT_TRUE(node.truncate(inode_of(*file), 10).ok());
  const uint64_t pending = node.kv_image.volatile_commits();
  EXPECT_GT(pending, 0u);
  // Another life of the open file cannot tell.
  EXPECT_TRUE(node.files->close_file(std::move(file)).ok());
  file = node.open("/a", {.write = true});
  EXPECT_TRUE(node.truncate(inode_of(*file), 5).ok());
  EXPECT_LT(node.kv_image.volatile_commits(), pending);
}

TEST(RecoveryTest, trusts_the_target_again_after_a_cut) {
  Node node(1, 1);
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(150'000, 'x'), true).has_value());
  EXPECT_TRUE(node.truncate(inode_of(*file), 10).ok());
  EXPECT_EQ(node.meta->unsettled()->size(), 1u);
  EXPECT_TRUE(node.write(file, 10, "y").has_value());
  node.crash();
  node.start();
  EXPECT_EQ(node.length(inode_of(*file)), 11u);
}

TEST(RecoveryTest, removes_chunks_of_files_whose_creation_was_lost) {
  Node node(1, 2);
  EXPECT_TRUE(node.files->close_file(node.open("/old")).ok());
  const FileRef first = node.open("/first");
  EXPECT_TRUE(node.write(first, 0, std::string(100'000, 'x')).has_value());
  EXPECT_TRUE(node.files->sync_file(first).ok());
  const size_t before = node.chunk_count();
  const FileRef lost = node.open("/lost");
  const InodeId id = inode_of(*lost);
  EXPECT_TRUE(node.write(lost, 0, std::string(100'000, 'x')).has_value());
  node.crash();
  // As if a power cut had taken the creation back, but not the data.
  node.start();
  EXPECT_TRUE(node.files->unlink(node.root, meta::kRootInode, "lost", nullptr).ok());
  EXPECT_TRUE(node.meta->forget(id).ok());
  EXPECT_GT(node.chunk_count(), before);
  node.crash();
  node.start();
  EXPECT_EQ(node.chunk_count(), before);
  EXPECT_EQ(node.read(node.open("/first", {}), 0, 200'000), std::string(100'000, 'x'));
}

TEST(SyncTest, asks_every_target_of_the_file_once_and_not_again_without_changes) {
  Node node(1, 3);
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, "x").has_value());
  EXPECT_TRUE(node.files->sync_file(file).ok());
  for (const auto& target : node.targets) EXPECT_EQ(target->syncs, 1u);
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u);
  EXPECT_TRUE(node.files->sync_file(file).ok());
  for (const auto& target : node.targets) EXPECT_EQ(target->syncs, 1u);
  EXPECT_TRUE(node.write(file, 0, "y").has_value());
  EXPECT_TRUE(node.files->sync_file(file).ok());
  for (const auto& target : node.targets) EXPECT_EQ(target->syncs, 2u);
}

TEST(SyncTest, a_durable_write_makes_its_length_durable) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, "12345", true).has_value());
  EXPECT_EQ(node.meta->attributes(inode_of(*file))->length, 5u);
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u);
  const uint64_t commits = node.kv_image.commits();
  EXPECT_TRUE(node.write(file, 0, "54321", true).has_value());
  EXPECT_EQ(node.kv_image.commits(), commits) << "an overwrite has no length to record";
}

TEST(SyncTest, only_the_first_durable_write_of_a_session_records_anything) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, "12345", true).has_value());
  const uint64_t commits = node.kv_image.commits();
  EXPECT_TRUE(node.write(file, 5, std::string(100'000, 'x'), true).has_value());
  EXPECT_EQ(node.kv_image.commits(), commits);
  node.crash();
  node.start();
  EXPECT_EQ(node.length(inode_of(*file)), 100'005u) << "the target knows";
  // A cut begins another session, of which the disk does not know yet.
  const FileRef again = node.open("/a", {.write = true});
  EXPECT_TRUE(node.write(again, 0, "x", true).has_value());
  EXPECT_TRUE(node.truncate(inode_of(*again), 10).ok());
  EXPECT_GT(node.kv_image.volatile_commits(), 0u);
  EXPECT_TRUE(node.write(again, 10, "y", true).has_value());
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u);
}

TEST(SyncTest, covers_extended_attributes_and_links) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.files->sync_file(file).ok());
  EXPECT_TRUE(
      node.files
          ->set_xattr(node.root, inode_of(*file), "user.a", "b", meta::XattrMode::any, nullptr)
          .ok());
  EXPECT_TRUE(
      node.files->link(node.root, inode_of(*file), meta::kRootInode, "b", nullptr).has_value());
  EXPECT_TRUE(node.files->sync_file(file).ok());
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u);
}

TEST(SyncTest, everything_is_durable_after_sync_all) {
  Node node;
  const FileRef a = node.open("/a");
  const FileRef b = node.open("/b");
  EXPECT_TRUE(node.write(a, 0, "a").has_value());
  EXPECT_TRUE(node.write(b, 0, "bb").has_value());
  EXPECT_TRUE(node.files->sync_all().ok());
  EXPECT_EQ(node.kv_image.volatile_commits(), 0u);
  EXPECT_EQ(node.meta->attributes(inode_of(*b))->length, 2u);
  node.targets[0]->fault = [] { return Code::io_error; };
  EXPECT_EQ(node.files->sync_all(), Status(Code::io_error));
}

TEST(CloseTest, settles_open_files_and_refuses_later_calls) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, "12345").has_value());
  node.files->close();
  EXPECT_EQ(node.meta->attributes(inode_of(*file))->length, 5u);
  EXPECT_TRUE(node.meta->unsettled()->empty());
  EXPECT_EQ(node.files->lookup(node.root, meta::kRootInode, "a").error(), Status(Code::closed));
  EXPECT_EQ(node.write(file, 0, "x").error(), Status(Code::closed));
  EXPECT_EQ(node.files->sync_all(), Status(Code::closed));
}

TEST(CloseTest, a_reference_may_outlive_the_file_system) {
  Node node;
  FileRef file = node.open("/a");
  node.stop();
  file = nullptr;
}

class AccessTest : public testing::Test {
 protected:
  meta::FileTime accessed() { return node.files->attributes(id)->accessed; }
  meta::FileTime recorded() { return node.meta->attributes(id)->accessed; }
  void set(meta::FileTime accessed, meta::FileTime modified) {
    meta::SetAttributes changes;
    changes.accessed = accessed;
    changes.modified = modified;
    EXPECT_TRUE(node.files->set_attributes(node.root, id, changes, nullptr).has_value());
  }

  Node node;
  const FileRef file = node.open("/a");
  const InodeId id = inode_of(*file);
};

TEST_F(AccessTest, the_first_read_after_a_change_is_noted_and_recorded_later) {
  EXPECT_TRUE(node.write(file, 0, "x").has_value());
  const meta::FileTime before = accessed();
  node.world.run_for(milliseconds(5));
  EXPECT_EQ(node.read(file, 0, 1), "x");
  const meta::FileTime first = accessed();
  EXPECT_GT(first, before);
  EXPECT_EQ(recorded(), before);
  node.world.run_for(milliseconds(5));
  EXPECT_EQ(node.read(file, 0, 1), "x");
  EXPECT_EQ(accessed(), first) << "not every read";
  EXPECT_EQ(node.files->lookup(node.root, meta::kRootInode, "a")->accessed, first);
  EXPECT_TRUE(node.files->sync_all().ok());
  EXPECT_EQ(recorded(), first);
  EXPECT_TRUE(node.write(file, 0, "y").has_value());
  node.world.run_for(milliseconds(5));
  EXPECT_EQ(node.read(file, 0, 1), "y");
  EXPECT_GT(accessed(), first);
}

TEST_F(AccessTest, a_time_that_is_set_wins_over_one_that_is_noted) {
  EXPECT_TRUE(node.write(file, 0, "x").has_value());
  EXPECT_EQ(node.read(file, 0, 1), "x");
  set(meta::FileTime(77, 0), meta::FileTime(5, 0));
  EXPECT_EQ(accessed(), meta::FileTime(77, 0));
  EXPECT_TRUE(node.files->sync_all().ok());
  EXPECT_EQ(recorded(), meta::FileTime(77, 0));
}

TEST_F(AccessTest, options_and_the_flag_of_the_inode_decide) {
  using Mode = AccessTimes::Mode;
  const FileRef silent = node.open("/a", {.accesses = Mode::none});
  const FileRef strict = node.open("/a", {.accesses = Mode::strict});
  EXPECT_TRUE(node.write(file, 0, "x").has_value());
  const meta::FileTime before = accessed();
  node.world.run_for(milliseconds(5));
  EXPECT_EQ(node.read(silent, 0, 1), "x");
  EXPECT_EQ(accessed(), before);
  EXPECT_EQ(node.read(strict, 0, 1), "x");
  const meta::FileTime first = accessed();
  EXPECT_GT(first, before);
  node.world.run_for(milliseconds(5));
  EXPECT_EQ(node.read(strict, 0, 1), "x");
  EXPECT_GT(accessed(), first);
  meta::SetAttributes flags;
  flags.flags = meta::kInodeNoAtime;
  EXPECT_TRUE(node.files->set_attributes(node.root, id, flags, nullptr).has_value());
  const meta::FileTime last = accessed();
  node.world.run_for(milliseconds(5));
  EXPECT_TRUE(node.write(file, 0, "y").has_value());
  EXPECT_EQ(node.read(strict, 0, 1), "y");
  EXPECT_EQ(node.read(file, 0, 1), "y");
  EXPECT_EQ(accessed(), last);
}

TEST_F(AccessTest, of_directories_only_when_asked_for) {
  const InodeId root = meta::kRootInode;
  const meta::FileTime before = node.files->attributes(root)->accessed;
  node.world.run_for(milliseconds(5));
  node.files->note_access(root, {.directories = false});
  node.files->note_access(root, {.mode = AccessTimes::Mode::none});
  EXPECT_EQ(node.files->attributes(root)->accessed, before);
  node.files->note_access(root, {});
  const meta::FileTime first = node.files->attributes(root)->accessed;
  EXPECT_GT(first, before);
  node.world.run_for(milliseconds(5));
  node.files->note_access(root, {});
  EXPECT_EQ(node.files->attributes(root)->accessed, first);
  Attributes attributes;
  attributes.modified = attributes.changed = meta::FileTime(1000, 0);
  attributes.accessed = meta::FileTime(1000, 1);
  constexpr int64_t kDay = 86'400;
  EXPECT_FALSE(access_is_due(attributes, meta::FileTime(999 + kDay, 0)));
  EXPECT_TRUE(access_is_due(attributes, meta::FileTime(1000 + kDay, 0))) << "one a day";
}

}  // namespace
}  // namespace penstock::client
