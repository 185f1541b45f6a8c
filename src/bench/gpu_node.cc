#include <algorithm>
#include <fcntl.h>

#include "penstock/agent.h"
#include "penstock/bench.h"

namespace penstock::bench {

BenchNode::BenchNode() = default;

BenchNode::~BenchNode() {
  session_.reset();
  if (agent_ != nullptr) agent_->stop();
}

Outcome<std::unique_ptr<BenchNode>> BenchNode::start(const std::string& directory,
                                                     uint64_t cache_bytes) {
  std::unique_ptr<BenchNode> node(new BenchNode);
  agent::AgentConfig config;
  config.directory = directory;
  config.cache_bytes = cache_bytes;
  TRY_ASSIGN(node->agent_, agent::Agent::start(config));
  TRY_ASSIGN(node->session_, console::connect_session(directory));
  return node;
}

Outcome<void> warm_up(penstock_session* session, const std::string& path, uint64_t bytes) {
  TRY_ASSIGN(const console::Ring ring, console::create_ring(session, 4, 1));
  const penstock_file file = penstock_open(session, path.c_str(), O_RDONLY, 0);
  if (file < 0) return console::api_failure(file);
  for (uint64_t at = 0; at < bytes; at += 64 * kMiB) {
    penstock_io io{};
    io.operation = PENSTOCK_WARM;
    io.file = file;
    io.offset = at;
    io.length = std::min<uint64_t>(64 * kMiB, bytes - at);
    penstock_completion done{};
    if (penstock_prepare(ring.get(), &io) < 0 || penstock_submit(ring.get()) < 0 ||
        penstock_wait(ring.get(), &done, 1, 1, PENSTOCK_FOREVER) != 1) {
      return Failure{Code::io_error, penstock_last_error()};
    }
    if (done.result != static_cast<int64_t>(io.length)) {
      return Failure{Code::no_memory, "bench: the node cache does not hold the file"};
    }
  }
  penstock_file_close(session, file);
  return {};
}

}  // namespace penstock::bench
