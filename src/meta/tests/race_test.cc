// Threads against one another on RocksDB; afterwards the tree must be consistent.
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <thread>

#include "penstock/testing_meta.h"

namespace penstock::meta {
namespace {

// Walks from the root: every directory is reached once, link counts are right, and what is not
// reached is an orphan.
void check_consistent(Meta& meta) {
  std::map<uint64_t, uint32_t> names;
  std::map<uint64_t, uint32_t> links;
  std::vector<InodeId> directories{kRootInode};
  std::set<uint64_t> reached{kRootInode.value};
  links[kRootInode.value] = meta.attributes(kRootInode)->links;
  names[kRootInode.value] = 2;
  for (size_t i = 0; i < directories.size(); ++i) {
    std::set<std::string> seen;
    ASSERT_TRUE(meta.read_directory(directories[i], 0, SIZE_MAX, true,
                                    [&](const DirectoryEntry& entry, const Attributes* found) {
                                      EXPECT_TRUE(seen.insert(entry.name).second);
                                      const auto looked =
                                          meta.lookup({}, directories[i], entry.name);
                                      EXPECT_TRUE(looked && looked->inode == entry.inode);
                                      links[entry.inode.value] = found->links;
                                      const bool first = reached.insert(entry.inode.value).second;
                                      if (entry.type != FileType::directory) {
                                        ++names[entry.inode.value];
                                        return true;
                                      }
                                      EXPECT_TRUE(first) << "a directory with two names";
                                      names[entry.inode.value] += 2;
                                      ++names[directories[i].value];
                                      directories.push_back(entry.inode);
                                      const auto above = meta.lookup({}, entry.inode, "..");
                                      EXPECT_TRUE(above && above->inode == directories[i]);
                                      return true;
                                    })
                    .ok());
  }
  EXPECT_EQ(names, links);
  const auto orphans = meta.orphans(SIZE_MAX);
  ASSERT_TRUE(orphans.has_value());
  for (const InodeId orphan : *orphans) {
    EXPECT_EQ(meta.attributes(orphan)->links, 0u);
    EXPECT_FALSE(reached.contains(orphan.value));
  }
  EXPECT_EQ(meta.counts()->inodes, reached.size() + orphans->size());
}

class Race {
 public:
  Race() { reopen(); }

  Meta& meta() { return *meta_; }
  void reopen() {
    meta_.reset();
    storage_.restart();
    MetaOptions options;
    options.cached_records = 1024;
    meta_ = open_meta(storage_.kv(), clock_, options);
  }
  // `work(thread, random)` on several threads at once.
  template <class Work>
  void run(int threads, const Work& work) {
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i) {
      running.emplace_back([&work, i] {
        engine::SeededRandom random(static_cast<uint64_t>(i));
        work(i, random);
      });
    }
    for (std::thread& thread : running) thread.join();
  }

 private:
  RocksDbStorage storage_;
  TickingClock clock_;
  std::unique_ptr<Meta> meta_;
};

TEST(MetaRace, one_of_many_exclusive_creates_wins) {
  Race race;
  std::atomic<int> won{0};
  race.run(4, [&](int, engine::Random&) {
    for (int i = 0; i < 200; ++i) {
      const auto made = race.meta().create({}, kRootInode, std::to_string(i), 0644, true);
      EXPECT_TRUE(made || made.error().code() == Code::already_exists);
      if (made) ++won;
    }
  });
  EXPECT_EQ(won, 200);
  check_consistent(race.meta());
}

void make_list(Meta& meta, const std::vector<std::string>& paths, bool replace,
               std::vector<Result<MadeFile>>* made) {
  std::vector<WantedPlace> wanted;
  for (const std::string& path : paths) wanted.push_back({path, replace});
  const auto places = meta.place_files({}, wanted);
  ASSERT_TRUE(places.has_value());
  std::vector<CompleteFile> files;
  for (const auto& place : *places) {
    if (place) files.push_back({*place, 0644, 1, {}, false});
  }
  ASSERT_TRUE(meta.create_files({}, files, made).ok());
}

TEST(MetaRace, one_of_many_lists_gets_each_name) {
  Race race;
  std::atomic<int> won{0};
  race.run(4, [&](int thread, engine::Random&) {
    for (int round = 0; round < 20; ++round) {
      // Conflicts with the others' lists, which read the directory's own record.
      (void)race.meta().make_directory({}, kRootInode, "d" + std::to_string(thread * 100 + round),
                                       0755);
      std::vector<std::string> paths;
      for (int i = 0; i < 20; ++i) paths.push_back("/" + std::to_string(round * 20 + i));
      std::vector<Result<MadeFile>> made;
      ASSERT_NO_FATAL_FAILURE(make_list(race.meta(), paths, false, &made));
      for (const auto& one : made) {
        EXPECT_TRUE(one || one.error() == Code::already_exists);
        won += one ? 1 : 0;
      }
    }
  });
  EXPECT_EQ(won, 400);
  check_consistent(race.meta());
}

TEST(MetaRace, lists_that_replace_each_other_leave_one_file_of_each_name) {
  Race race;
  std::atomic<uint64_t> made_files{0}, replaced_files{0};
  race.run(4, [&](int thread, engine::Random&) {
    for (int round = 0; round < 40; ++round) {
      (void)race.meta().make_directory({}, kRootInode, "d" + std::to_string(thread * 100 + round),
                                       0755);
      std::vector<std::string> paths;
      for (int i = 0; i < 10; ++i) paths.push_back("/" + std::to_string((thread * 3 + i) % 15));
      std::vector<Result<MadeFile>> made;
      ASSERT_NO_FATAL_FAILURE(make_list(race.meta(), paths, true, &made));
      for (const auto& one : made) {
        EXPECT_TRUE(one || one.error() == Code::already_exists);
        made_files += one ? 1 : 0;
        replaced_files += one && one->replaced.last_link ? 1 : 0;
      }
    }
  });
  EXPECT_GE(made_files, 1000u);
  EXPECT_EQ(made_files - replaced_files, 15u);
  EXPECT_EQ(race.meta().orphans(SIZE_MAX, {})->size(), replaced_files);
  check_consistent(race.meta());
}

TEST(MetaRace, directory_is_never_removed_with_something_in_it) {
  Race race;
  std::atomic<int> removed{0};
  std::atomic<int> made{0};
  race.run(4, [&](int thread, engine::Random&) {
    for (int i = 0; i < 300; ++i) {
      if (thread == 0) {
        (void)race.meta().make_directory({}, kRootInode, "d", 0755);
      } else if (thread == 1) {
        removed += race.meta().remove_directory({}, kRootInode, "d", nullptr).ok() ? 1 : 0;
      } else {
        const auto d = race.meta().lookup({}, kRootInode, "d");
        if (!d) continue;
        const std::string name = std::to_string(thread);
        const auto f = race.meta().create({}, d->inode, name, 0644, true);
        if (!f) {
          EXPECT_TRUE(f.error().code() == Code::not_found ||
                      f.error().code() == Code::already_exists);
          continue;
        }
        ++made;
        EXPECT_TRUE(race.meta().unlink({}, d->inode, name, nullptr).ok())
            << "what was made is there until it is removed";
      }
    }
  });
  check_consistent(race.meta());
}

TEST(MetaRace, directories_never_form_a_loop) {
  Race race;
  std::vector<InodeId> inodes{kRootInode};
  for (int i = 0; i < 6; ++i) {
    inodes.push_back(
        race.meta().make_directory({}, inodes.back(), "d" + std::to_string(i), 0755)->inode);
  }
  std::atomic<int> moved{0};
  race.run(4, [&](int, engine::Random& random) {
    for (int i = 0; i < 400; ++i) {
      // Any directory from wherever it is now to below any other.
      const size_t which = 1 + random.below(6);
      const auto from = race.meta().lookup({}, inodes[which], "..");
      const InodeId to = inodes[random.below(7)];
      if (!from) continue;
      const std::string name = "d" + std::to_string(which - 1);
      const Status status = race.meta().rename({}, from->inode, name, to, name, {}, nullptr);
      if (status.ok()) ++moved;
    }
  });
  EXPECT_GT(moved, 50);
  check_consistent(race.meta());
}

TEST(MetaRace, tree_is_consistent_after_everything_at_once) {
  Race race;
  std::vector<InodeId> directories{kRootInode};
  for (int i = 0; i < 3; ++i) {
    directories.push_back(
        race.meta().make_directory({}, kRootInode, "top" + std::to_string(i), 0755)->inode);
  }
  std::atomic<int> successes{0};
  race.run(4, [&](int, engine::Random& random) {
    const auto any = [&] { return directories[random.below(directories.size())]; };
    const auto name = [&] { return std::string(1, static_cast<char>('a' + random.below(5))); };
    for (int i = 0; i < 1500; ++i) {
      Status status;
      switch (random.below(6)) {
        case 0:
          status = code_of(race.meta().create({}, any(), name(), 0644, false));
          break;
        case 1:
          status = code_of(race.meta().make_directory({}, any(), name(), 0755));
          break;
        case 2:
          status = race.meta().unlink({}, any(), name(), nullptr);
          break;
        case 3:
          status = race.meta().remove_directory({}, any(), name(), nullptr);
          break;
        case 4: {
          const auto found = race.meta().lookup({}, any(), name());
          if (found) status = code_of(race.meta().link({}, found->inode, any(), name()));
          break;
        }
        default: {
          RenameFlags flags;
          flags.exchange = random.chance(1, 4);
          status = race.meta().rename({}, any(), name(), any(), name(), flags, nullptr);
        }
      }
      EXPECT_NE(status.code(), Code::busy);
      EXPECT_NE(status.code(), Code::corrupt);
      if (status.ok()) ++successes;
    }
  });
  EXPECT_GT(successes, 500);
  check_consistent(race.meta());
  race.reopen();
  check_consistent(race.meta());
}

}  // namespace
}  // namespace penstock::meta
