// The trash of a file system: when what lies in it goes, with its bytes, and how.
#include "../limits.h"
#include "node.h"
#include "trash_keeper.h"

namespace penstock::client {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

class TrashTest : public testing::Test {
 protected:
  void set(uint32_t days) {
    ASSERT_TRUE(node_->files->set_trash(meta::kRootInode, days, "/").ok());
  }
  void make(const std::string& name, size_t bytes = 1) {
    FileRef file = node_->open("/" + name);
    ASSERT_TRUE(node_->write(file, 0, std::string(bytes, 'x')).has_value());
    ASSERT_TRUE(node_->files->close_file(std::move(file)).ok());
  }
  void remove(const std::string& name) {
    ASSERT_TRUE(node_->files->unlink(node_->root, meta::kRootInode, name, nullptr).ok());
  }
  size_t kept() {
    size_t count = 0;
    const auto top = node_->files->lookup(node_->root, meta::kRootInode, meta::kTrashName);
    if (!top) return 0;
    std::vector<InodeId> all;
    EXPECT_TRUE(node_->meta
                    ->read_directory(top->inode, 0, SIZE_MAX, false,
                                     [&](const meta::DirectoryEntry& entry, const Attributes*) {
                                       all.push_back(entry.inode);
                                       return true;
                                     })
                    .ok());
    for (const InodeId hour : all) {
      (void)node_->meta->read_directory(hour, 0, SIZE_MAX, false,
                                        [&](const meta::DirectoryEntry&, const Attributes*) {
                                          ++count;
                                          return true;
                                        });
    }
    return count;
  }
  void restart() {
    node_->crash();
    node_->start();
  }

  // The simulation's clock begins at an hour's beginning.
  std::unique_ptr<Node> node_ = std::make_unique<Node>();
};

TEST_F(TrashTest, keeps_what_was_removed_until_its_time_is_over) {
  set(1);
  make("a", 200'000);
  remove("a");
  EXPECT_EQ(node_->files->status().removed_waiting, 0u);
  node_->world.run_for(hours(24) + minutes(55));
  EXPECT_EQ(kept(), 1u);
  EXPECT_EQ(node_->chunk_count(), 4u);
  node_->world.run_for(minutes(8));
  EXPECT_EQ(kept(), 0u);
  EXPECT_EQ(node_->chunk_count(), 0u);
  EXPECT_EQ(node_->meta->counts()->inodes, 2u);
}

TEST_F(TrashTest, what_is_open_goes_on_there_and_goes_when_it_is_closed) {
  set(1);
  FileRef file = node_->open("/a");
  const InodeId id = inode_of(*file);
  ASSERT_TRUE(node_->write(file, 0, "one").has_value());
  remove("a");
  EXPECT_EQ(node_->files->attributes(id)->links, 1u);
  ASSERT_TRUE(node_->write(file, 3, "two").has_value());
  EXPECT_EQ(node_->read(file, 0, 10), "onetwo");
  node_->world.run_for(hours(26));
  EXPECT_EQ(kept(), 0u);
  EXPECT_EQ(node_->files->attributes(id)->links, 0u);
  EXPECT_EQ(node_->read(file, 0, 10), "onetwo");
  EXPECT_EQ(node_->chunk_count(), 1u);
  EXPECT_TRUE(node_->files->close_file(std::move(file)).ok());
  EXPECT_TRUE(node_->world.run_until([&] { return node_->chunk_count() == 0; }));
}

TEST_F(TrashTest, many_go_at_a_pace_and_none_is_left_by_one_that_dies) {
  constexpr size_t kFiles = 500;
  set(1);
  for (size_t i = 0; i < kFiles; ++i) {
    make(std::to_string(i));
    remove(std::to_string(i));
  }
  node_->world.run_for(hours(24) + minutes(58));
  EXPECT_EQ(kept(), kFiles);
  while (kept() == kFiles) node_->world.run_for(limits::kTrashPause / 2);
  const engine::Time began = node_->world.now();
  while (kept() > kFiles / 2) node_->world.run_for(limits::kTrashPause / 2);
  EXPECT_GT(kept(), kFiles / 2 - 2 * limits::kTrashBatch);
  EXPECT_GE(node_->world.now() - began, 2 * limits::kTrashPause);
  restart();
  // The clock is more than a day from what was removed last: it is believed after an hour.
  node_->world.run_for(minutes(58));
  EXPECT_GT(kept(), 0u);
  node_->world.run_for(minutes(10));
  EXPECT_EQ(kept(), 0u);
  EXPECT_EQ(node_->chunk_count(), 0u);
  EXPECT_EQ(node_->meta->counts()->inodes, 2u);
}

TEST_F(TrashTest, gives_way_to_a_write_that_finds_no_room) {
  set(7);
  make("a", 3 * 65'536);
  remove("a");
  for (const auto& target : node_->targets) target->room = 3 * 65'536;
  FileRef file = node_->open("/b");
  EXPECT_TRUE(node_->write(file, 0, std::string(4 * 65'536, 'y')).has_value());
  EXPECT_EQ(kept(), 0u);
  // There is no more.
  EXPECT_EQ(node_->write(file, 4 * 65'536, std::string(4 * 65'536, 'y')).error(), Code::no_space);
}

TEST_F(TrashTest, gives_way_before_the_disk_is_full) {
  set(7);
  for (int i = 0; i < 10; ++i) {
    make(std::to_string(i), 65'536);
    remove(std::to_string(i));
    node_->world.run_for(hours(1));
  }
  uint64_t total = 100;
  node_->space = [&] {
    return engine::DiskSpace{.total_bytes = total * 65'536,
                             .free_bytes = (total - node_->chunk_count()) * 65'536};
  };
  restart();
  node_->world.run_for(minutes(5));
  EXPECT_EQ(kept(), 10u);
  // The oldest, as many as it takes.
  total = 10;
  node_->world.run_for(minutes(5));
  EXPECT_EQ(kept(), 9u);
}

TEST_F(TrashTest, of_nobody_costs_nothing) {
  make("a");
  remove("a");
  node_->world.run_for(minutes(5));
  EXPECT_EQ(node_->chunk_count(), 0u);
  EXPECT_EQ(kept(), 0u);
}

class JumpingClock final : public engine::Clock {
 public:
  engine::Time now() const override { return engine::Time(time); }
  engine::WallTime wall() const override { return {(time + jumped).count()}; }
  engine::Duration time{hours(500'000)};
  engine::Duration jumped{};
};

TEST(TrashClockTest, is_not_believed_for_an_hour_after_a_jump) {
  JumpingClock clock;
  TrashClock believed(clock);
  EXPECT_TRUE(believed.is_believed({}));
  for (const engine::Duration jump :
       {engine::Duration(hours(700'000)), -engine::Duration(hours(1))}) {
    clock.time += minutes(1);
    EXPECT_TRUE(believed.is_believed({}));
    clock.jumped += minutes(9);
    EXPECT_TRUE(believed.is_believed({}));
    clock.jumped += jump;
    clock.time += minutes(1);
    EXPECT_FALSE(believed.is_believed({}));
    clock.time += minutes(59);
    EXPECT_FALSE(believed.is_believed({}));
    clock.time += minutes(2);
    EXPECT_TRUE(believed.is_believed({}));
  }
}

TEST(TrashClockTest, is_not_believed_at_a_start_far_from_what_was_removed_last) {
  JumpingClock clock;
  const engine::WallTime now = clock.wall();
  for (const auto away : {hours(-25), hours(25)}) {
    TrashClock far(clock);
    EXPECT_FALSE(
        far.is_believed(engine::WallTime{now.nanoseconds + engine::Duration(away).count()}));
    clock.time += hours(1);
    EXPECT_TRUE(far.is_believed({}));
    clock.time -= hours(1);
  }
  TrashClock near(clock);
  EXPECT_TRUE(
      near.is_believed(engine::WallTime{now.nanoseconds - engine::Duration(hours(23)).count()}));
}

}  // namespace
}  // namespace penstock::client
