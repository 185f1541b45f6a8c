// A node with a mount, and beside it a directory of the machine's own file system to compare with.
#pragma once

#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "penstock/agent.h"
#include "penstock/fuse.h"
#include "penstock/testing.h"

namespace penstock::posix {

// Made in a fresh directory under the system's temporary one, which is removed with it.
class MountedNode {
 public:
  // One for all tests of the program, with small chunks so that files have many. Null when this
  // machine cannot mount: then why_not() says why.
  static MountedNode* shared();
  static const std::string& why_not();

  ~MountedNode();

  const std::string& mount() const { return mount_path_; }  // an empty tree at the beginning
  const std::string& host() const { return host_path_; }    // the same, on the host's file system
  client::FileSystem& files() { return agent_->files(); }
  fuse::Mount& front() { return *mount_; }
  agent::Agent& agent() { return *agent_; }
  const std::string& scratch() const { return scratch_.path(); }
  // For sessions: the node listens there.
  const std::string& store() const { return store_path_; }

  // Ends mount and agent, starts them on the same store.
  void restart();

 private:
  MountedNode() = default;
  void start();

  const test::ScratchDirectory scratch_;
  const std::string store_path_ = scratch_.store();
  const std::string mount_path_ = scratch_ / "mount";
  const std::string host_path_ = scratch_ / "host";
  std::unique_ptr<agent::Agent> agent_;
  std::unique_ptr<fuse::Mount> mount_;
};

// Skips the test where this machine cannot mount.
class PosixTest : public ::testing::Test {
 protected:
  void SetUp() override {
    node_ = MountedNode::shared();
    if (!node_) GTEST_SKIP() << MountedNode::why_not();
  }
  MountedNode& node() { return *node_; }
  // A fresh directory of this name in the mount; everybody may write there.
  std::string directory(const std::string& name);

 private:
  MountedNode* node_ = nullptr;
};

using test::remove_all;

// The seed of this run: PENSTOCK_SEED, or a fixed one.
uint64_t seed();

}  // namespace penstock::posix
