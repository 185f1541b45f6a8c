// Nodes with names on a PostgreSQL server, and programs that make files meanwhile.
#pragma once

#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <set>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "penstock/json.h"
#include "penstock/testing.h"
#include "penstock/testing_node.h"
#include "penstock/testing_postgres.h"

namespace penstock::test {

namespace fs = std::filesystem;

class NamesTest : public testing::Test {
 protected:
  void SetUp() override {
    server_ = PostgresServer::shared();
    if (server_ == nullptr) GTEST_SKIP() << PostgresServer::kMissing;
    database_ = server_->new_database();
    url_ = server_->url(database_);
  }
  void TearDown() override {
    if (server_ != nullptr) penstock({"down", store_});
  }

  static void good(const std::vector<std::string>& words, const std::string& text = "") {
    const Output output = penstock(words);
    EXPECT_EQ(output.exit_code, 0) << words[0] << ": " << output.err << output.out;
    EXPECT_THAT(output.out + output.err, testing::HasSubstr(text));
  }
  static void bad(const std::vector<std::string>& words, const std::string& text) {
    const Output output = penstock(words);
    EXPECT_EQ(output.exit_code, 1) << words[0] << ": " << output.out;
    EXPECT_THAT(output.err, testing::HasSubstr(text));
  }
  static void check(const std::string& store) { good({"metadata", "check", store}, " 0 problems"); }
  static std::string names_at(const std::string& store) {
    const Json status = Json::parse(penstock({"status", store, "--json"}).out, nullptr, false);
    return status.is_object() ? status["names"].value("at", "") : "";
  }

  PostgresServer* server_ = nullptr;
  std::string database_;
  std::string url_;
  const ScratchDirectory scratch_;
  const std::string store_ = scratch_ / "store";
};

// Programs that make files, each with a thread of its own, and remember which were acknowledged.
class Makers {
 public:
  Makers(std::string place, int count) : place_(std::move(place)) {
    for (int i = 0; i < count; ++i) threads_.emplace_back([this, i] { run(i); });
  }
  ~Makers() { stop(); }

  int made() const { return made_; }
  // Makes go on: so many more within the time.
  bool go_on(int more, std::chrono::milliseconds patience = std::chrono::seconds(10)) const {
    const int before = made_;
    return eventually([&] { return made_ >= before + more; }, patience);
  }
  void stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  // What programs were told, but for those that a node that is killed leaves behind.
  std::map<int, int> errors() const {
    const std::lock_guard lock(mutex_);
    std::map<int, int> all = errors_;
    for (const int gone : {ENOTCONN, ECONNABORTED, EIO}) {
      if (may_die_) all.erase(gone);
    }
    return all;
  }
  void may_die() { may_die_ = true; }
  // Those that are missing, or have other bytes than they were given. After stop().
  int missing(const std::string& place) const {
    int missing = 0;
    for (const auto& [name, content] : files_) {
      struct stat facts {};
      const bool is_there = ::stat((place + "/" + name).c_str(), &facts) == 0;
      const bool is_good =
          is_there && (content.empty() || read_file(place + "/" + name) == content);
      if (!is_good) ADD_FAILURE() << name << (is_there ? " has other bytes" : " is missing");
      missing += is_good ? 0 : 1;
    }
    // Those that were removed.
    for (const std::string& name : removed_) {
      struct stat facts {};
      if (::stat((place + "/" + name).c_str(), &facts) == 0) {
        ADD_FAILURE() << name << " is there again";
        ++missing;
      }
    }
    return missing;
  }

 private:
  void run(int maker) {
    const std::string directory = "of" + std::to_string(maker);
    ::mkdir((place_ + "/" + directory).c_str(), 0700);
    for (int i = 0; !stop_; ++i) {
      const std::string name =
          directory + "/" + std::to_string(generation_) + "." + std::to_string(i);
      if (!make(name, i)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  bool make(const std::string& name, int number) {
    const std::string path = place_ + "/" + name;
    const UniqueFd file(::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644));
    if (!file) return failed();
    std::string content;
    if (number % 4 == 0) {
      content = "bytes of " + name;
      if (::write(file.get(), content.data(), content.size()) !=
              static_cast<ssize_t>(content.size()) ||
          ::fsync(file.get()) != 0) {
        return failed();
      }
    }
    const bool removes = number % 5 == 4;
    if (removes && ::unlink(path.c_str()) != 0) return failed();
    ++made_;
    const std::lock_guard lock(mutex_);
    if (removes) {
      removed_.insert(name);
    } else {
      files_[name] = content;
    }
    return true;
  }
  bool failed() {
    const std::lock_guard lock(mutex_);
    ++errors_[errno];
    return false;
  }

  const std::string place_;
  const uint64_t generation_ = ++generations_;
  static inline std::atomic<uint64_t> generations_{0};
  std::atomic<bool> stop_{false};
  bool may_die_ = false;
  std::atomic<int> made_{0};
  mutable std::mutex mutex_;
  std::map<int, int> errors_;
  std::map<std::string, std::string> files_;
  std::set<std::string> removed_;
  std::vector<std::thread> threads_;
};

}  // namespace penstock::test
