// A node in a process of its own, as a user starts it, and what can be seen of it from outside.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

#include "penstock/base.h"

namespace penstock::test {

// What a node holds for its clients, as its status and the kernel tell.
struct Holdings {
  uint64_t sessions = 0;
  uint64_t open_files = 0;
  std::map<std::string, uint64_t> shares;  // "user 1001: heap_bytes"; only what is not 0
  // Of the process, by what they lead to; without the files of its store.
  std::map<std::string, uint64_t> descriptors;
  bool valid = false;
};
std::string to_text(const Holdings& holdings);

struct NodeOptions {
  bool mount = true;         // at scratch/mount, where this machine can
  uint64_t descriptors = 0;  // that the process may have; 0: as many as this one
  std::vector<std::string> arguments = {};
};

class NodeProcess {
 public:
  // Starts `penstock up` on scratch/store and waits until it is up.
  explicit NodeProcess(const std::string& scratch, const NodeOptions& options = {});
  ~NodeProcess();
  NodeProcess(const NodeProcess&) = delete;
  NodeProcess& operator=(const NodeProcess&) = delete;

  bool is_up() const { return up_; }
  // False once it has ended, which it should not have; ending() says how.
  bool lives();
  // How it ended, and its last words.
  std::string ending() const;
  // All that it has said.
  std::string words() const;
  pid_t pid() const { return pid_; }

  const std::string& store() const { return store_; }
  std::string socket() const { return store_ + "/agent.sock"; }
  const std::string& mount() const { return mount_; }  // empty: there is none

  Holdings holdings() const;
  uint64_t anonymous_bytes() const;
  uint64_t cpu_ms() const;

 private:
  void start(std::vector<std::string> arguments, uint64_t descriptors);
  bool wait_until_up();

  const std::string store_;
  const std::string said_;
  std::string mount_;
  pid_t pid_ = 0;
  int status_ = 0;
  bool up_ = false;
  bool ended_ = false;
};

// A session's socket; none where nobody listens.
UniqueFd connect_to(const std::string& path);

}  // namespace penstock::test
