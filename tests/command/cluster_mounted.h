// Processes of a cluster on loopback whose nodes are mounted, in a mount namespace of this process.
#pragma once

#include "cluster_processes.h"

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

namespace penstock::test {

class MountedCluster : public ClusterProcesses {
 protected:
  explicit MountedCluster(std::vector<std::string> mounts) : mounts_(std::move(mounts)) {}

  void SetUp() override {
    if (!enter_namespace()) GTEST_SKIP() << "needs to be root, with mounts of its own";
    if (::access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "no /dev/fuse";
    for (const std::string& name : mounts_) std::filesystem::create_directory(place(name));
  }
  // Those whose node was lost, too.
  void TearDown() override {
    for (const std::string& name : mounts_) unmount(name);
  }

  void unmount(const std::string& name) const {
    while (::umount2(place(name).c_str(), MNT_DETACH) == 0) {
    }
  }
  static double seconds_of(const std::function<void()>& what) {
    const auto begin = std::chrono::steady_clock::now();
    what();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  static bool enter_namespace() {
    static const bool entered = ::geteuid() == 0 && ::unshare(CLONE_NEWNS) == 0 &&
                                ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    return entered;
  }

  const std::vector<std::string> mounts_;
};

}  // namespace penstock::test
