// What this node may do with chunks, as the node with the names has signed it, for whoever calls
// targets: docs/decisions/0066.
#pragma once

#include "limits.h"

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "penstock/chain.h"
#include "penstock/engine.h"

namespace penstock::agent {

// Thread safe. What is not known is asked for in a thread of its own, one after the other.
class Capabilities final : public chain::CapabilitySource {
 public:
  // Of that file, or of all: asked in a thread that may block.
  using Fetch = std::function<Result<wire::Capability>(InodeId)>;
  explicit Capabilities(Fetch fetch);
  ~Capabilities() override { stop(); }
  // Asks nothing any more. Idempotent.
  void stop();

  Result<std::optional<wire::Capability>> find(InodeId inode, uint64_t session,
                                               uint8_t rights) override;
  void drop(const wire::Capability& capability) override;
  // One that came with the right to open a file; and what there is for that file alone.
  void keep(const wire::Capability& capability);
  std::optional<wire::Capability> kept(InodeId inode);

 private:
  void run();
  void take(InodeId inode, const Result<wire::Capability>& fetched);
  void want(InodeId inode);

  const Fetch fetch_;
  engine::Mutex mutex_;
  engine::Condition wake_;
  // Under the mutex.
  std::optional<wire::Capability> whole_;
  std::map<InodeId, wire::Capability> files_;
  std::deque<InodeId> wanted_;
  std::set<InodeId> is_wanted_;
  std::map<InodeId, Status> refused_;  // until it was told
  bool is_stopping_ = false;
  engine::Thread thread_;
};

}  // namespace penstock::agent
