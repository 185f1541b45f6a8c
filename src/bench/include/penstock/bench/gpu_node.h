// A node with a node cache, for benchmarks of GPU memory.
#pragma once

#include <memory>
#include <string>

#include "penstock/base.h"
#include "penstock/console.h"

namespace penstock::agent {
class Agent;
}

namespace penstock::bench {

// A node in this process, with a node cache of so many bytes, and a session to it.
class BenchNode {
 public:
  static Outcome<std::unique_ptr<BenchNode>> start(const std::string& directory,
                                                   uint64_t cache_bytes);
  ~BenchNode();
  penstock_session* session() const { return session_.get(); }

 private:
  BenchNode();

  std::unique_ptr<agent::Agent> agent_;
  console::Session session_;
};

// Brings a whole file into the node cache.
Outcome<void> warm_up(penstock_session* session, const std::string& path, uint64_t bytes);

}  // namespace penstock::bench
