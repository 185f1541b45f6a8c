// The trash over whole processes that keep names: what one of them removes, gives back or removes
// for good all others see at once, and nothing is lost whatever dies.
#include "processes.h"

#include <gtest/gtest.h>

namespace penstock::client {
namespace {

constexpr size_t kTrashWriters = 3;

class TrashStory {
 public:
  TrashStory(uint64_t seed, bool faults, Broken broken = {})
      : all_(seed, 2, broken), faults_(faults) {}

  void run() {
    all_.start();
    at(names(), [&](FileSystem& files) {
      d_ = files.make_directory(all_.root, meta::kRootInode, "d", 0777, nullptr)->inode;
      ASSERT_TRUE(files.set_trash(meta::kRootInode, 7, "/").ok());
    });
    std::vector<engine::Thread> writers;
    // One alone may empty the hour of all.
    empties_ = all_.world.random().chance(1, 3);
    for (size_t i = 0; i < (empties_ ? 1 : kTrashWriters); ++i) {
      writers.emplace_back("writer", [this, i] { write_all(i); });
    }
    if (faults_) inject();
    for (engine::Thread& writer : writers) writer.join();
    all_.network.heal();
    all_.network.faults.drop_permille = 0;
    check();
    all_.stop();
  }

  uint64_t kept = 0;
  uint64_t restored = 0;
  uint64_t emptied = 0;

 private:
  size_t names() const { return all_.count() - 1; }
  size_t any() { return all_.world.random().below(all_.count()); }

  bool at(size_t process, const std::function<void(FileSystem&)>& act) {
    FileSystem* const files = all_.process(process).enter();
    if (files == nullptr) return false;
    act(*files);
    all_.process(process).leave();
    return true;
  }

  void inject() {
    engine::Random& random = all_.world.random();
    for (int left = 3; left > 0; --left) {
      all_.world.run_for(milliseconds(random.below(4000)));
      Process& process = all_.process(any());
      process.kill();
      all_.world.run_for(milliseconds(random.below(1000)));
      ASSERT_TRUE(process.start().ok());
    }
  }

  struct Place {
    InodeId directory;
    std::string name;
  };
  // Where what a writer removed lies.
  static std::optional<Place> find_kept(FileSystem& files, InodeId inode) {
    std::optional<Place> found;
    const auto top = files.lookup({}, meta::kRootInode, meta::kTrashName);
    if (!top) return found;
    std::vector<InodeId> hours;
    (void)files.meta().read_directory(top->inode, 0, SIZE_MAX, false,
                                      [&](const meta::DirectoryEntry& entry, const Attributes*) {
                                        hours.push_back(entry.inode);
                                        return true;
                                      });
    for (const InodeId hour : hours) {
      (void)files.meta().read_directory(hour, 0, SIZE_MAX, false,
                                        [&](const meta::DirectoryEntry& entry, const Attributes*) {
                                          if (entry.inode == inode) found = {hour, entry.name};
                                          return true;
                                        });
    }
    return found;
  }

  // Another process finds it there, or nothing: it has perhaps asked before.
  void expect_at(const Place& place, InodeId inode) {
    if (faults_) return;
    for (size_t i = 0; i < all_.count(); ++i) {
      at(i, [&](FileSystem& files) {
        const auto found = files.lookup({}, place.directory, place.name);
        if (inode == InodeId()) {
          EXPECT_FALSE(found.has_value()) << place.name << " at " << i;
        } else {
          ASSERT_TRUE(found.has_value()) << place.name << " at " << i;
          EXPECT_EQ(found->inode, inode);
        }
      });
    }
  }

  void write_all(size_t writer) {
    for (int step = 0; step < 12 && !testing::Test::HasFailure(); ++step) {
      one("w" + std::to_string(writer));
      all_.world.run_for(milliseconds(all_.world.random().below(500)));
    }
  }

  void one(const std::string& name) {
    const Place here{d_, name};
    InodeId inode;
    at(any(), [&](FileSystem& files) {
      const bool directory = all_.world.random().chance(1, 3);
      const auto made =
          directory ? files.make_directory({}, d_, name, 0755, nullptr)
                    : files.make_node({}, d_, name, meta::FileType::regular, 0644, 0, nullptr);
      if (made) inode = made->inode;
    });
    if (inode == InodeId()) return remove_whatever(name);
    expect_at(here, inode);
    ask_often(hour_, meta::name_of(meta::TrashEntry{d_, inode, name}));
    at(any(), [&](FileSystem& files) { remove(files, name); });
    expect_at(here, {});
    std::optional<Place> place;
    at(any(), [&](FileSystem& files) { place = find_kept(files, inode); });
    if (!place) {
      EXPECT_TRUE(faults_);
      return;
    }
    ++kept;
    hour_ = place->directory;
    expect_at(*place, inode);
    ask_often(place->directory, place->name);
    Status status = Code::busy;
    if (all_.world.random().chance(1, 2)) {
      at(any(), [&](FileSystem& files) {
        meta::RenameFlags flags;
        flags.no_replace = true;
        status = files.rename({}, place->directory, place->name, d_, name, flags, nullptr);
      });
      EXPECT_TRUE(faults_ || status.ok() || status == Code::not_found) << status.name();
      if (!status.ok()) return;
      ++restored;
      expect_at(*place, {});
      expect_at(here, inode);
      at(any(), [&](FileSystem& files) { remove(files, name); });
      return;
    }
    at(any(), [&](FileSystem& files) {
      if (empties_) {
        const auto step = files.empty_trash(place->directory, 0, 1000);
        status = step ? Status() : step.error();
        return;
      }
      if (files.lookup({}, place->directory, place->name).has_value()) {
        const auto attributes = files.attributes(inode);
        const bool is_directory = attributes && attributes->type == meta::FileType::directory;
        status = is_directory ? files.remove_directory({}, place->directory, place->name, nullptr)
                              : files.unlink({}, place->directory, place->name, nullptr);
      }
    });
    if (status.ok()) ++emptied;
    if (status.ok() || status == Code::not_found) expect_at(*place, {});
  }
  // So that it might be kept that it is there, or not.
  void ask_often(InodeId directory, const std::string& name) {
    if (directory == InodeId()) return;
    for (int times = 0; times < 3; ++times) {
      for (size_t i = 0; i < all_.count(); ++i) {
        at(i, [&](FileSystem& files) { (void)files.lookup({}, directory, name); });
      }
      all_.world.run_for(milliseconds(200));
    }
  }
  void remove(FileSystem& files, const std::string& name) {
    const auto found = files.lookup({}, d_, name);
    if (!found) return;
    const Status status = found->type == meta::FileType::directory
                              ? files.remove_directory({}, d_, name, nullptr)
                              : files.unlink({}, d_, name, nullptr);
    EXPECT_TRUE(faults_ || status.ok()) << status.name();
    EXPECT_NE(status, Code::corrupt);
  }
  void remove_whatever(const std::string& name) {
    at(any(), [&](FileSystem& files) { remove(files, name); });
  }

  // Every inode has a place, or is to be collected.
  void check() {
    bool is_right = false;
    const auto count = [&](FileSystem& files) {
      uint64_t named = 1;
      std::vector<InodeId> left{meta::kRootInode};
      const auto top = files.lookup({}, meta::kRootInode, meta::kTrashName);
      if (!top) return;
      left.push_back(top->inode);
      ++named;
      while (!left.empty()) {
        const InodeId next = left.back();
        left.pop_back();
        (void)files.meta().read_directory(
            next, 0, SIZE_MAX, false, [&](const meta::DirectoryEntry& entry, const Attributes*) {
              ++named;
              if (entry.type == meta::FileType::directory) left.push_back(entry.inode);
              return true;
            });
      }
      const auto orphans = files.meta().orphans(SIZE_MAX, {});
      const auto counts = files.meta().counts();
      is_right = orphans && counts && counts->inodes == named + orphans->size();
    };
    EXPECT_TRUE(all_.world.run_until(
        [&] {
          at(names(), count);
          return is_right;
        },
        seconds(60)));
    // What is left goes with an hour, from any of them.
    at(0, [&](FileSystem& files) {
      const auto top = files.lookup({}, meta::kRootInode, meta::kTrashName);
      ASSERT_TRUE(top.has_value());
      std::vector<InodeId> hours;
      (void)files.meta().read_directory(top->inode, 0, SIZE_MAX, false,
                                        [&](const meta::DirectoryEntry& entry, const Attributes*) {
                                          hours.push_back(entry.inode);
                                          return true;
                                        });
      for (const InodeId hour : hours) {
        const auto step = files.empty_trash(hour, 0, 1000);
        EXPECT_TRUE(faults_ || (step && step->finished));
      }
    });
  }

  Processes all_;
  const bool faults_;
  InodeId d_;
  InodeId hour_;  // the last that was seen
  bool empties_ = false;
};

void run_trash(uint64_t first, uint64_t count, bool faults) {
  uint64_t kept = 0;
  uint64_t restored = 0;
  uint64_t emptied = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("PENSTOCK_SEED=" + std::to_string(seed));
    TrashStory story(seed, faults);
    story.run();
    kept += story.kept;
    restored += story.restored;
    emptied += story.emptied;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(kept, count);
  EXPECT_GT(restored + emptied, count / 2);
}

TEST(ProcessesTrash, is_seen_alike_by_all_of_them) {
  const sim::SeedRange seeds = sim::seed_range(100);
  run_trash(seeds.first, seeds.count, false);
}

TEST(ProcessesTrash, loses_nothing_whatever_dies) {
  const sim::SeedRange seeds = sim::seed_range(100);
  run_trash(seeds.first, seeds.count, true);
}

}  // namespace
}  // namespace penstock::client
