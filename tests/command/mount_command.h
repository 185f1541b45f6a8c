// A store with a place to mount it, in a mount namespace of this process.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <thread>
#include <unistd.h>

#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::test {

namespace fs = std::filesystem;

class MountCommand : public testing::Test {
 protected:
  // True once this process has mounts of its own, in which mount(8) finds our helper.
  static bool enter_namespace() {
    static const bool entered = [] {
      if (::geteuid() != 0 || ::unshare(CLONE_NEWNS) != 0) return false;
      if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
      // mount(8) looks for helpers in /sbin, and needs nothing else there.
      if (::mount("none", "/usr/sbin", "tmpfs", 0, nullptr) != 0) return false;
      std::error_code error;
      fs::create_symlink(command_path(), "/sbin/mount.penstock", error);
      if (!error) fs::create_symlink(command_path(), "/sbin/mount.fuse.penstock", error);
      if (!error) fs::create_symlink(command_path(), "/sbin/mount.fuse.hf3fs", error);
      return !error;
    }();
    return entered;
  }
  void SetUp() override {
    if (!enter_namespace()) GTEST_SKIP() << "needs to be root, with mounts of its own";
    if (::access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "no /dev/fuse";
    fs::create_directory(place_);
    // A store, without a node.
    ASSERT_EQ(penstock({"up", store_, "--background"}).exit_code, 0);
    ASSERT_EQ(penstock({"down", store_}).exit_code, 0);
  }
  void TearDown() override {
    penstock({"down", store_});
    while (::umount2(place_.c_str(), MNT_DETACH) == 0) {
    }
  }
  bool can_write() const {
    std::ofstream file(place_ + "/written");
    file << "x" << std::flush;
    return file.good();
  }
  void kill_node() const {
    const std::string text = penstock({"status", store_, "--json"}).out;
    const size_t at = text.find("\"pid\"", text.rfind("\"mounts\""));
    const size_t pid_at = at == std::string::npos ? text.find("\"pid\"") : at;
    ASSERT_NE(pid_at, std::string::npos);
    const pid_t pid = std::atoi(text.c_str() + text.find(':', pid_at) + 1);
    ASSERT_GT(pid, 1);
    ASSERT_EQ(::kill(pid, SIGKILL), 0);
    ASSERT_TRUE(eventually([this] { return penstock({"status", store_}).exit_code != 0; }));
  }

  const ScratchDirectory scratch_;
  const std::string store_ = fs::canonical(scratch_.path()).string() + "/store";
  const std::string place_ = fs::canonical(scratch_.path()).string() + "/place";
};

}  // namespace penstock::test
