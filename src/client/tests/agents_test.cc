// One file system seen by several agents.
#include "agents.h"

#include "penstock/shards.h"

namespace penstock::client {
namespace {

constexpr OpenFlags kReading{};

TEST(AgentsTest, each_reads_what_another_has_written) {
  Agents agents(1, 2);
  const FileRef writer = agents.open(0, "/a");
  const FileRef reader = agents.open(1, "/a", kReading);
  EXPECT_TRUE(agents.write(0, writer, 0, "first").ok());
  EXPECT_EQ(agents.read(1, reader, 0, 100), "first");
  EXPECT_TRUE(agents.write(0, writer, 5, " and more").ok());
  EXPECT_EQ(agents.read(1, reader, 0, 100), "first and more");
  EXPECT_TRUE(agents.write(0, writer, 0, "FIRST").ok());
  EXPECT_EQ(agents.read(1, reader, 0, 5), "FIRST");
}

TEST(AgentsTest, what_is_still_in_memory_is_seen_by_the_others) {
  Agents agents(1, 2);
  const FileRef writer = agents.open(0, "/a");
  EXPECT_TRUE(agents.write_soon(0, writer, 0, "behind").ok());
  EXPECT_EQ(agents.stat(1, "/a").length, 6u);
  const FileRef reader = agents.open(1, "/a", kReading);
  EXPECT_TRUE(agents.write_soon(0, writer, 6, "!").ok());
  EXPECT_EQ(agents.read(1, reader, 0, 100), "behind!");
}

TEST(AgentsTest, both_write_and_both_cut_one_file) {
  Agents agents(1, 2);
  const FileRef a = agents.open(0, "/a");
  const FileRef b = agents.open(1, "/a");
  EXPECT_TRUE(agents.write(0, a, 0, std::string(100'000, 'a')).ok());
  EXPECT_TRUE(agents.write(1, b, 100'000, std::string(100'000, 'b')).ok());
  EXPECT_EQ(agents.stat(0, "/a").length, 200'000u);
  meta::SetAttributes cut;
  cut.length = 99'999;
  EXPECT_TRUE(agents.files(0).set_attributes(agents.root, inode_of(*a), cut, nullptr).has_value());
  EXPECT_EQ(agents.read(1, b, 99'998, 10), "a");
  EXPECT_TRUE(agents.write(1, b, 100'001, "c").ok());
  EXPECT_EQ(agents.read(0, a, 99'998, 10), std::string("a\0\0c", 4));
  EXPECT_EQ(agents.stat(0, "/a").length, 100'002u);
}

TEST(AgentsTest, appends_of_two_stand_behind_each_other) {
  Agents agents(1, 2);
  const FileRef a = agents.open(0, "/log");
  const FileRef b = agents.open(1, "/log");
  std::string expected;
  for (int i = 0; i < 40; ++i) {
    const size_t agent = static_cast<size_t>(i % 3 == 0);
    std::string record = "record " + std::to_string(i) + "\n";
    const auto appended = agents.files(agent).append(
        agent == 0 ? a : b, {reinterpret_cast<std::byte*>(record.data()), record.size()},
        i % 2 == 0, nullptr, nullptr);
    ASSERT_TRUE(appended.has_value());
    EXPECT_EQ(appended->offset, expected.size());
    expected += record;
  }
  EXPECT_EQ(agents.read(0, a, 0, 10'000), expected);
  EXPECT_EQ(agents.read(1, b, 0, 10'000), expected);
}

TEST(AgentsTest, a_removed_file_stays_while_another_has_it_open) {
  Agents agents(1, 2);
  FileRef file = agents.open(1, "/a");
  EXPECT_TRUE(agents.write(1, file, 0, "still here").ok());
  EXPECT_TRUE(agents.files(0).unlink(agents.root, meta::kRootInode, "a", nullptr).ok());
  for (size_t agent : {0u, 1u}) EXPECT_TRUE(agents.files(agent).collect(10).has_value());
  EXPECT_EQ(agents.read(1, file, 0, 100), "still here");
  EXPECT_TRUE(agents.write(1, file, 0, "STILL").ok());
  EXPECT_EQ(agents.read(1, file, 0, 100), "STILL here");
  EXPECT_TRUE(agents.files(1).close_file(std::move(file)).ok());
  const Result<uint64_t> collected = agents.files(0).collect(10);
  ASSERT_TRUE(collected.has_value());
  EXPECT_EQ(*collected, 1u);
  EXPECT_EQ(agents.chunk_count(), 0u);
}

// Who changes an attribute or a name of a file that it has open, and has not read since another
// wrote to it, knows an old length, and does not record that.
TEST(AgentsTest, a_changed_attribute_or_name_leaves_the_length_of_another_writer) {
  Agents agents(1, 2);
  FileRef a = agents.open(0, "/a");
  FileRef b = agents.open(1, "/a");
  const InodeId id = inode_of(*a);
  EXPECT_TRUE(agents.write(1, b, 0, "0123456789").ok());
  FileSystem& other = agents.files(0);
  EXPECT_TRUE(
      other.set_xattr(agents.root, id, "user.a", "value", meta::XattrMode::any, nullptr).ok());
  EXPECT_EQ(agents.stat(1, "/a").length, 10u);
  EXPECT_TRUE(agents.write(1, b, 10, "more").ok());
  EXPECT_TRUE(other.remove_xattr(agents.root, id, "user.a", nullptr).ok());
  EXPECT_EQ(agents.stat(1, "/a").length, 14u);
  EXPECT_TRUE(agents.write(1, b, 14, "!").ok());
  EXPECT_TRUE(other.link(agents.root, id, meta::kRootInode, "b", nullptr).has_value());
  EXPECT_TRUE(agents.write(1, b, 15, "!").ok());
  // Nor when it closes it.
  EXPECT_TRUE(other.set_xattr(agents.root, id, "user.b", "", meta::XattrMode::any, nullptr).ok());
  EXPECT_TRUE(other.close_file(std::move(a)).ok());
  EXPECT_EQ(agents.stat(1, "/b").length, 16u);
  EXPECT_EQ(agents.read(1, b, 0, 100), "0123456789more!!");
}

TEST(AgentsTest, a_program_on_one_loses_privileges_to_a_writer_on_another) {
  Agents agents(1, 2);
  Credentials user;
  user.uid = user.gid = 7;
  meta::SetAttributes open_to_all;
  open_to_all.mode = 0777;
  FileRef made = agents.open(0, "/program");
  const InodeId id = inode_of(*made);
  EXPECT_TRUE(agents.files(0).set_attributes(agents.root, id, open_to_all, nullptr).has_value());
  const auto opened = agents.files(1).open_path(user, "/program", {.write = true}, 0, {}, nullptr);
  ASSERT_TRUE(opened.has_value());
  EXPECT_TRUE(agents.write(1, *opened, 0, "code").ok());
  meta::SetAttributes set_id;
  set_id.mode = 04777;
  EXPECT_TRUE(agents.files(0).set_attributes(agents.root, id, set_id, nullptr).has_value());
  EXPECT_EQ(agents.stat(1, "/program").mode & 07777, 04777u);
  EXPECT_TRUE(agents.write(1, *opened, 0, "evil").ok());
  EXPECT_EQ(agents.stat(0, "/program").mode & 07777, 0777u);
}

// Told of changes by others.
class Copies final : public Observer {
 public:
  void data_changed(InodeId, uint64_t, uint64_t, std::function<void()> done) override {
    ++told;
    done();
  }
  void entry_changed(InodeId, std::string_view) override {}
  bool hears_beginnings() const override { return true; }
  void data_changing(InodeId, ByteRange) override { ++begun; }
  int told = 0;
  int begun = 0;
};

TEST(AgentsTest, copies_of_one_go_before_another_changes_the_file) {
  Agents agents(1, 2);
  FileRef a = agents.open(0, "/a");
  const InodeId id = inode_of(*a);
  EXPECT_TRUE(agents.write(0, a, 0, "old").ok());
  Copies copies;
  agents.files(1).add_observer(copies);
  agents.files(1).watch(id, copies);
  {
    const FileRef b = agents.open(1, "/a", kReading);
    EXPECT_EQ(agents.read(1, b, 0, 10), "old");
  }
  const int before = copies.told;
  EXPECT_TRUE(agents.write(0, a, 0, "new").ok());
  // Also where nobody has it open any more.
  EXPECT_GT(copies.told, before);
  EXPECT_GT(copies.begun, 0);
  agents.files(1).remove_observer(copies);
}

TEST(AgentsTest, who_loses_its_lease_goes_on_with_what_others_have_made_of_the_file) {
  Agents agents(1, 2);
  const FileRef a = agents.open(0, "/a");
  const FileRef b = agents.open(1, "/a");
  EXPECT_TRUE(agents.write(0, a, 0, "before").ok());
  agents.holds().lose(0);
  EXPECT_TRUE(agents.write(1, b, 0, "BEFORE and after").ok());
  EXPECT_EQ(agents.read(0, a, 0, 100), "BEFORE and after");
  EXPECT_TRUE(agents.write(0, a, 16, "!").ok());
  EXPECT_EQ(agents.read(1, b, 0, 100), "BEFORE and after!");
}

TEST(AgentsTest, a_removed_file_is_gone_for_who_has_lost_its_lease) {
  Agents agents(1, 2);
  const FileRef file = agents.open(1, "/a");
  EXPECT_TRUE(agents.write(1, file, 0, "bytes").ok());
  EXPECT_TRUE(agents.files(0).unlink(agents.root, meta::kRootInode, "a", nullptr).ok());
  agents.holds().lose(1);
  std::string bytes(5, '?');
  const engine::MemoryRef memory{reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
  EXPECT_EQ(agents.files(1).read(file, 0, memory).error(), Status(Code::stale));
}

TEST(AgentsTest, a_file_that_was_read_again_after_a_lease_was_lost_stays_when_it_is_removed) {
  Agents agents(1, 2);
  const FileRef file = agents.open(1, "/a");
  EXPECT_TRUE(agents.write(1, file, 0, "bytes").ok());
  EXPECT_TRUE(agents.files(1).sync_file(file, false).ok());
  agents.holds().lose(1);
  EXPECT_EQ(agents.read(1, file, 0, 10), "bytes");
  // So that it is read from meta once more.
  agents.open(0, "/a");
  EXPECT_TRUE(agents.files(0).unlink(agents.root, meta::kRootInode, "a", nullptr).ok());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(agents.files(0).collect(10).has_value());
  EXPECT_EQ(agents.read(1, file, 0, 10), "bytes");
}

// Takes recalls, and says nothing until it is let.
class Silent final : public holds::Keeping {
 public:
  explicit Silent(holds::Keeping& to) : to_(to) {}
  void drop(InodeId inode, holds::Hold leave, std::function<void()> done) override {
    if (speaks) return to_.drop(inode, leave, std::move(done));
    ++silent;
    later_.push_back(
        [this, inode, leave, done = std::move(done)] { to_.drop(inode, leave, done); });
  }
  void settle(InodeId inode, std::function<void()> done) override {
    to_.settle(inode, std::move(done));
  }
  void drop_names(InodeId inode, std::vector<std::string> names,
                  std::function<void()> done) override {
    to_.drop_names(inode, std::move(names), std::move(done));
  }
  void drop_all(bool is_lost, std::function<void()> done) override {
    to_.drop_all(is_lost, std::move(done));
  }
  void speak() {
    speaks = true;
    for (const auto& one : std::exchange(later_, {})) one();
  }
  bool speaks = false;
  int silent = 0;

 private:
  holds::Keeping& to_;
  std::vector<std::function<void()>> later_;
};

TEST(AgentsTest, reads_and_writes_end_as_opens_do_when_another_gives_nothing_back) {
  Agents agents(1, 2);
  const FileRef a = agents.open(0, "/a");
  const FileRef b = agents.open(1, "/a");
  EXPECT_TRUE(agents.write(0, a, 0, "kept").ok());
  Silent silent(agents.files(0).keeping());
  agents.holds().tell(0, &silent);
  std::string bytes(4, '?');
  const engine::MemoryRef memory{reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
  const auto expect_late = [&](const std::function<Status()>& call) {
    const engine::Time begun = agents.world.now();
    EXPECT_EQ(call(), Code::timed_out);
    const engine::Duration waited = agents.world.now() - begun;
    EXPECT_GE(waited, shards::limits::kHoldWait);
    EXPECT_LT(waited, shards::limits::kHoldWait + std::chrono::seconds(2));
  };
  FileSystem& files = agents.files(1);
  expect_late([&] { return files.read(b, 0, memory).error(); });
  expect_late([&] { return agents.write(1, b, 0, "late"); });
  expect_late([&] { return agents.write_soon(1, b, 0, "late"); });
  expect_late([&] { return files.append(b, memory, false, nullptr, nullptr).error(); });
  expect_late([&] { return files.sync_file(b, false); });
  EXPECT_GT(silent.silent, 0);
  silent.speak();
  EXPECT_EQ(agents.read(1, b, 0, 10), "kept");
  EXPECT_TRUE(agents.write(1, b, 0, "LATE").ok());
  EXPECT_EQ(agents.read(0, a, 0, 10), "LATE");
  agents.holds().tell(0, &agents.files(0).keeping());
}

TEST(AgentsTest, an_operation_that_is_told_to_end_waits_for_no_hold) {
  Agents agents(1, 2);
  const FileRef a = agents.open(0, "/a");
  const FileRef b = agents.open(1, "/a");
  EXPECT_TRUE(agents.write(0, a, 0, "kept").ok());
  Silent silent(agents.files(0).keeping());
  agents.holds().tell(0, &silent);
  std::string bytes(4, '?');
  Client& client = agents.files(1).client(0);
  IoOp io;
  io.file = b;
  io.kind = IoKind::read;
  io.memory = {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()};
  io.deadline = agents.world.now() + std::chrono::seconds(10);
  bool ended = false;
  io.owner = &ended;
  io.completion = [](engine::Op& op) { op.owner_as<bool>() = true; };
  client.submit(io);
  EXPECT_TRUE(agents.world.run_until([&] { return ended; }, std::chrono::seconds(11)));
  EXPECT_EQ(io.status, Code::timed_out);
  ended = false;
  io.deadline = engine::kNever;
  client.submit(io);
  agents.world.run_for(std::chrono::seconds(1));
  EXPECT_FALSE(ended);
  client.cancel(io);
  EXPECT_TRUE(agents.world.run_until([&] { return ended; }, std::chrono::seconds(1)));
  EXPECT_EQ(io.status, Code::cancelled);
  // Its time is over with it.
  agents.world.run_for(2 * shards::limits::kHoldWait);
  silent.speak();
  EXPECT_EQ(agents.read(1, b, 0, 10), "kept");
  agents.holds().tell(0, &agents.files(0).keeping());
}

TEST(AgentsTest, nobody_pays_for_a_file_that_is_its_own) {
  Agents agents(1, 2);
  const FileRef file = agents.open(0, "/a");
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(agents.write(0, file, i, "x").ok());
  EXPECT_EQ(agents.holds().recalls(), 0u);
}

}  // namespace
}  // namespace penstock::client
