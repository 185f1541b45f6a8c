// What nodes that are restricted may ask for, as whoever has the names judges it
// (docs/decisions/0066): a restriction, and what the node was shown and has proven under it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "penstock/engine.h"
#include "penstock/meta.h"
#include "penstock/rights.h"

namespace penstock::meta_net {

// A restriction that is in force.
struct Limits {
  rights::Restriction what;
  uint64_t since = 0;  // of the map: another for each change
};

class Limited;

// Thread safe; may block. What it is made of outlives it.
class NodeRights {
 public:
  // Null: it is not restricted. Thread safe, from any thread, without blocking.
  using Find = std::function<std::shared_ptr<const Limits>(NodeId)>;

  NodeRights(meta::Meta& meta, const engine::Clock& clock, Find find);
  ~NodeRights();
  NodeRights(const NodeRights&) = delete;
  NodeRights& operator=(const NodeRights&) = delete;

  // What a call of that session is judged by; null: nothing limits it. stale: of an earlier session
  // than another call was.
  Result<std::shared_ptr<Limited>> of(NodeId node, uint64_t session);

  // Whether the node is restricted now. Does not block.
  bool limits(NodeId node) const { return find_(node) != nullptr; }
  // Whether the node's newest session was shown that file, or has proven the right to read or to
  // write its bytes. Does not block.
  enum class Right : uint8_t { name, read, write };
  bool has(NodeId node, InodeId inode, Right right);

  // What is judged beside the names: a hold of what that session was shown; a lock of what it has
  // open. Do not block.
  enum class May : uint8_t { yes, unknown, only_reads };
  struct Hold {
    May may = May::yes;
    InodeId inode;  // the subtree's root, where it says the root's number
  };
  Hold may_hold(NodeId node, uint64_t session, InodeId inode, bool exclusive);
  // `writes`: one of fcntl() for writing, which needs a file that is open for writing. All others
  // need an open file, however it is open.
  bool may_lock(NodeId node, uint64_t session, InodeId inode, bool writes);

 private:
  std::shared_ptr<Limited> known(NodeId node, uint64_t session, const Limits& limits);

  meta::Meta& meta_;
  const engine::Clock& clock_;
  const Find find_;
  engine::Mutex mutex_;
  std::map<NodeId, std::shared_ptr<Limited>> nodes_;  // the newest of each; under the mutex
};

}  // namespace penstock::meta_net
