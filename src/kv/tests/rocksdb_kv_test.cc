// What only a database on disk can do: come back, be damaged, fill its disk.
#include "faulty_file_system.h"
#include "rocksdb_open.h"

#include <array>
#include <atomic>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "penstock/kv.h"
#include "penstock/testing.h"

namespace penstock::kv {
namespace {

using engine::KvMode;
using engine::KvTransaction;
namespace fs = std::filesystem;

class RocksDbTest : public testing::Test {
 protected:
  RocksDbOptions options(bool create = true) { return {.path = path_.string(), .create = create}; }
  std::unique_ptr<engine::Kv> open(bool create = true, rocksdb::Env* env = nullptr) {
    auto opened = open_rocksdb(options(create), env);
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }
  // The directory's files, but for the notes that people read.
  std::map<std::string, std::string> files() {
    std::map<std::string, std::string> found;
    if (!fs::exists(path_)) return found;
    for (const auto& entry : fs::directory_iterator(path_)) {
      found[entry.path().filename()] = test::read_file(entry.path());
    }
    return found;
  }
  fs::path file_like(const std::string& part) {
    fs::path found;
    for (const auto& entry : fs::directory_iterator(path_)) {
      const std::string name = entry.path().filename();
      if (name.find(part) != std::string::npos && entry.file_size() > 0) found = entry.path();
    }
    EXPECT_FALSE(found.empty()) << part;
    return found;
  }
  void expect_refused(Code code, const std::string& reason) {
    const auto before = files();
    for (int round = 0; round < 2; ++round) {
      const auto opened = open_rocksdb(options());
      ASSERT_FALSE(opened.has_value());
      EXPECT_EQ(opened.error().status.code(), code) << opened.error().message;
      EXPECT_NE(opened.error().message.find(path_.string()), std::string::npos);
      EXPECT_NE(opened.error().message.find(reason), std::string::npos) << opened.error().message;
    }
    EXPECT_EQ(files(), before) << "a refusal must change nothing";
  }
  static Status put(engine::Kv& kv, KvMode mode, const std::string& key, const std::string& value) {
    return kv.run(mode, [&](KvTransaction& transaction) -> Status {
      transaction.put(key, value);
      return {};
    });
  }
  static std::optional<std::string> get(engine::Kv& kv, const std::string& key) {
    std::optional<std::string> value;
    const Status status = kv.run(KvMode::read, [&](KvTransaction& transaction) -> Status {
      TRY_ASSIGN(value, transaction.get(key));
      return {};
    });
    EXPECT_TRUE(status.ok());
    return value;
  }
  // A database with `count` commits that was closed properly.
  void make(int count) {
    auto kv = open();
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(put(*kv, KvMode::write, "key" + std::to_string(i), std::string(100, 'v')).ok());
    }
  }
  static void flip(const fs::path& path, double where) {
    std::string content = test::read_file(path);
    content.at(static_cast<size_t>(static_cast<double>(content.size()) * where)) ^= 0x40;
    test::write_file(path, content);
  }

  const test::ScratchDirectory directory_;
  const fs::path path_ = directory_ / "db";
};

TEST_F(RocksDbTest, content_is_there_when_opened_again) {
  for (int round = 0; round < 4; ++round) {
    auto kv = open();
    for (int i = 0; i < round; ++i) EXPECT_EQ(get(*kv, std::to_string(i)), "kept");
    ASSERT_TRUE(put(*kv, KvMode::write, std::to_string(round), "kept").ok());
  }
}

// Bytes that this thread has asked files for.
uint64_t read_by_thread() {
  std::ifstream file("/proc/thread-self/io");
  std::string word;
  uint64_t bytes = 0;
  file >> word >> bytes;
  EXPECT_EQ(word, "rchar:");
  return bytes;
}

TEST_F(RocksDbTest, a_read_of_a_large_database_reads_little_besides) {
  if (!fs::exists("/proc/thread-self/io")) GTEST_SKIP() << "the kernel does not count";
  // Whose filters are more than its cache has room for.
  RocksDbOptions small = options();
  small.block_cache_bytes = 128 * kKiB;
  small.write_buffer_bytes = 8 * kMiB;
  auto opened = open_rocksdb(small, nullptr);
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  engine::Kv& kv = **opened;
  constexpr uint64_t kTogether = 1000, kBatches = 600;
  for (uint64_t batch = 0; batch < kBatches; ++batch) {
    ASSERT_TRUE(kv.run(KvMode::write, [&](KvTransaction& transaction) -> Status {
                    for (uint64_t i = 0; i < kTogether; ++i) {
                      const uint64_t number = batch * kTogether + i;
                      transaction.put(fmt::format("{:016x}", mix64(number)), std::string(60, 'v'));
                    }
                    return {};
                  }).ok());
  }
  constexpr uint64_t kReads = 1000;
  const uint64_t before = read_by_thread();
  for (uint64_t i = 0; i < kReads; ++i) {
    const uint64_t number = mix64(i) % (kBatches * kTogether);
    ASSERT_TRUE(get(kv, fmt::format("{:016x}", mix64(number)))) << number;
    ASSERT_FALSE(get(kv, fmt::format("{:016x}-", mix64(number)))) << number;
  }
  EXPECT_LT((read_by_thread() - before) / (2 * kReads), 16 * kKiB);
}

TEST_F(RocksDbTest, is_not_made_unless_asked) {
  auto opened = open_rocksdb(options(false));
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().status.code(), Code::not_found);
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(RocksDbTest, is_made_in_an_empty_directory_and_after_a_killed_attempt) {
  fs::create_directory(path_);
  fs::create_directory(path_.string() + ".creating");
  test::write_file(path_.string() + ".creating/MANIFEST-000001", "half");
  EXPECT_NE(open(), nullptr);
}

TEST_F(RocksDbTest, writes_are_refused_when_read_only) {
  make(3);
  RocksDbOptions read_only = options(false);
  read_only.read_only = true;
  auto kv = open_rocksdb(read_only);
  ASSERT_TRUE(kv.has_value()) << kv.error().message;
  EXPECT_EQ(get(**kv, "key1"), std::string(100, 'v'));
  EXPECT_EQ(put(**kv, KvMode::write, "a", "b").code(), Code::read_only);
}

TEST_F(RocksDbTest, is_refused_when_in_use) {
  auto kv = open();
  const auto second = open_rocksdb(options());
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().status.code(), Code::in_use);
  EXPECT_NE(second.error().message.find("another process"), std::string::npos);
}

TEST_F(RocksDbTest, is_refused_when_the_directory_holds_something_else) {
  fs::create_directory(path_);
  test::write_file(path_ / "letter.txt", "dear all");
  expect_refused(Code::corrupt, "CURRENT is missing");
}

TEST_F(RocksDbTest, is_refused_when_current_is_missing) {
  make(10);
  fs::remove(path_ / "CURRENT");
  expect_refused(Code::corrupt, "CURRENT is missing");
}

TEST_F(RocksDbTest, is_refused_when_the_manifest_is_missing) {
  make(10);
  fs::remove(file_like("MANIFEST"));
  expect_refused(Code::corrupt, "MANIFEST");
}

TEST_F(RocksDbTest, is_refused_when_the_manifest_is_damaged) {
  make(10);
  flip(file_like("MANIFEST"), 0.3);
  expect_refused(Code::corrupt, "damaged");
}

TEST_F(RocksDbTest, is_refused_when_the_mark_is_missing_or_damaged) {
  make(10);
  const std::string mark = test::read_file(path_ / "PENSTOCK");
  flip(path_ / "PENSTOCK", 0.5);
  expect_refused(Code::corrupt, "PENSTOCK");
  fs::remove(path_ / "PENSTOCK");
  expect_refused(Code::corrupt, "PENSTOCK");
  test::write_file(path_ / "PENSTOCK", mark);
  EXPECT_NE(open(false), nullptr);
}

TEST_F(RocksDbTest, is_refused_when_the_log_is_damaged_where_it_was_synced) {
  make(200);
  const fs::path log = file_like(".log");
  const std::string intact = test::read_file(log);
  for (const double where : {0.001, 0.5, 0.99}) {
    flip(log, where);
    expect_refused(Code::corrupt, "stable storage");
    test::write_file(log, intact);
  }
  test::write_file(log, intact.substr(0, intact.size() - 1));
  expect_refused(Code::corrupt, "stable storage");
  fs::remove(log);
  expect_refused(Code::corrupt, "stable storage");
  test::write_file(log, intact);
  auto kv = open(false);
  EXPECT_EQ(get(*kv, "key199"), std::string(100, 'v'));
}

TEST_F(RocksDbTest, is_refused_when_a_table_is_damaged_or_missing) {
  make(200);
  open();  // turns the log into a table
  const fs::path table = file_like(".sst");
  const std::string intact = test::read_file(table);
  flip(table, 0.2);
  expect_refused(Code::corrupt, "damaged");
  fs::remove(table);
  expect_refused(Code::corrupt, "damaged");
  test::write_file(table, intact);
  EXPECT_NE(open(false), nullptr);
}

// tests/kv_victim.cc in a process of its own; killed at the end if it still lives.
class Victim {
 public:
  Victim(const std::string& role, const fs::path& path, int next = 0) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    from_child_ = UniqueFd(ends[0]);
    const UniqueFd to_parent(ends[1]);
    const std::string number = std::to_string(next);
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(to_parent.get(), STDOUT_FILENO);
      ::execl(PENSTOCK_KV_VICTIM, PENSTOCK_KV_VICTIM, role.c_str(), path.c_str(), number.c_str(),
              nullptr);
      ::_exit(1);
    }
  }
  ~Victim() { kill(); }

  // The next number that it says; nullopt when it is dead, or says nothing for long.
  std::optional<int> hear() {
    pollfd waiting{from_child_.get(), POLLIN, 0};
    int said = 0;
    if (::poll(&waiting, 1, 60'000) != 1) return std::nullopt;
    if (::read(from_child_.get(), &said, sizeof said) != sizeof said) return std::nullopt;
    return said;
  }
  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = -1;
  }

 private:
  UniqueFd from_child_;
  pid_t child_ = -1;
};

TEST_F(RocksDbTest, opens_to_a_prefix_when_the_unsynced_end_of_the_log_is_torn) {
  {
    Victim victim("torn", path_);
    ASSERT_EQ(victim.hear(), 100);
  }
  const auto before = files();
  const std::string log = file_like(".log").filename();
  const std::string& intact = before.at(log);
  for (const size_t kept : {intact.size(), intact.size() - 1, intact.size() * 3 / 4}) {
    for (const bool garbage : {false, true}) {
      fs::remove_all(path_);
      fs::create_directory(path_);
      for (const auto& [name, content] : before) test::write_file(path_ / name, content);
      std::string torn = intact.substr(0, kept);
      if (garbage) torn += std::string(intact.size() - kept + 100, '\x5a');
      test::write_file(path_ / log, torn);
      auto kv = open(false);
      ASSERT_NE(kv, nullptr);
      int present = 0;
      while (get(*kv, std::to_string(present))) ++present;
      EXPECT_GE(present, 50) << "durable commits are there";
      for (int i = present; i < 100; ++i) EXPECT_EQ(get(*kv, std::to_string(i)), std::nullopt);
      if (kept == intact.size()) {
        EXPECT_EQ(present, 100);
      }
      ASSERT_TRUE(put(*kv, KvMode::write_durable, "after", "works").ok());
    }
  }
}

TEST_F(RocksDbTest, commits_survive_when_the_process_is_killed) {
  open();
  engine::SeededRandom random(3);
  int next = 0;
  for (int round = 0; round < 10; ++round) {
    Victim victim("write", path_, next);
    // Let it come to a random commit, then kill it.
    int acknowledged = -1;
    for (const int until = next + static_cast<int>(random.below(150)); acknowledged < until;) {
      const std::optional<int> heard = victim.hear();
      ASSERT_TRUE(heard.has_value());
      acknowledged = *heard;
    }
    victim.kill();
    while (const std::optional<int> heard = victim.hear()) acknowledged = *heard;
    auto kv = open(false);
    ASSERT_NE(kv, nullptr);
    for (int i = 0; i <= acknowledged; ++i) {
      ASSERT_EQ(get(*kv, std::to_string(i)), std::string(5000, 'k')) << i;
    }
    next = acknowledged + 1;
    if (get(*kv, std::to_string(next))) ++next;
  }
}

class RocksDbFaultTest : public RocksDbTest {
 protected:
  RocksDbFaultTest() { log::set_level(log::Level::off); }
  ~RocksDbFaultTest() override { log::set_level(log::Level::warning); }

  static uint64_t stopped_databases() {
    for (const metrics::Sample& sample : metrics::snapshot()) {
      if (sample.name == "kv.stopped") return sample.value;
    }
    return 0;
  }
  // Tries until it succeeds, as clients do; the database looks again a few times a second.
  static bool comes_back(engine::Kv& kv) {
    return test::eventually([&] { return put(kv, KvMode::write_durable, "back", "again").ok(); });
  }

  Faults faults_;
  std::shared_ptr<rocksdb::FileSystem> file_system_ = std::make_shared<FaultyFileSystem>(faults_);
  std::unique_ptr<rocksdb::Env> env_ = rocksdb::NewCompositeEnv(file_system_);
};

TEST_F(RocksDbFaultTest, commits_end_with_no_space_until_there_is_some) {
  {
    auto kv = open(true, env_.get());
    ASSERT_TRUE(put(*kv, KvMode::write, "before", "1").ok());
    for (int round = 0; round < 3; ++round) {
      faults_.full = true;
      for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(put(*kv, KvMode::write_durable, "lost", "1").code(), Code::no_space);
      }
      EXPECT_EQ(stopped_databases(), 1u);
      EXPECT_EQ(get(*kv, "before"), "1");
      EXPECT_EQ(get(*kv, "lost"), std::nullopt);
      // Nothing is wrong with what was committed before.
      EXPECT_TRUE(kv->sync().ok());
      faults_.full = false;
      EXPECT_TRUE(comes_back(*kv));
      EXPECT_EQ(stopped_databases(), 0u);
      EXPECT_EQ(get(*kv, "lost"), std::nullopt);
    }
  }
  auto kv = open(false);
  EXPECT_EQ(get(*kv, "before"), "1");
  EXPECT_EQ(get(*kv, "lost"), std::nullopt);
  EXPECT_EQ(get(*kv, "back"), "again");
}

TEST_F(RocksDbFaultTest, goes_on_when_the_first_record_of_a_log_found_no_room) {
  open();
  for (int round = 0; round < 2; ++round) {
    auto kv = open(false, env_.get());
    faults_.full = true;
    EXPECT_EQ(put(*kv, KvMode::write_durable, "lost", "1").code(), Code::no_space);
    EXPECT_TRUE(kv->sync().ok());
    faults_.full = false;
    EXPECT_TRUE(comes_back(*kv));
    EXPECT_EQ(get(*kv, "lost"), std::nullopt);
  }
}

// Counts up, so that a commit that is missing, was taken twice or was half done shows.
TEST_F(RocksDbFaultTest, commits_and_reads_are_right_while_space_comes_and_goes) {
  constexpr int kWriters = 3;
  RocksDbOptions small = options();
  small.write_buffer_bytes = 256 * kKiB;  // so that logs are switched and tables written, too
  const std::string ballast(3000, 'b');
  std::array<int, kWriters> counts{};
  {
    auto opened = open_rocksdb(small, env_.get());
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    engine::Kv& kv = **opened;
    std::atomic<bool> stop{false};
    std::atomic<int> wrong{0};
    const auto count_up = [&](int writer) {
      while (!stop) {
        const Status status = kv.run(
            counts[writer] % 4 == 0 ? KvMode::write_durable : KvMode::write,
            [&](KvTransaction& transaction) -> Status {
              TRY_ASSIGN(const auto mine, transaction.get(fmt::format("a{}", writer)));
              TRY_ASSIGN(const auto all, transaction.get("all"));
              if (std::stoi(mine.value_or("0")) != counts[writer]) ++wrong;
              transaction.put(fmt::format("a{}", writer), std::to_string(counts[writer] + 1));
              transaction.put("all", std::to_string(std::stoi(all.value_or("0")) + 1));
              transaction.put(fmt::format("ballast{}-{}", writer, counts[writer] % 200), ballast);
              return {};
            });
        if (status.ok()) ++counts[writer];
        if (!status.ok() && status.code() != Code::no_space && status.code() != Code::busy) ++wrong;
      }
    };
    const auto look = [&] {
      while (!stop) {
        int sum = 0;
        int all = 0;
        const Status status = kv.run(KvMode::read, [&](KvTransaction& transaction) -> Status {
          TRY(transaction.scan("a", "b", [&](std::string_view key, std::string_view value) {
            (key == "all" ? all : sum) += std::stoi(std::string(value));
            return true;
          }));
          return {};
        });
        if (!status.ok() || sum != all) ++wrong;
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < kWriters; ++i) threads.emplace_back(count_up, i);
    threads.emplace_back(look);
    for (int round = 0; round < 3; ++round) {
      EXPECT_TRUE(comes_back(kv));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      faults_.full = true;
      EXPECT_TRUE(test::eventually([] { return stopped_databases() == 1; }));
      faults_.full = false;
    }
    EXPECT_TRUE(comes_back(kv));
    stop = true;
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
  auto kv = open(false);
  ASSERT_NE(kv, nullptr);
  for (int i = 0; i < kWriters; ++i) {
    EXPECT_EQ(get(*kv, fmt::format("a{}", i)).value_or("0"), std::to_string(counts[i]));
  }
}

TEST_F(RocksDbFaultTest, is_whole_when_killed_while_the_disk_is_full) {
  open();
  {
    Victim victim("full", path_);
    ASSERT_EQ(victim.hear(), 1);
  }
  auto kv = open(false);
  ASSERT_NE(kv, nullptr);
  EXPECT_EQ(get(*kv, "before"), "1");
  EXPECT_EQ(get(*kv, "lost"), std::nullopt);
}

TEST_F(RocksDbFaultTest, nothing_is_acknowledged_after_a_failed_sync_until_opened_again) {
  {
    auto kv = open(true, env_.get());
    ASSERT_TRUE(put(*kv, KvMode::write, "before", "1").ok());
    faults_.sync_fails = true;
    EXPECT_EQ(put(*kv, KvMode::write_durable, "a", "1").code(), Code::may_have_happened);
    faults_.sync_fails = false;
    EXPECT_FALSE(kv->sync().ok());
    EXPECT_EQ(put(*kv, KvMode::write_durable, "b", "1").code(), Code::io_error);
    EXPECT_EQ(get(*kv, "before"), "1") << "reading goes on";
  }
  auto kv = open(false, env_.get());
  ASSERT_NE(kv, nullptr);
  EXPECT_EQ(get(*kv, "before"), "1");
  EXPECT_EQ(get(*kv, "b"), std::nullopt);
  EXPECT_TRUE(put(*kv, KvMode::write_durable, "c", "1").ok());
}

}  // namespace
}  // namespace penstock::kv
