// A Meta as a service of its node.
#pragma once

#include <functional>
#include <memory>

#include "penstock/engine.h"
#include "penstock/kept_names.h"
#include "penstock/meta.h"
#include "penstock/meta_net/node_rights.h"
#include "penstock/wire.h"

namespace penstock::meta_net {

// What it points to outlives the service.
struct MetaServiceConfig {
  engine::Loop* loop = nullptr;
  engine::Net* net = nullptr;  // of that loop
  engine::Address address;
  meta::Meta* meta = nullptr;
  // Threads that wait for the database, and how many of them one node may keep at a time.
  uint32_t threads = 16;
  uint32_t threads_per_node = 8;
  wire::Protocol speaks = wire::kNodeProtocol;
  // What is changed is on stable storage before the answer: what an agent was told it may show to
  // others, and write chunks for. Answers that wait for that wait for one sync together.
  bool durable_answers = false;
  // Files that are made by create_files() have this number at least, else stale: what was written
  // for those of an earlier life of the process may have been removed since. 0: any.
  InodeId least_new{};
  // Chains 0 to that are the node's own, each with a service of its number. Agents are told.
  uint32_t own_chains = 0;
  // Told after a change that somebody asked for, in a thread that may block: an inode has no name
  // any more, or never had one; it has got its first one. Either may be empty.
  std::function<void(InodeId)> orphaned = {};
  std::function<void(InodeId)> named = {};
  // Whether an agent has a session of that number still, for what it may change under a hold only
  // (needs_hold() in messages.h): else that ends with stale, and is not done. Asked in threads that
  // may block. Empty: there are no holds.
  std::function<bool(NodeId, uint64_t session)> has_session = {};
  // What agents keep of names is told before these change. Null: they keep nothing.
  kept_names::NamesGuard* guard = nullptr;
  // By which calls of nodes that are restricted are judged. Null: none is.
  NodeRights* rights = nullptr;
  // Signs what nodes may do with chunks, in threads that may block; and up to which version of the
  // map their restrictions are known here. Empty: nobody is told that it may do anything.
  std::function<Status(wire::Capability&)> sign = {};
  std::function<uint64_t()> judged = {};
  // Whether one that is shown here was signed, in this life or an earlier one. Thread safe.
  std::function<bool(const wire::Capability&)> is_signed = {};
  // Whether this process may answer at all, asked in the loop: it may not have heard of the removal
  // of whoever asks. No: calls end with peer_gone. Empty: it may.
  std::function<bool()> may_serve = {};
  // Whether agents have yet to claim what they had in an earlier life, asked in the loop. Yes: only
  // what they need for that is answered (may_come_early() in messages.h), and all else is to come
  // again. Empty: they have.
  std::function<bool()> is_early = {};
};

// Answers nodes that have the role of an agent. A call is taken and answered in the loop, and
// carried out in a thread that may block. A call that changes something happens once in the life of
// the service, however often it comes; of that a caller keeps a slot's worth of memory here until
// it has asked for nothing for two minutes.
//
// Owner thread of the loop, but for making it and its end.
class MetaService {
 public:
  static std::unique_ptr<MetaService> make(const MetaServiceConfig& config);
  // Nothing is asked any more: stop() has completed, or start() was never called.
  virtual ~MetaService() = default;

  virtual void start() = 0;
  // No call is taken any more, what waits ends with peer_gone, what is under way is answered; then
  // `done` completes. Once, after start().
  virtual void stop(engine::Op& done) = 0;

  // Thread safe; blocks. What a session asked for of which has_session() says by now that there is
  // none is done, or never will be.
  virtual void let_end() = 0;

  struct Figures {
    uint64_t answered = 0;
    uint64_t repeated = 0;  // of these: by the answer of an earlier one
    uint64_t refused = 0;
    uint64_t busy = 0;
    size_t open = 0;  // calls that have no answer yet
    size_t callers = 0;
    size_t kept_bytes = 0;  // of answers
    uint64_t syncs = 0;     // for durable answers
  };
  virtual Figures figures() const = 0;
};

}  // namespace penstock::meta_net
