// A Meta of another node, asked over a net.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "penstock/engine.h"
#include "penstock/meta.h"
#include "penstock/wire.h"

namespace penstock::meta_net {

// What it points to outlives the Meta.
struct RemoteMetaConfig {
  static constexpr engine::Duration kCallTime = std::chrono::seconds(20);
  static constexpr uint32_t kSlots = 64;

  engine::Loop* loop = nullptr;
  engine::Net* net = nullptr;  // of that loop
  engine::Address service;
  // In place of `service`: where that is at the moment, asked by the thread that calls. Node 0:
  // nobody has it now, as if it was not reached.
  std::function<engine::Address()> find = {};
  // Of the agent, when a call begins; all tries of it name the same. Empty: 0, there is none.
  std::function<uint64_t()> session = {};
  // A number that no other RemoteMeta ever has at that service; 0: one is drawn from the operating
  // system's random bytes.
  uint64_t caller = 0;
  // All tries of one call together.
  engine::Duration call_time = kCallTime;
  engine::Duration counts_time = kCallTime;  // of counts(), which people wait for
  // Calls at a time that change something; others wait for their turn. At most kSlots.
  uint32_t slots = kSlots;
  wire::Protocol speaks = wire::kNodeProtocol;
  // Of a node that is restricted: told what access() has given, and asked for it again where the
  // service does not know a file that is open. Thread safe. Empty: it is not kept.
  std::function<void(const wire::Capability&)> given = {};
  std::function<std::optional<wire::Capability>(InodeId)> find_given = {};
  // Let go of when the Meta has ended: what only it is asked through.
  std::shared_ptr<void> keeps = {};
};

// Thread safe, for threads that may block: never from a loop. A call is tried again, with growing
// pauses, while its service is not reached or is busy, until its time is over. What changes
// something happens once, however often it is tried.
//
// What differs from a Meta with a database of its own:
//
// - Any call can end with peer_gone or timed_out: the service was not reached. One that changes
//   something ends with may_have_happened instead where some try may have come through; it may even
//   happen afterwards, while a message of it is on its way. access_denied also says that this node
//   is no agent.
// - create_files(): so many at a time as a front makes are one transaction; of longer lists each
//   part is one, and those behind a part that failed have not begun (cancelled). Where the answer
//   is lost, `made` has of each what was asked for, and not what it replaced.
// - resolve_many(), look(), place_files(), record_accessed(), forget_many(): of lists that do not
// fit one
//   request each part is one transaction. The first that fails ends the call.
// - read_directory(), orphans(), unsettled(): a transaction for each page.
// - set_layout(): `change` runs here, before the right to change it was checked, on what was read
//   just before; busy when others change the layout all the time.
// - newest_cookie() asks; where it is not answered, it says the greatest that there can be.
// - close() does nothing: the store belongs to others, too.
class RemoteMeta : public meta::Meta {
 public:
  static std::unique_ptr<RemoteMeta> make(const RemoteMetaConfig& config);

  // Chains 0 to that are own ones of the service's node (MetaServiceConfig).
  virtual Result<uint32_t> own_chains() = 0;

  // Whether that user may have the file open so (a sum of meta::Access). A node that is restricted
  // asks before it reads or writes bytes, or lists names: else these calls end with stale, or
  // access_denied.
  virtual Status access(const meta::Credentials& who, InodeId inode, uint32_t wanted) = 0;

  // What the session may do with that file's chunks, or with all. access_denied where nothing.
  virtual Result<wire::Capability> capability(InodeId inode) = 0;

  // A service beside that of the names does not know that this node, which is restricted, may know
  // of that file: it does when this has ended well. stale: nor does that of the names.
  virtual Status show(InodeId inode) = 0;

  // From now on each call, also of those under way, ends within that time: the process is to end,
  // and the service may be gone.
  virtual void hurry(engine::Duration call_time) = 0;

  struct Figures {
    uint64_t calls = 0;
    uint64_t tries = 0;
    uint64_t unknown = 0;  // calls of which it could not be found out whether they happened
  };
  virtual Figures figures() const = 0;
};

}  // namespace penstock::meta_net
