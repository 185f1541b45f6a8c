// Copies of an open database.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <sys/stat.h>
#include <thread>

#include "penstock/kv.h"
#include "penstock/testing.h"

namespace penstock::kv {
namespace {

using engine::KvMode;
using engine::KvTransaction;
namespace fs = std::filesystem;

class Checkpoint : public testing::Test {
 protected:
  static std::unique_ptr<engine::Kv> open(const std::string& path, bool create = false,
                                          bool read_only = false) {
    auto opened = open_rocksdb({.path = path, .create = create, .read_only = read_only});
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }
  static void put(engine::Kv& kv, const std::string& key, const std::string& value) {
    ASSERT_TRUE(kv.run(KvMode::write, [&](KvTransaction& transaction) -> Status {
                    transaction.put(key, value);
                    return {};
                  }).ok());
  }
  static std::map<std::string, std::string> content(engine::Kv& kv) {
    std::map<std::string, std::string> all;
    EXPECT_TRUE(kv.run(KvMode::read, [&](KvTransaction& transaction) -> Status {
                    return transaction.scan("", "",
                                            [&](std::string_view key, std::string_view value) {
                                              all.emplace(key, value);
                                              return true;
                                            });
                  }).ok());
    return all;
  }

  const test::ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "db";
  const std::string copy_ = scratch_ / "copy";
};

TEST_F(Checkpoint, has_what_was_committed_and_stands_still) {
  const auto kv = open(path_, true);
  // Some of it in tables, some in the log.
  for (int i = 0; i < 3000; ++i) put(*kv, std::to_string(i), std::string(20'000, 'x'));
  const auto before = content(*kv);
  ASSERT_TRUE(make_checkpoint(*kv, copy_).has_value());
  for (int i = 0; i < 10; ++i) put(*kv, std::to_string(i), "later");
  const auto copy = open(copy_, false, true);
  EXPECT_EQ(content(*copy), before);
  EXPECT_NE(content(*kv), before);
  EXPECT_FALSE(fs::exists(copy_ + ".making"));
  // The database may go on, or go, and the copy stays.
  put(*kv, "0", "later still");
  EXPECT_EQ(content(*copy), before);
}

TEST_F(Checkpoint, is_for_its_owner_alone) {
  const auto kv = open(path_, true);
  put(*kv, "a", "1");
  ASSERT_TRUE(make_checkpoint(*kv, copy_).has_value());
  struct stat facts {};
  ASSERT_EQ(::stat(copy_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0700u);
}

TEST_F(Checkpoint, says_how_much_it_has_so_that_a_damaged_one_is_refused) {
  {
    const auto kv = open(path_, true);
    for (int i = 0; i < 100; ++i) put(*kv, std::to_string(i), "value");
    ASSERT_TRUE(make_checkpoint(*kv, copy_).has_value());
  }
  std::string log;
  for (const auto& entry : fs::directory_iterator(copy_)) {
    if (entry.path().extension() == ".log" && entry.file_size() > 0) log = entry.path();
  }
  ASSERT_FALSE(log.empty());
  fs::resize_file(log, fs::file_size(log) / 2);
  const auto refused = open_rocksdb({.path = copy_, .read_only = true});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().status.code(), Code::corrupt);
}

TEST_F(Checkpoint, is_made_once_under_a_name_and_again_after_a_killed_attempt) {
  const auto kv = open(path_, true);
  put(*kv, "a", "1");
  fs::create_directories(copy_ + ".making/database");
  ASSERT_TRUE(make_checkpoint(*kv, copy_).has_value());
  put(*kv, "a", "2");
  EXPECT_FALSE(make_checkpoint(*kv, copy_).has_value());
  EXPECT_FALSE(fs::exists(copy_ + ".making"));
  EXPECT_EQ(content(*open(copy_, false, true)).at("a"), "1");
  EXPECT_FALSE(make_checkpoint(*kv, scratch_ / "no/where").has_value());
}

TEST_F(Checkpoint, is_of_one_moment_while_others_commit) {
  const auto kv = open(path_, true);
  std::atomic<bool> over{false};
  std::atomic<int> commits{0};
  // Both keys always have one value.
  std::thread writer([&] {
    while (!over) {
      const std::string value = std::to_string(++commits);
      ASSERT_TRUE(kv->run(KvMode::write, [&](KvTransaction& transaction) -> Status {
                      transaction.put("first", value);
                      transaction.put("second", value);
                      return {};
                    }).ok());
    }
  });
  for (int i = 0; i < 5; ++i) {
    const int least = commits.load() - 1;
    const std::string path = copy_ + std::to_string(i);
    const bool made = make_checkpoint(*kv, path).has_value();
    EXPECT_TRUE(made);
    if (!made || least < 1) continue;
    const auto all = content(*open(path, false, true));
    EXPECT_EQ(all.at("first"), all.at("second"));
    EXPECT_GE(std::stoi(all.at("first")), least);
  }
  over = true;
  writer.join();
}

TEST_F(Checkpoint, is_made_of_databases_only) {
  const auto kv = make_memory_kv();
  const auto made = make_checkpoint(*kv, copy_);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().status.code(), Code::not_supported);
}

}  // namespace
}  // namespace penstock::kv
