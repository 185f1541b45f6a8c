// A node as a user starts it, and what can be seen of it from outside.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "penstock/base.h"
#include "penstock/testing_node.h"

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

class WatchedNode : public NodeProcess {
 public:
  // Starts it; is_up() says whether it came up.
  explicit WatchedNode(NodeOptions options = {}) : NodeProcess(std::move(options)), up_(start()) {}

  bool is_up() const { return up_; }
  Holdings holdings() const;
  uint64_t anonymous_bytes() const;
  uint64_t cpu_ms() const;

 private:
  const bool up_;
};

// A session's socket; none where nobody listens.
UniqueFd connect_to(const std::string& path);

}  // namespace penstock::test
