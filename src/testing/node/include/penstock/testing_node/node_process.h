// A node with its mount, as a user starts it: `penstock up` in the foreground.
#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

#include "penstock/testing.h"

namespace penstock::test {

struct NodeOptions {
  bool mount = true;         // where this machine can
  uint64_t descriptors = 0;  // that the process may have; 0: as many as this one
  std::vector<std::string> arguments = {};
};

// It has a scratch directory of its own, and dies with the thread that started it. One thread at a
// time may use it.
class NodeProcess {
 public:
  explicit NodeProcess(NodeOptions options = {});
  ~NodeProcess();  // stop()
  NodeProcess(const NodeProcess&) = delete;
  NodeProcess& operator=(const NodeProcess&) = delete;

  // Why no node can be mounted on this machine; empty where one can.
  static std::string why_no_mount();

  // Starts it and waits until it serves, also after stop() or kill(), on the same store. False when
  // it does not come up: ending() says why.
  bool start();
  // As an operator does: it ends by itself, and is killed only where it hangs.
  void stop();
  void suspend();  // it stays, and does nothing
  void kill();     // as the kernel does when memory is out

  // False once it has ended, which it should not have; ending() says how.
  bool lives();
  // How it ended, and its last words.
  std::string ending() const;
  // All that it has said since its last start.
  std::string words() const { return read_file(said_); }
  pid_t pid() const { return pid_; }

  const std::string& scratch() const { return scratch_.path(); }  // for what a test wants beside it
  const std::string& store() const { return store_; }
  std::string socket() const { return store_ + "/agent.sock"; }
  const std::string& mount() const { return mount_; }  // empty: there is none
  std::string path(const std::string& name) const { return mount_ + "/" + name; }

 private:
  [[noreturn]] void run() const;
  void unmount() const;

  const NodeOptions options_;
  const ScratchDirectory scratch_;
  const std::string store_;
  const std::string said_;
  std::string mount_;
  pid_t pid_ = 0;  // 0: not started yet, or stopped
  int status_ = 0;
  bool ended_ = false;
};

}  // namespace penstock::test
