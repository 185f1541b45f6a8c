// Small writes that wait in memory are seen by all readers, in order, and their errors are told.
#include "threaded_node.h"

#include <random>

namespace penstock::client {
namespace {

void forever(FileSystemConfig& config) {
  config.behind_age = std::chrono::hours(1);
}

class WriteBehindTest : public ThreadTest {
 protected:
  explicit WriteBehindTest(const std::function<void(FileSystemConfig&)>& change = forever)
      : ThreadTest(change) {}

  Result<uint64_t> soon(const FileRef& file, uint64_t offset, std::string bytes) {
    return files->write_soon(file, offset, memory_of(bytes), nullptr, nullptr);
  }
  // As a ring does it: on a loop, by its client.
  Result<uint64_t> by_ring(const FileRef& file, IoKind kind, uint64_t offset, std::string& bytes) {
    IoOp io;
    io.file = file;
    io.kind = kind;
    io.offset = offset;
    io.memory = memory_of(bytes);
    struct Turn {
      engine::Loop* loop;
      engine::Op* done;
    } turn{};
    const Status status = engine::thread_caller().call(shards[1].loop, [&](engine::Op& done) {
      turn = {&shards[1].loop, &done};
      io.owner = &turn;
      io.completion = [](engine::Op& op) {
        auto& self = op.owner_as<Turn>();
        self.loop->complete(*self.done, op.status);
      };
      files->client(1).submit(io);
    });
    if (!status.ok()) return status;
    return io.transferred;
  }
  std::string ring_read(const FileRef& file, uint64_t offset, uint64_t length) {
    std::string bytes(length, '?');
    const Result<uint64_t> got = by_ring(file, IoKind::read, offset, bytes);
    EXPECT_TRUE(got.has_value());
    bytes.resize(got ? *got : 0);
    return bytes;
  }
};

TEST_F(WriteBehindTest, what_waits_has_reached_no_target_and_no_record_but_is_seen) {
  const FileRef file = open("/a");
  const uint64_t before = asked.load();
  const meta::FileTime begun = engine::system_clock().wall();
  std::string all;
  for (int i = 0; i < 10; ++i) {
    all += std::string(100, static_cast<char>('a' + i));
    EXPECT_EQ(*soon(file, all.size() - 100, all.substr(all.size() - 100)), 100u);
    EXPECT_EQ(length_of(*file), all.size());
    EXPECT_EQ(files->resolve(root, "/a", true)->length, all.size());
  }
  EXPECT_EQ(asked.load(), before) << "a write went to a target";
  EXPECT_EQ(meta->attributes(inode_of(*file))->length, 0u) << "a length without its bytes";
  const meta::FileTime written = files->attributes(inode_of(*file))->modified;
  EXPECT_GE(written, begun);
  EXPECT_EQ(ring_read(file, 0, 5000), all);
  EXPECT_EQ(asked.load(), before + 2) << "one write of all, one read";
  EXPECT_EQ(files->attributes(inode_of(*file))->modified, written) << "changed by the way there";
  EXPECT_TRUE(files->sync_file(file).ok());
  EXPECT_EQ(meta->attributes(inode_of(*file))->length, all.size());
}

TEST_F(WriteBehindTest, a_ring_writes_after_what_was_written_before) {
  const FileRef file = open("/a");
  EXPECT_TRUE(soon(file, 0, std::string(100, 'a')).has_value());
  std::string over(50, 'b');
  EXPECT_EQ(*by_ring(file, IoKind::write, 25, over), 50u);
  EXPECT_TRUE(soon(file, 100, std::string(10, 'c')).has_value());
  EXPECT_EQ(ring_read(file, 0, 200), std::string(25, 'a') + std::string(50, 'b') +
                                         std::string(25, 'a') + std::string(10, 'c'));
}

TEST_F(WriteBehindTest, closing_and_cutting_come_after_what_was_written) {
  FileRef file = open("/a");
  EXPECT_TRUE(soon(file, 0, std::string(100, 'a')).has_value());
  meta::SetAttributes shorter;
  shorter.length = 60;
  EXPECT_EQ(files->set_attributes(root, inode_of(*file), shorter, nullptr)->length, 60u);
  EXPECT_EQ(ring_read(file, 0, 200), std::string(60, 'a'));
  EXPECT_TRUE(soon(file, 60, "b").has_value());
  const InodeId id = inode_of(*file);
  EXPECT_TRUE(files->close_file(std::move(file)).ok());
  EXPECT_EQ(meta->attributes(id)->length, 61u);
}

TEST_F(WriteBehindTest, a_crash_takes_bytes_with_their_length) {
  const FileRef file = open("/a");
  EXPECT_TRUE(soon(file, 0, std::string(100, 'a')).has_value());
  EXPECT_TRUE(files->sync_file(file).ok());
  EXPECT_TRUE(soon(file, 100, std::string(100, 'b')).has_value());
  EXPECT_EQ(length_of(*file), 200u);
  crash();
  const FileRef found = open("/a", {.read = true});
  EXPECT_EQ(length_of(*found), 100u);
  EXPECT_EQ(ring_read(found, 0, 300), std::string(100, 'a'));
}

TEST_F(WriteBehindTest, the_end_of_the_file_system_writes_everything) {
  const FileRef file = open("/a");
  EXPECT_TRUE(soon(file, 0, std::string(100, 'a')).has_value());
  files->close();
  crash();
  EXPECT_EQ(ring_read(open("/a", {.read = true}), 0, 300), std::string(100, 'a'));
}

// Not gathered: an application's ring finds the room that a removed file leaves, at once.
TEST_F(WriteBehindTest, a_ring_on_a_full_disk_gets_what_removed_files_held) {
  const FileRef file = open("/b", {.read = true, .write = true, .create = true});
  for (Shard& shard : shards) shard.target->room = 0;
  std::string bytes(100'000, 'b');
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(by_ring(file, IoKind::write, 0, bytes).error().code(), Code::no_space);
  }
  for (Shard& shard : shards) shard.target->room = 80'000;
  for (int round = 0; round < 3; ++round) {
    const auto began = std::chrono::steady_clock::now();
    FileRef old = open("/a");
    std::string fill(130'000, 'a');
    EXPECT_EQ(*by_ring(old, IoKind::write, 0, fill), fill.size());
    EXPECT_EQ(by_ring(file, IoKind::write, 0, bytes).error().code(), Code::no_space);
    EXPECT_TRUE(files->unlink(root, meta::kRootInode, "a", nullptr).ok());
    EXPECT_EQ(by_ring(file, IoKind::write, 0, bytes).error().code(), Code::no_space) << "in use";
    EXPECT_TRUE(files->close_file(std::move(old)).ok());
    EXPECT_EQ(*by_ring(file, IoKind::write, 0, bytes), bytes.size());
    EXPECT_EQ(ring_read(file, 0, 200'000), bytes);
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(8)) << "it waited";
    meta::SetAttributes none;
    none.length = 0;
    EXPECT_TRUE(files->set_attributes(root, inode_of(*file), none, nullptr).has_value());
  }
}

TEST_F(WriteBehindTest, times_that_are_set_stay) {
  const FileRef file = open("/a");
  EXPECT_TRUE(soon(file, 0, "a").has_value());
  meta::SetAttributes old;
  old.modified = meta::FileTime{1000, 5};
  EXPECT_TRUE(files->set_attributes(root, inode_of(*file), old, nullptr).has_value());
  EXPECT_TRUE(files->flush_file(file).ok());
  EXPECT_EQ(files->attributes(inode_of(*file))->modified, (meta::FileTime{1000, 5}));
}

TEST_F(WriteBehindTest, lost_bytes_are_told_once_to_each_open) {
  const FileRef file = open("/a");
  const FileRef other = open("/a", {.read = true});
  EXPECT_TRUE(soon(file, 0, std::string(100, 'a')).has_value());
  EXPECT_TRUE(files->sync_file(file).ok());
  EXPECT_TRUE(soon(file, 100, std::string(100, 'b')).has_value());
  failing = true;
  EXPECT_EQ(files->flush_file(file).code(), Code::no_space);
  EXPECT_EQ(length_of(*file), 100u) << "of bytes that are nowhere";
  failing = false;
  const FileRef late = open("/a");
  EXPECT_TRUE(files->flush_file(file).ok());
  EXPECT_EQ(files->sync_file(other).code(), Code::no_space);
  EXPECT_TRUE(files->sync_file(other).ok());
  EXPECT_TRUE(files->sync_file(late).ok());
  EXPECT_EQ(ring_read(file, 0, 200), std::string(100, 'a'));
  // After a loss, trouble is told at the write.
  failing = true;
  EXPECT_EQ(soon(file, 100, "c").error().code(), Code::no_space);
  failing = false;
}

TEST_F(WriteBehindTest, more_operations_than_a_client_has_places_wait_for_one_write) {
  const FileRef file = open("/a");
  EXPECT_TRUE(soon(file, 0, "a").has_value());
  constexpr size_t kCount = kIoOpsMax + 100;
  std::vector<IoOp> ops(kCount);
  std::vector<std::string> bytes(kCount, "?");
  struct Gathering {
    engine::Loop* loop = nullptr;
    engine::Op* done = nullptr;
    size_t left = kCount;
  } gathering;
  const auto submit_all = [&](engine::Op& done) {
    gathering.loop = &shards[0].loop;
    gathering.done = &done;
    for (size_t i = 0; i < kCount; ++i) {
      ops[i].file = file;
      ops[i].kind = IoKind::read;
      ops[i].memory = memory_of(bytes[i]);
      ops[i].owner = &gathering;
      ops[i].completion = [](engine::Op& op) {
        auto& self = op.owner_as<Gathering>();
        EXPECT_TRUE(op.status.ok());
        if (--self.left == 0) self.loop->complete(*self.done, Code::ok);
      };
      files->client(0).submit(ops[i]);
    }
  };
  EXPECT_TRUE(engine::thread_caller().call(shards[0].loop, submit_all).ok());
  for (const std::string& one : bytes) EXPECT_EQ(one, "a");
}

struct CountingObserver final : Observer {
  std::atomic<int> told{0};
  void data_changed(InodeId, uint64_t, uint64_t, std::function<void()> done) override {
    told.fetch_add(1);
    done();
  }
  void entry_changed(InodeId, std::string_view) override {}
};

TEST_F(WriteBehindTest, whoever_watches_is_told_before_a_write_returns) {
  CountingObserver node_cache;
  files->add_observer(node_cache);
  const FileRef file = open("/a");
  EXPECT_TRUE(soon(file, 0, "a").has_value());
  EXPECT_EQ(node_cache.told.load(), 0);
  files->watch(inode_of(*file), node_cache);
  EXPECT_TRUE(soon(file, 1, "b").has_value());
  EXPECT_GE(node_cache.told.load(), 1);
  files->remove_observer(node_cache);
}

// What a file must hold, and what holes and ends do to it.
struct Model {
  std::string bytes;
  void write(uint64_t offset, const std::string& piece) {
    if (bytes.size() < offset + piece.size()) bytes.resize(offset + piece.size(), '\0');
    bytes.replace(offset, piece.size(), piece);
  }
};

TEST_F(WriteBehindTest, a_file_is_what_a_string_would_be_after_any_operations) {
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const std::string path = "/" + std::to_string(seed);
    std::array<FileRef, 3> handles{open(path), open(path), open(path)};
    Model model;
    uint64_t at = 0;
    for (int step = 0; step < 600; ++step) {
      const FileRef& file = handles[random() % handles.size()];
      const uint64_t size = model.bytes.size();
      std::string piece(1 + random() % (random() % 8 == 0 ? 60'000 : 5000), 'a');
      for (char& c : piece) c = static_cast<char>(1 + random() % 255);
      const uint64_t anywhere = random() % (size + 10'000);
      switch (random() % 16) {
        case 0: {
          ASSERT_EQ(*by_ring(file, IoKind::write, anywhere, piece), piece.size());
          model.write(anywhere, piece);
          break;
        }
        case 1: {
          const uint64_t from = std::min<uint64_t>(anywhere, size);
          ASSERT_EQ(ring_read(file, from, 70'000), model.bytes.substr(from, 70'000));
          break;
        }
        case 2: {
          std::string got(70'000, '?');
          const uint64_t from = std::min<uint64_t>(anywhere, size);
          got.resize(*files->read(file, from, memory_of(got)));
          ASSERT_EQ(got, model.bytes.substr(from, 70'000));
          break;
        }
        case 3: {
          meta::SetAttributes changes;
          changes.length = random() % 2 == 0 ? anywhere : size - std::min<uint64_t>(size, 3000);
          ASSERT_TRUE(files->set_attributes(root, inode_of(*file), changes, nullptr).has_value());
          model.bytes.resize(*changes.length, '\0');
          break;
        }
        case 4: {
          ASSERT_TRUE(files->punch(file, anywhere, 5000, nullptr, nullptr).ok());
          for (uint64_t i = anywhere; i < std::min<uint64_t>(size, anywhere + 5000); ++i) {
            model.bytes[i] = '\0';
          }
          break;
        }
        case 5: {
          FileRef& closing = handles[random() % handles.size()];
          ASSERT_TRUE(files->close_file(std::move(closing)).ok());
          const bool cut = random() % 20 == 0;
          closing = open(path, {.write = true, .truncate = cut});
          if (cut) model.bytes.clear();
          break;
        }
        case 6:
          ASSERT_TRUE(random() % 2 == 0 ? files->sync_file(file).ok() : files->sync_all().ok());
          ASSERT_EQ(meta->attributes(inode_of(*file))->length, size);
          break;
        case 7:
          at = anywhere;
          [[fallthrough]];
        case 8:
        case 9:
        case 10:
        case 11:  // goes on where the last one ended
          ASSERT_EQ(*soon(file, at, piece), piece.size());
          model.write(at, piece);
          at += piece.size();
          break;
        default:  // appends
          ASSERT_EQ(*soon(file, size, piece), piece.size());
          model.write(size, piece);
          at = size + piece.size();
          break;
      }
      ASSERT_EQ(length_of(*file), model.bytes.size());
      ASSERT_EQ(files->attributes(inode_of(*file))->length, model.bytes.size());
      // No length on record is ahead of the bytes.
      ASSERT_LE(meta->attributes(inode_of(*file))->length, model.bytes.size());
    }
    ASSERT_EQ(ring_read(handles[0], 0, limits::kIoBytesMax), model.bytes);
    for (FileRef& file : handles) ASSERT_TRUE(files->close_file(std::move(file)).ok());
  }
}

TEST_F(WriteBehindTest, every_length_that_is_seen_has_its_bytes) {
  const FileRef file = open("/a");
  std::atomic<bool> ended{false};
  on_threads(3, [&](int id) {
    if (id == 0) {
      const std::string piece(777, 'x');
      for (uint64_t i = 0; i < 3000; ++i) {
        ASSERT_EQ(*soon(file, i * piece.size(), piece), piece.size());
      }
      ended = true;
      return;
    }
    while (!ended) {
      const uint64_t length =
          id == 1 ? length_of(*file) : files->attributes(inode_of(*file))->length;
      const uint64_t from = length - std::min<uint64_t>(length, 100'000);
      std::string got(length - from, '?');
      const Result<uint64_t> read = id == 1 ? by_ring(file, IoKind::read, from, got)
                                            : files->read(file, from, memory_of(got));
      ASSERT_EQ(*read, got.size());
      ASSERT_EQ(got, std::string(got.size(), 'x'));
    }
  });
}

class AgedWriteBehindTest : public WriteBehindTest {
 protected:
  AgedWriteBehindTest()
      : WriteBehindTest(
            [](FileSystemConfig& config) { config.behind_age = std::chrono::milliseconds(1); }) {}
};

TEST_F(AgedWriteBehindTest, what_nobody_asks_for_goes_to_the_targets_by_itself) {
  const FileRef file = open("/a");
  const uint64_t before = asked.load();
  EXPECT_TRUE(soon(file, 0, "a").has_value());
  EXPECT_TRUE(test::eventually([&] { return asked.load() > before; }));
}

class ShortWriteBehindTest : public WriteBehindTest {
 protected:
  ShortWriteBehindTest()
      : WriteBehindTest([](FileSystemConfig& config) {
          forever(config);
          config.behind_bytes_max = 1 * kMiB;
        }) {}
};

TEST_F(ShortWriteBehindTest, more_writers_than_there_is_memory_for_all_get_on) {
  constexpr int kFiles = 40;
  std::vector<FileRef> all;
  for (int i = 0; i < kFiles; ++i) all.push_back(open("/" + std::to_string(i)));
  on_threads(4, [&](int id) {
    for (uint64_t round = 0; round < 50; ++round) {
      for (int i = id; i < kFiles; i += 4) {
        ASSERT_EQ(*soon(all[static_cast<size_t>(i)], round * 1000, std::string(1000, 'x')), 1000u);
      }
    }
  });
  for (const FileRef& file : all) EXPECT_EQ(ring_read(file, 0, 60'000), std::string(50'000, 'x'));
}

// What was written as a whole file is read once without a target, and never when it is not that any
// more.
class RecentTest : public WriteBehindTest {
 protected:
  InodeId written(const std::string& path, const std::string& bytes) {
    FileRef file = open(path);
    EXPECT_TRUE(soon(file, 0, bytes).has_value());
    const InodeId id = inode_of(*file);
    EXPECT_TRUE(files->close_file(std::move(file)).ok());
    return id;
  }
  std::string read(const std::string& path, uint64_t offset = 0, uint64_t length = 100'000) {
    const FileRef file = open(path, {.read = true, .accesses = AccessTimes::Mode::relative});
    std::string bytes(length, '?');
    const Result<uint64_t> got = files->read(file, offset, memory_of(bytes));
    EXPECT_TRUE(got.has_value());
    bytes.resize(got ? *got : 0);
    return bytes;
  }
};

TEST_F(RecentTest, the_first_read_asks_no_target_and_counts_as_one) {
  const InodeId id = written("/a", std::string(5000, 'a'));
  const meta::FileTime before = files->attributes(id)->modified;
  const uint64_t asked_before = asked.load();
  EXPECT_EQ(read("/a", 1000, 1000), std::string(1000, 'a'));
  EXPECT_EQ(read("/a", 4999, 1), "a");
  EXPECT_EQ(asked.load(), asked_before);
  EXPECT_GE(files->attributes(id)->accessed, before) << "the time of access";
  EXPECT_EQ(read("/a"), std::string(5000, 'a'));
  EXPECT_EQ(asked.load(), asked_before + 1) << "what was read to its end is kept elsewhere";
  EXPECT_EQ(read("/a", 5000, 1), "");
}

TEST_F(RecentTest, every_change_is_seen) {
  for (int way = 0; way < 5; ++way) {
    const std::string path = "/" + std::to_string(way);
    const InodeId id = written(path, std::string(5000, 'a'));
    const FileRef file = open(path, {.read = true, .write = true});
    std::string expected(5000, 'a');
    std::string over(10, 'b');
    meta::SetAttributes set;
    if (way == 0) {
      EXPECT_EQ(*by_ring(file, IoKind::write, 0, over), 10u);
      expected.replace(0, 10, over);
    } else if (way == 1) {
      set.length = 7;
      EXPECT_TRUE(files->set_attributes(root, id, set, nullptr).has_value());
      set.length = 6000;
      EXPECT_TRUE(files->set_attributes(root, id, set, nullptr).has_value());
      expected = std::string(7, 'a') + std::string(5993, '\0');
    } else if (way == 2) {
      EXPECT_TRUE(files->punch(file, 0, 4096, nullptr, nullptr).ok());
      expected.replace(0, 4096, 4096, '\0');
    } else if (way == 3) {
      EXPECT_TRUE(soon(file, 5000, over).has_value());
      expected += over;
    } else {
      EXPECT_TRUE(files->write(file, 4990, memory_of(over), true, nullptr, nullptr).has_value());
      expected.replace(4990, 10, over);
    }
    EXPECT_EQ(read(path), expected) << way;
    EXPECT_EQ(read(path), expected) << way;
  }
}

TEST_F(RecentTest, a_larger_file_and_a_part_of_one_are_not_kept) {
  written("/large", std::string(200'000, 'a'));
  {
    const FileRef file = open("/part");
    EXPECT_TRUE(soon(file, 0, std::string(4096, 'a')).has_value());
    EXPECT_TRUE(files->sync_file(file).ok());
    EXPECT_EQ(read("/part"), std::string(4096, 'a'));
    EXPECT_TRUE(soon(file, 4096, std::string(4096, 'b')).has_value());
  }
  const uint64_t before = asked.load();
  EXPECT_EQ(read("/large", 0, 10), std::string(10, 'a'));
  EXPECT_EQ(read("/part", 4096, 10), std::string(10, 'b'));
  EXPECT_GE(asked.load(), before + 2);
}

// A reader finds no bytes older than the last write that had ended before it began.
TEST_F(RecentTest, no_reader_finds_what_was_overwritten) {
  std::atomic<int> ended{0};
  std::atomic<bool> over{false};
  constexpr int kRounds = 300;
  open("/a");
  on_threads(3, [&](int id) {
    const FileRef file = open("/a", {.read = true, .write = true});
    for (int i = 1; id == 0 && i <= kRounds; ++i) {
      // In turn as a whole by a mount, and by a ring.
      std::string bytes = std::to_string(100'000 + i);
      if (i % 2 == 0) {
        meta::SetAttributes empty;
        empty.length = 0;
        ASSERT_TRUE(files->set_attributes(root, inode_of(*file), empty, nullptr).has_value());
        ASSERT_TRUE(soon(file, 0, bytes).has_value());
        ASSERT_TRUE(files->flush_file(file).ok());
      } else {
        ASSERT_TRUE(by_ring(file, IoKind::write, 0, bytes).has_value());
      }
      ended.store(i);
    }
    if (id == 0) over = true;
    while (id != 0 && !over) {
      const int least = ended.load();
      std::string bytes(6, '?');
      const Result<uint64_t> got = files->read(file, 0, memory_of(bytes));
      ASSERT_TRUE(got.has_value());
      if (*got == 0) continue;
      ASSERT_EQ(*got, 6u);
      ASSERT_GE(std::stoi(bytes), 100'000 + least);
    }
  });
}

class FullWriteBehindTest : public WriteBehindTest {
 protected:
  FullWriteBehindTest()
      : WriteBehindTest([](FileSystemConfig& config) {
          forever(config);
          config.space = [] { return engine::DiskSpace{.total_bytes = kGiB, .free_bytes = kMiB}; };
        }) {}
};

TEST_F(FullWriteBehindTest, a_disk_that_is_nearly_full_tells_at_the_write) {
  const FileRef file = open("/a");
  failing = true;
  EXPECT_EQ(soon(file, 0, "a").error().code(), Code::no_space);
  failing = false;
}

}  // namespace
}  // namespace penstock::client
