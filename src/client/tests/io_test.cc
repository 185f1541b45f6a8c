#include "node.h"

#include "penstock/wire.h"

namespace penstock::client {
namespace {

using std::chrono::milliseconds;

TEST(FileIoTest, bytes_come_back_when_written_over_many_chunks) {
  Node node;
  const FileRef file = node.open("/a");
  std::string bytes(300'000, ' ');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(mix64(i));
  EXPECT_EQ(*node.write(file, 12345, bytes), bytes.size());
  EXPECT_EQ(length_of(*file), 12345 + bytes.size());
  EXPECT_EQ(node.read(file, 12345, bytes.size()), bytes);
  EXPECT_EQ(node.read(file, 0, 12345), std::string(12345, '\0'));
  // Both targets hold a part.
  EXPECT_GT(node.targets[0]->chunks.size(), 0u);
  EXPECT_GT(node.targets[1]->chunks.size(), 0u);
  EXPECT_TRUE(node.files->close_file(file).ok());
}

TEST(FileIoTest, reads_end_at_the_length) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, "0123456789").has_value());
  EXPECT_EQ(node.read(file, 4, 100), "456789");
  EXPECT_EQ(node.read(file, 10, 100), "");
  EXPECT_EQ(node.read(file, limits::kFileBytesMax - 100, 100), "");
}

TEST(FileIoTest, rights_of_the_open_count) {
  Node node;
  EXPECT_TRUE(node.files->close_file(node.open("/a")).ok());
  const FileRef reader = node.open("/a", {});
  const FileRef writer = node.open("/a", {.read = false, .write = true});
  EXPECT_EQ(node.write(reader, 0, "x").error(), Status(Code::access_denied));
  EXPECT_TRUE(node.write(writer, 0, "x").has_value());
  std::string buffer(1, '?');
  EXPECT_EQ(node.files->read(writer, 0, Node::memory_of(buffer)).error(),
            Status(Code::access_denied));
  EXPECT_EQ(node.files->punch(reader, 0, 1, nullptr, nullptr), Status(Code::access_denied));
  EXPECT_EQ(node.read(reader, 0, 1), "x");
}

TEST(FileIoTest, ranges_beyond_the_largest_file_are_refused) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_EQ(node.write(file, limits::kFileBytesMax - 1, "xy").error(), Status(Code::too_large));
  EXPECT_EQ(node.write(file, UINT64_MAX, "xy").error(), Status(Code::invalid_argument));
  EXPECT_EQ(node.write(file, 0, "").has_value(), true);
  EXPECT_EQ(length_of(*file), 0u);
}

TEST(FileIoTest, the_prefix_counts_when_a_write_fails_in_the_middle) {
  Node node(1, 1);
  const FileRef file = node.open("/a");
  int calls = 0;
  node.targets[0]->fault = [&] { return ++calls == 3 ? Code::no_space : Code::ok; };
  const std::string bytes(4 * 65536, 'x');
  EXPECT_EQ(*node.write(file, 0, bytes), 2u * 65536);
  EXPECT_EQ(length_of(*file), 2u * 65536);
  calls = 2;
  EXPECT_EQ(node.write(file, 0, bytes).error(), Status(Code::no_space));
  // What the failed part left behind the end does not show when the file grows.
  node.targets[0]->fault = [] { return Code::ok; };
  EXPECT_TRUE(node.truncate(inode_of(*file), 5 * 65536).ok());
  EXPECT_EQ(node.read(file, 2 * 65536, 3 * 65536), std::string(3 * 65536, '\0'));
}

TEST(FileIoTest, an_error_of_a_read_is_not_a_short_read) {
  Node node(1, 1);
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(200'000, 'x')).has_value());
  int calls = 0;
  node.targets[0]->fault = [&] { return ++calls == 2 ? Code::corrupt : Code::ok; };
  std::string buffer(200'000, '?');
  EXPECT_EQ(node.files->read(file, 0, Node::memory_of(buffer)).error(), Status(Code::corrupt));
}

// Operations on a client, watched from outside.
struct Tracked : IoOp {
  int completions = 0;
  std::string buffer;
  Tracked(const FileRef& open, IoKind what, uint64_t at, std::string bytes)
      : buffer(std::move(bytes)) {
    file = open;
    kind = what;
    offset = at;
    memory = Node::memory_of(buffer);
    completion = [](engine::Op& op) { ++static_cast<Tracked&>(op).completions; };
  }
};

TEST(ClientTest, refuses_holes_when_asked) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 200'000, "x").has_value());
  Tracked io(file, IoKind::read, 0, std::string(10, '?'));
  io.refuse_holes = true;
  node.files->client(0).submit(io);
  node.world.run_for(milliseconds(1));
  EXPECT_EQ(io.status, Status(Code::no_data));
}

TEST(ClientTest, completes_every_operation_once_when_more_than_its_limit_are_submitted) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(65536, 'z')).has_value());
  std::vector<std::unique_ptr<Tracked>> all;
  for (uint32_t i = 0; i < kIoOpsMax + 500; ++i) {
    all.push_back(std::make_unique<Tracked>(file, IoKind::read, i, std::string(7, '?')));
    node.files->client(0).submit(*all.back());
    EXPECT_EQ(all.back()->completions, 0);
  }
  node.world.run_for(milliseconds(10));
  for (const auto& io : all) {
    ASSERT_EQ(io->completions, 1);
    ASSERT_TRUE(io->status.ok());
    ASSERT_EQ(io->buffer, "zzzzzzz");
  }
}

TEST(ClientTest, ends_a_waiting_operation_when_it_is_cancelled) {
  Node node;
  const FileRef file = node.open("/a");
  std::vector<std::unique_ptr<Tracked>> all;
  for (uint32_t i = 0; i < kIoOpsMax + 2; ++i) {
    all.push_back(std::make_unique<Tracked>(file, IoKind::write, i, "x"));
    node.files->client(0).submit(*all.back());
  }
  node.files->client(0).cancel(*all.back());
  node.world.run_for(milliseconds(10));
  EXPECT_EQ(all.back()->completions, 1);
  EXPECT_EQ(all.back()->status, Status(Code::cancelled));
  EXPECT_EQ(all.back()->transferred, 0u);
  for (size_t i = 0; i + 1 < all.size(); ++i) ASSERT_TRUE(all[i]->status.ok());
  EXPECT_EQ(length_of(*file), uint64_t{kIoOpsMax} + 1);
}

// What an operation that ended early leaves behind must not find the file gone, nor another one in
// its place.
TEST(ClientTest, keeps_an_inode_that_is_being_settled_when_its_file_is_closed) {
  Node node(1, 1);
  FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, "bytes").has_value());
  Tracked io(file, IoKind::sync, 0, "");
  uint64_t open_meanwhile = 0;
  node.kv->during_sync = [&] {
    node.files->client(0).cancel(io);
    EXPECT_TRUE(node.files->close_file(std::move(file)).ok());
    open_meanwhile = node.files->status().open_files;
  };
  node.files->client(0).submit(io);
  node.world.run_for(milliseconds(10));
  EXPECT_EQ(io.completions, 1);
  EXPECT_EQ(io.status, Status(Code::cancelled));
  EXPECT_EQ(open_meanwhile, 1u);
  EXPECT_TRUE(node.files->sync_all().ok());  // Gives back what was dropped.
  EXPECT_EQ(node.files->status().open_files, 0u);
  EXPECT_EQ(length_of(*node.open("/a")), 5u);
}

TEST(ClientTest, keeps_the_memory_until_the_target_is_done_when_the_deadline_passes) {
  Node node(1, 1);
  const FileRef file = node.open("/a");
  node.targets[0]->hold = true;
  Tracked io(file, IoKind::write, 0, std::string(65536 * 40, 'x'));
  io.deadline = node.world.now() + milliseconds(5);
  node.files->client(0).submit(io);
  node.world.run_for(milliseconds(20));
  EXPECT_EQ(io.completions, 0) << "the target may still read the memory";
  node.targets[0]->release();
  node.world.run_for(milliseconds(20));
  EXPECT_EQ(io.completions, 1);
  EXPECT_EQ(io.status, Status(Code::timed_out));
  // Sixteen parts were on their way, and happened.
  EXPECT_EQ(io.transferred, 16u * 65536);
  EXPECT_EQ(length_of(*file), 16u * 65536);
}

TEST(ClientTest, gives_up_a_write_that_waits_for_a_cut_when_its_deadline_passes) {
  Node node(1, 1);
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(200'000, 'x')).has_value());
  Tracked slow(file, IoKind::write, 0, "yyy");
  node.targets[0]->hold = true;
  node.files->client(0).submit(slow);
  Tracked late(file, IoKind::write, 0, "late");
  Tracked patient(file, IoKind::write, 150'000, "patient");
  late.deadline = node.world.now() + milliseconds(10);
  node.world.after(milliseconds(5), "late", [&] {
    node.files->client(0).submit(late);
    node.files->client(0).submit(patient);
  });
  node.world.after(milliseconds(30), "release", [&] {
    EXPECT_EQ(late.completions, 1);
    EXPECT_EQ(patient.completions, 0);
    node.targets[0]->release();
  });
  EXPECT_TRUE(node.truncate(inode_of(*file), 100'000).ok());
  EXPECT_EQ(slow.completions, 1);
  EXPECT_EQ(late.status, Status(Code::timed_out));
  node.world.run_for(milliseconds(10));
  EXPECT_EQ(patient.completions, 1);
  EXPECT_TRUE(patient.status.ok());
  EXPECT_EQ(length_of(*file), 150'007u);
  EXPECT_EQ(node.read(file, 0, 4), "yyyx");
  EXPECT_EQ(node.read(file, 100'000, 50'000), std::string(50'000, '\0'));
}

TEST(ClientTest, reads_again_when_the_file_was_cut_meanwhile) {
  Node node(1, 1);
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(1000, 'x')).has_value());
  Tracked io(file, IoKind::read, 0, std::string(1000, '?'));
  node.targets[0]->hold = true;
  node.files->client(0).submit(io);
  node.world.run_for(milliseconds(1));
  ASSERT_EQ(node.targets[0]->held.size(), 1u);
  auto held = std::exchange(node.targets[0]->held, {});
  node.targets[0]->hold = false;
  EXPECT_TRUE(node.truncate(inode_of(*file), 10).ok());
  EXPECT_TRUE(node.write(file, 20, "new").has_value());
  for (auto& complete : held) complete();
  node.world.run_for(milliseconds(1));
  EXPECT_EQ(io.transferred, 23u);
  EXPECT_EQ(io.buffer.substr(0, 23), std::string(10, 'x') + std::string(10, '\0') + "new");
}

TEST(ClientTest, tells_the_checksums_of_blocks_in_many_chunks) {
  Node node;
  const FileRef file = node.open("/a");
  std::string bytes(300'000, ' ');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(mix64(i));
  EXPECT_EQ(*node.write(file, 0, bytes), bytes.size());
  Tracked io(file, IoKind::read, 8192, std::string(290'000, '?'));
  std::vector<uint32_t> checksums(wire::checksum_bytes(290'000) / sizeof(uint32_t));
  io.checksums = {reinterpret_cast<std::byte*>(checksums.data()), checksums.size() * 4};
  node.files->client(0).submit(io);
  node.world.run_for(milliseconds(10));
  EXPECT_EQ(io.transferred, 290'000U);
  for (size_t block = 0; block + 1 < checksums.size(); ++block) {
    const std::string read = io.buffer.substr(block * 4096, 4096);
    EXPECT_EQ(checksums[block], crc32c(std::as_bytes(std::span(read)))) << block;
  }
  io.checksums.length -= 4;
  node.files->client(0).submit(io);
  node.world.run_for(milliseconds(10));
  EXPECT_EQ(io.status, Code::invalid_argument);
}

TEST(ClientTest, reports_the_worst_route) {
  Node node(1, 1);
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 65536, "x").has_value());
  Tracked hole(file, IoKind::read, 0, std::string(100, '?'));
  Tracked both(file, IoKind::read, 0, std::string(65537, '?'));
  node.files->client(0).submit(hole);
  node.files->client(0).submit(both);
  node.world.run_for(milliseconds(1));
  EXPECT_EQ(hole.route, engine::Route::hole);
  EXPECT_EQ(both.route, engine::Route::disk_direct);
  EXPECT_EQ(both.transferred, 65537u);
}

TEST(ClientTest, refuses_what_the_target_of_another_node_answers_in_a_wrong_form) {
  struct Liar final : engine::Service {
    void on_call(engine::IncomingCall& call) override {
      const std::byte nonsense[8] = {std::byte{200}};
      call.reply(Code::ok, nonsense);
    }
  } liar;
  Node node(1, 1);
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, "x").has_value());
  node.nets[0]->withdraw({NodeId{1}, 0});
  node.nets[0]->serve({NodeId{1}, 0}, liar);
  std::string buffer(1, '?');
  EXPECT_EQ(node.files->read(file, 0, Node::memory_of(buffer)).error(), Status(Code::bad_message));
  node.nets[0]->withdraw({NodeId{1}, 0});
  node.nets[0]->serve({NodeId{1}, 0}, *node.services[0]);
}

TEST(PrivilegeTest, set_id_bits_go_with_the_first_write_of_somebody_but_root) {
  Node node;
  const InodeId id = inode_of(*node.open("/a"));
  const auto set_mode = [&](uint32_t mode) {
    meta::SetAttributes changes;
    changes.mode = mode;
    EXPECT_TRUE(node.files->set_attributes(node.root, id, changes, nullptr).has_value());
  };
  const auto mode = [&] { return node.files->attributes(id)->mode; };
  Credentials user;
  user.uid = user.gid = 7;
  set_mode(06777);
  const FileRef roots = node.open("/a", {.write = true});
  const auto users = node.files->open_path(user, "/a", {.write = true}, 0, {}, nullptr);
  ASSERT_TRUE(users.has_value());
  EXPECT_TRUE(node.write(roots, 0, "x").has_value());
  EXPECT_EQ(mode(), 06777u);
  EXPECT_TRUE(node.write(*users, 0, "y", true).has_value());
  EXPECT_EQ(mode(), 0777u);
  set_mode(04777);
  EXPECT_TRUE(node.write(*users, 0, "z").has_value());
  EXPECT_EQ(mode(), 0777u) << "given again, taken again";
  set_mode(02676);
  EXPECT_TRUE(node.files->punch(*users, 0, 1, nullptr, nullptr).ok());
  EXPECT_EQ(mode(), 0676u);
  EXPECT_TRUE(
      node.files
          ->set_xattr(node.root, id, meta::kCapabilityXattr, "v", meta::XattrMode::any, nullptr)
          .ok());
  EXPECT_TRUE(node.write(*users, 0, "z").has_value());
  EXPECT_EQ(node.meta->get_xattr(node.root, id, meta::kCapabilityXattr).error(),
            Status(Code::no_data));
  // The kernel has done it for an application that writes through a mount.
  set_mode(06777);
  user.enforce = false;
  const auto mounted = node.files->open_path(user, "/a", {.write = true}, 0, {}, nullptr);
  EXPECT_TRUE(node.write(*mounted, 0, "x").has_value());
  EXPECT_EQ(mode(), 06777u);
}

TEST(PrivilegeTest, root_leaves_set_id_bits_and_takes_capabilities) {
  Node node;
  const FileRef file = node.open("/a");
  const InodeId id = inode_of(*file);
  meta::SetAttributes changes;
  changes.mode = 06777;
  EXPECT_TRUE(node.files->set_attributes(node.root, id, changes, nullptr).has_value());
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(
        node.files
            ->set_xattr(node.root, id, meta::kCapabilityXattr, "v", meta::XattrMode::any, nullptr)
            .ok());
    EXPECT_TRUE(node.write(file, 0, "x").has_value());
    EXPECT_EQ(node.meta->get_xattr(node.root, id, meta::kCapabilityXattr).error(),
              Status(Code::no_data));
    EXPECT_EQ(node.files->attributes(id)->mode, 06777u);
  }
  EXPECT_EQ(privileges_taken(*file), 2u);
  EXPECT_FALSE(may_lose_privileges(*file, true));
  EXPECT_TRUE(may_lose_privileges(*file, false));
}

TEST(PrivilegeTest, a_new_length_takes_capabilities_and_an_owner_does) {
  Node node;
  const InodeId id = inode_of(*node.open("/a"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(
        node.files
            ->set_xattr(node.root, id, meta::kCapabilityXattr, "v", meta::XattrMode::any, nullptr)
            .ok());
    meta::SetAttributes changes;
    if (i == 0) changes.length = 5;
    if (i == 1) changes.gid = 9;
    EXPECT_TRUE(node.files->set_attributes(node.root, id, changes, nullptr).has_value());
    EXPECT_EQ(node.meta->get_xattr(node.root, id, meta::kCapabilityXattr).error(),
              Status(Code::no_data));
  }
}

// As on a local file system, where both have the inode's lock.
TEST(PrivilegeTest, set_id_bits_are_not_given_while_bytes_change) {
  Node node(1, 1);
  const FileRef roots = node.open("/a");
  Credentials user;
  user.uid = user.gid = 7;
  meta::SetAttributes changes;
  changes.mode = 0777;
  EXPECT_TRUE(node.files->set_attributes(node.root, inode_of(*roots), changes, nullptr));
  const auto file = node.files->open_path(user, "/a", {.write = true}, 0, {}, nullptr);
  ASSERT_TRUE(file.has_value());
  EXPECT_TRUE(node.write(*file, 0, "nothing to lose").has_value());
  Tracked io(*file, IoKind::write, 0, "the bytes of a user");
  node.targets[0]->hold = true;
  node.files->client(0).submit(io);
  node.world.run_for(milliseconds(1));
  ASSERT_EQ(io.completions, 0);
  // The target answers while the bits are being given.
  struct Release : engine::Timer {
    store::FakeTarget* target = nullptr;
  } release;
  release.target = node.targets[0].get();
  release.completion = [](engine::Op& op) {
    store::FakeTarget& target = *static_cast<Release&>(op).target;
    target.hold = false;
    for (auto& complete : std::exchange(target.held, {})) complete();
  };
  node.loops[0]->start(release, node.loops[0]->clock().now() + milliseconds(1));
  changes.mode = 06777;
  EXPECT_TRUE(node.files->set_attributes(node.root, inode_of(*roots), changes, nullptr));
  EXPECT_EQ(io.completions, 1) << "its bytes change while the file has set-id bits";
  EXPECT_EQ(node.files->attributes(inode_of(*roots))->mode, 06777u);
  node.world.run_for(milliseconds(5));
  EXPECT_TRUE(node.write(*file, 0, "later").has_value());
  EXPECT_EQ(node.files->attributes(inode_of(*roots))->mode, 0777u);
}

TEST(PrivilegeTest, a_write_that_cannot_take_them_changes_nothing) {
  Node node;
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, "old").has_value());
  meta::SetAttributes changes;
  changes.mode = 04666;
  EXPECT_TRUE(node.files->set_attributes(node.root, inode_of(*file), changes, nullptr).has_value());
  Credentials user;
  user.uid = user.gid = 7;
  const auto users = node.files->open_path(user, "/a", {.write = true}, 0, {}, nullptr);
  ASSERT_TRUE(users.has_value());
  node.kv_image.faults.conflict_permille = 1000;
  EXPECT_FALSE(node.write(*users, 0, "new").has_value());
  node.kv_image.faults.conflict_permille = 0;
  EXPECT_EQ(node.read(file, 0, 3), "old");
  EXPECT_EQ(node.files->attributes(inode_of(*file))->mode, 04666u);
}

class HoleTest : public testing::Test {
 protected:
  static constexpr uint64_t kChunk = 65'536;
  uint64_t allocated() { return node.files->attributes(id)->allocated; }
  Result<uint64_t> seek(uint64_t offset, bool hole) { return node.files->seek(file, offset, hole); }
  bool recorded_sparse() { return node.meta->attributes(id)->sparse; }

  Node node;
  FileRef file = node.open("/a");
  const InodeId id = inode_of(*file);
};

TEST_F(HoleTest, holes_are_found_and_not_counted) {
  EXPECT_TRUE(node.write(file, 0, "x").has_value());
  EXPECT_TRUE(node.write(file, 3 * kChunk, std::string(5000, 'y')).has_value());
  EXPECT_EQ(allocated(), 3u * 4096);
  EXPECT_EQ(*seek(0, false), 0u);
  EXPECT_EQ(*seek(0, true), 4096u);
  EXPECT_EQ(*seek(100, true), 4096u);
  EXPECT_EQ(*seek(5000, true), 5000u);
  EXPECT_EQ(*seek(4096, false), 3 * kChunk);
  EXPECT_EQ(*seek(3 * kChunk + 10, false), 3 * kChunk + 10);
  EXPECT_EQ(*seek(3 * kChunk, true), 3 * kChunk + 5000);
  EXPECT_EQ(seek(3 * kChunk + 5000, true).error(), Status(Code::no_data));
  EXPECT_TRUE(node.truncate(id, 8 * kChunk).ok());
  EXPECT_EQ(allocated(), 3u * 4096);
  EXPECT_EQ(seek(4 * kChunk, false).error(), Status(Code::no_data));
  EXPECT_EQ(*seek(4 * kChunk, true), 4 * kChunk);
  EXPECT_TRUE(node.files->close_file(std::exchange(file, nullptr)).ok());
  EXPECT_TRUE(recorded_sparse());
  EXPECT_EQ(allocated(), 3u * 4096) << "by a client that did not open it, too";
  EXPECT_TRUE(node.truncate(id, 0).ok());
  EXPECT_FALSE(recorded_sparse());
  EXPECT_EQ(allocated(), 0u);
}

TEST_F(HoleTest, a_file_without_holes_asks_nobody) {
  EXPECT_TRUE(node.write(file, 0, std::string(kChunk + 10, 'x')).has_value());
  EXPECT_TRUE(node.write(file, kChunk + 10, "y").has_value());
  EXPECT_TRUE(node.write(file, kChunk + 100, "z").has_value()) << "the block is there";
  const uint64_t before = node.targets[0]->operations + node.targets[1]->operations;
  EXPECT_EQ(allocated(), kChunk + 4096);
  EXPECT_EQ(*seek(7, false), 7u);
  EXPECT_EQ(*seek(7, true), kChunk + 101);
  EXPECT_EQ(node.targets[0]->operations + node.targets[1]->operations, before);
  EXPECT_TRUE(node.files->close_file(std::exchange(file, nullptr)).ok());
  EXPECT_FALSE(recorded_sparse());
}

TEST_F(HoleTest, writes_that_overtake_each_other_leave_none) {
  EXPECT_TRUE(node.write(file, kChunk, std::string(kChunk, 'x')).has_value());
  EXPECT_TRUE(node.write(file, 0, std::string(kChunk, 'y')).has_value());
  EXPECT_TRUE(node.files->close_file(std::exchange(file, nullptr)).ok());
  EXPECT_FALSE(recorded_sparse());
}

TEST_F(HoleTest, after_a_crash_nobody_knows) {
  EXPECT_TRUE(node.write(file, 0, std::string(kChunk, 'x')).has_value());
  file = nullptr;
  node.crash();
  node.start();
  EXPECT_TRUE(recorded_sparse());
  EXPECT_EQ(allocated(), kChunk);
}

}  // namespace
}  // namespace penstock::client
