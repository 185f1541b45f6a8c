#include "node.h"

namespace penstock::client {
namespace {

using std::chrono::milliseconds;

struct ChangeRecorder final : Observer {
  struct Change {
    InodeId inode;
    uint64_t offset = 0;
    uint64_t length = 0;
  };
  std::vector<Change> changes;
  std::vector<std::string> entries;
  std::vector<std::function<void()>> waiting;
  bool slow = false;

  void data_changed(InodeId inode, uint64_t offset, uint64_t length,
                    std::function<void()> done) override {
    changes.push_back({inode, offset, length});
    if (slow) {
      waiting.push_back(std::move(done));
    } else {
      done();
    }
  }
  void entry_changed(InodeId, std::string_view name) override {
    entries.emplace_back(name);
    if (on_entry) on_entry(name);
  }
  std::function<void(std::string_view name)> on_entry;
};

class ObserverTest : public testing::Test {
 protected:
  ObserverTest() { node.files->add_observer(mount); }
  ~ObserverTest() override { node.files->remove_observer(mount); }
  Node node;
  ChangeRecorder mount;
};

TEST_F(ObserverTest, hears_of_writes_only_to_what_it_watches) {
  const FileRef watched = node.open("/a");
  const FileRef other = node.open("/b");
  node.files->watch(inode_of(*watched), mount);
  EXPECT_TRUE(node.write(watched, 7, "12345").has_value());
  EXPECT_TRUE(node.write(other, 7, "12345").has_value());
  ASSERT_EQ(mount.changes.size(), 1u);
  EXPECT_EQ(mount.changes[0].inode, inode_of(*watched));
  EXPECT_EQ(mount.changes[0].offset, 7u);
  EXPECT_EQ(mount.changes[0].length, 5u);
  node.files->unwatch(inode_of(*watched), mount);
  EXPECT_TRUE(node.write(watched, 7, "12345").has_value());
  EXPECT_EQ(mount.changes.size(), 1u);
}

TEST_F(ObserverTest, hears_nothing_of_its_own_changes) {
  const FileRef file =
      *node.files->open_name(node.root, meta::kRootInode, "a", {.write = true, .create = true},
                             0644, {}, true, nullptr, &mount);
  node.files->watch(meta::kRootInode, mount);
  EXPECT_TRUE(node.write(file, 0, "12345", false, &mount).has_value());
  EXPECT_TRUE(mount.changes.empty());
  EXPECT_TRUE(node.write(file, 0, "12345").has_value()) << "opening with self watches";
  EXPECT_EQ(mount.changes.size(), 1u);
  EXPECT_TRUE(node.files->unlink(node.root, meta::kRootInode, "a", &mount).ok());
  EXPECT_TRUE(mount.entries.empty());
}

TEST_F(ObserverTest, what_it_gives_a_file_at_once_is_not_covered_by_what_its_maker_knew) {
  node.files->watch(meta::kRootInode, mount);
  mount.on_entry = [&](std::string_view name) {
    const auto made = node.files->lookup(node.root, meta::kRootInode, name);
    ASSERT_TRUE(made.has_value());
    EXPECT_TRUE(node.files
                    ->set_xattr(node.root, made->inode, meta::kCapabilityXattr, "v",
                                meta::XattrMode::any, nullptr)
                    .ok());
  };
  const FileRef file = node.open("/a");
  ASSERT_EQ(mount.entries.size(), 1u);
  EXPECT_TRUE(node.write(file, 0, "x").has_value());
  EXPECT_EQ(node.meta->get_xattr(node.root, inode_of(*file), meta::kCapabilityXattr).error(),
            Status(Code::no_data));
}

TEST_F(ObserverTest, is_told_of_a_file_that_was_closed_in_between) {
  FileRef file = node.open("/a");
  const InodeId id = inode_of(*file);
  node.files->watch(id, mount);
  EXPECT_TRUE(node.files->close_file(std::move(file)).ok());
  EXPECT_TRUE(node.write(node.open("/a"), 0, "x").has_value());
  EXPECT_EQ(mount.changes.size(), 1u);
}

TEST_F(ObserverTest, holds_the_completion_of_a_write_until_it_lets_it_through) {
  const FileRef file = node.open("/a");
  node.files->watch(inode_of(*file), mount);
  mount.slow = true;
  std::string bytes = "12345";
  struct Held : IoOp {
    bool done = false;
  } io;
  io.file = file;
  io.kind = IoKind::write;
  io.memory = Node::memory_of(bytes);
  io.completion = [](engine::Op& op) { static_cast<Held&>(op).done = true; };
  node.files->client(0).submit(io);
  node.world.run_for(milliseconds(5));
  EXPECT_FALSE(io.done);
  ASSERT_EQ(mount.waiting.size(), 1u);
  mount.waiting[0]();
  node.world.run_for(milliseconds(5));
  EXPECT_TRUE(io.done);
  EXPECT_TRUE(io.status.ok());
}

TEST_F(ObserverTest, does_not_hold_up_a_write_beyond_its_deadline) {
  const FileRef file = node.open("/a");
  node.files->watch(inode_of(*file), mount);
  mount.slow = true;
  std::string bytes = "12345";
  IoOp io;
  bool done = false;
  io.owner = &done;
  io.file = file;
  io.kind = IoKind::write;
  io.memory = Node::memory_of(bytes);
  io.deadline = node.world.now() + milliseconds(5);
  io.completion = [](engine::Op& op) { op.owner_as<bool>() = true; };
  node.files->client(0).submit(io);
  node.world.run_for(milliseconds(10));
  EXPECT_TRUE(done);
  EXPECT_EQ(io.status, Status(Code::timed_out));
  EXPECT_EQ(io.transferred, 5u);
  mount.waiting[0]();
  node.world.run_for(milliseconds(5));
}

TEST_F(ObserverTest, hears_of_all_that_was_sent_when_a_write_fails_in_parts) {
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, std::string(2 * 65536, 'x')).has_value());
  node.files->watch(inode_of(*file), mount);
  const bool first_is_on_0 = node.targets[0]->chunks.contains({inode_of(*file), 0});
  node.targets[first_is_on_0 ? 0 : 1]->fault = [] { return Status(Code::no_space); };
  EXPECT_FALSE(node.write(file, 0, std::string(2 * 65536, 'y')).has_value());
  EXPECT_EQ(node.read(file, 65536, 1), "y") << "the second chunk is on the other target";
  ASSERT_EQ(mount.changes.size(), 2u) << "the other is the time of access";
  EXPECT_EQ(mount.changes[1].length, 0u);
  EXPECT_EQ(mount.changes[0].offset, 0u);
  EXPECT_EQ(mount.changes[0].length, 2u * 65536);
}

// A write whose bytes have moved, and whose length is being recorded when it is cancelled.
TEST_F(ObserverTest, hears_of_a_write_that_ended_early_while_its_length_settled) {
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, "12345").has_value());
  node.files->watch(inode_of(*file), mount);
  std::string bytes = "abcdefghij";
  IoOp io;
  bool done = false;
  io.owner = &done;
  io.file = file;
  io.kind = IoKind::write;
  io.durable = true;
  io.memory = Node::memory_of(bytes);
  io.completion = [](engine::Op& op) { op.owner_as<bool>() = true; };
  node.files->client(0).submit(io);
  ASSERT_TRUE(node.world.run_until([&] { return length_of(*file) == bytes.size(); }));
  ASSERT_FALSE(done);
  node.files->client(0).cancel(io);
  node.world.run_for(milliseconds(20));
  EXPECT_TRUE(done);
  EXPECT_EQ(io.status, Status(Code::cancelled));
  ASSERT_EQ(mount.changes.size(), 1u);
  EXPECT_EQ(mount.changes[0].length, bytes.size());
}

TEST_F(ObserverTest, hears_of_a_write_whose_length_could_not_be_recorded) {
  const FileRef file = node.open("/a");
  EXPECT_TRUE(node.write(file, 0, "12345").has_value());
  node.files->watch(inode_of(*file), mount);
  node.kv_image.faults.read_error_permille = 1000;
  EXPECT_FALSE(node.write(file, 0, "abcdefghij", true).has_value());
  node.kv_image.faults.read_error_permille = 0;
  ASSERT_EQ(mount.changes.size(), 1u);
  EXPECT_EQ(mount.changes[0].length, 10u);
}

TEST_F(ObserverTest, hears_of_cuts_attributes_and_names) {
  const FileRef file = node.open("/a");
  const InodeId id = inode_of(*file);
  EXPECT_TRUE(node.write(file, 0, std::string(1000, 'x')).has_value());
  node.files->watch(id, mount);
  node.files->watch(meta::kRootInode, mount);
  EXPECT_TRUE(node.truncate(id, 100).ok());
  ASSERT_EQ(mount.changes.size(), 1u);
  EXPECT_EQ(mount.changes[0].offset, 100u);
  EXPECT_GE(mount.changes[0].length, 900u);
  meta::SetAttributes changes;
  changes.mode = 0600;
  EXPECT_TRUE(node.files->set_attributes(node.root, id, changes, nullptr).has_value());
  ASSERT_EQ(mount.changes.size(), 2u);
  EXPECT_EQ(mount.changes[1].length, 0u);
  EXPECT_TRUE(
      node.files->rename(node.root, meta::kRootInode, "a", meta::kRootInode, "b", {}, nullptr)
          .ok());
  EXPECT_EQ(mount.entries, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(node.files->punch(file, 0, 10, nullptr, nullptr).ok());
  EXPECT_EQ(mount.changes.size(), 3u);
}

TEST_F(ObserverTest, hears_nothing_once_removed) {
  const FileRef file = node.open("/a");
  node.files->watch(inode_of(*file), mount);
  node.files->remove_observer(mount);
  EXPECT_TRUE(node.write(file, 0, "x").has_value());
  EXPECT_TRUE(mount.changes.empty());
}

// As the node cache is: its readers do not ask the file system.
struct BeginningRecorder final : Observer {
  std::vector<std::pair<InodeId, ByteRange>> beginnings;
  bool hears_beginnings() const override { return true; }
  void data_changing(InodeId inode, ByteRange range) override {
    beginnings.emplace_back(inode, range);
  }
  void data_changed(InodeId, uint64_t, uint64_t, std::function<void()> done) override { done(); }
  void entry_changed(InodeId, std::string_view) override {}
};

class BeginningTest : public ObserverTest {
 protected:
  BeginningTest() {
    node.files->add_observer(cache);
    EXPECT_TRUE(node.write(file, 0, std::string(1000, 'x')).has_value());
    for (const auto& target : node.targets) target->hold = true;
  }
  ~BeginningTest() override { node.files->remove_observer(cache); }

  // A write of ten bytes whose target has not begun with it, and ends it when asked to.
  void begin_write() {
    io.owner = &done;
    io.file = file;
    io.kind = IoKind::write;
    io.offset = 7;
    io.memory = Node::memory_of(bytes);
    io.completion = [](engine::Op& op) { op.owner_as<bool>() = true; };
    node.files->client(0).submit(io);
    node.world.run_for(milliseconds(5));
    ASSERT_FALSE(done);
  }
  void end_write() {
    for (const auto& target : node.targets) target->release();
    node.world.run_for(milliseconds(5));
    ASSERT_TRUE(done);
  }
  void expect_under_way(std::vector<std::pair<uint64_t, uint64_t>> expected) {
    std::vector<std::pair<uint64_t, uint64_t>> found;
    for (const ByteRange& range : node.files->changes_under_way(*file)) {
      found.emplace_back(range.offset, range.length);
    }
    EXPECT_EQ(found, expected);
  }

  BeginningRecorder cache;
  const FileRef file = node.open("/a");
  std::string bytes{"abcdefghij"};
  IoOp io;
  bool done = false;
};

TEST_F(BeginningTest, of_a_write_is_told_before_its_target_has_it) {
  node.files->watch(inode_of(*file), cache);
  begin_write();
  ASSERT_EQ(cache.beginnings.size(), 1u);
  EXPECT_EQ(cache.beginnings[0].first, inode_of(*file));
  EXPECT_EQ(cache.beginnings[0].second.offset, 7u);
  EXPECT_EQ(cache.beginnings[0].second.length, 10u);
  expect_under_way({{7, 10}});
  end_write();
  expect_under_way({});
  EXPECT_EQ(cache.beginnings.size(), 1u);
}

TEST_F(BeginningTest, of_a_write_that_came_before_the_watcher_is_found_by_looking) {
  begin_write();
  node.files->watch(inode_of(*file), cache);
  EXPECT_TRUE(cache.beginnings.empty());
  expect_under_way({{0, UINT64_MAX}});
  end_write();
  expect_under_way({});
}

TEST_F(BeginningTest, is_not_told_to_mounts) {
  node.files->watch(inode_of(*file), mount);
  begin_write();
  expect_under_way({{0, UINT64_MAX}});
  end_write();
  EXPECT_EQ(mount.changes.size(), 1u);
  expect_under_way({});
}

TEST_F(BeginningTest, of_a_write_that_fails_has_an_end) {
  node.files->watch(inode_of(*file), cache);
  for (const auto& target : node.targets) {
    target->fault = [] { return Status(Code::corrupt); };
  }
  begin_write();
  end_write();
  EXPECT_FALSE(io.status.ok());
  expect_under_way({});
}

TEST_F(BeginningTest, of_cuts_and_holes_is_told) {
  for (const auto& target : node.targets) target->hold = false;
  node.files->watch(inode_of(*file), cache);
  EXPECT_TRUE(node.files->punch(file, 10, 20, nullptr, nullptr).ok());
  EXPECT_TRUE(node.truncate(inode_of(*file), 100).ok());
  EXPECT_TRUE(node.truncate(inode_of(*file), 200).ok());
  ASSERT_EQ(cache.beginnings.size(), 3u);
  EXPECT_EQ(cache.beginnings[0].second.offset, 10u);
  EXPECT_EQ(cache.beginnings[0].second.length, 20u);
  EXPECT_EQ(cache.beginnings[1].second.offset, 100u);
  EXPECT_GE(cache.beginnings[1].second.length, 900u);
  EXPECT_EQ(cache.beginnings[2].second.offset, 100u);
  expect_under_way({});
}

}  // namespace
}  // namespace penstock::client
