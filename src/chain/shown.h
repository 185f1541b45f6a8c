// Capabilities that clients have shown to one target: one look for each call, instead of a
// signature (decision 0066).
#pragma once

#include "fence.h"
#include "limits.h"

#include <map>
#include <unordered_map>

#include "penstock/chain/capabilities.h"

namespace penstock::chain {

// Owner thread of the target's loop.
class Shown {
 public:
  // Of whoever the transport says has called.
  struct Use {
    NodeId peer;
    uint64_t session = 0;  // that the call names
    InodeId inode;
    ChainId chain;
    uint8_t rights = 0;
  };
  // ok; stale where the session is over; bad_handle where nothing that it has shown allows it.
  Status may(const Use& use, const Fence& fence);

  // Takes what a peer shows. access_denied: it is none of that peer's, or none that counts; stale:
  // its session is over; bad_handle: the key is not known here; busy: too many at once.
  Status show(NodeId peer, const wire::Capability& capability, const Fence& fence,
              CapabilityJudge& judge, engine::Time now);

  // Sessions below are over: what they have shown is forgotten.
  void fence(const wire::AgentSession& lowest);
  // What was judged before counts no more.
  void restrict(const Restricted& restricted);

  size_t size() const { return whole_.size() + newer_.size() + older_.size(); }

 private:
  struct Key {
    uint64_t session = 0;
    uint64_t inode = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      return static_cast<size_t>((key.session * 0x9e3779b97f4a7c15 ^ key.inode) *
                                 0xff51afd7ed558ccd);
    }
  };
  struct Entry {
    uint8_t rights = 0;
    uint32_t chain_first = 0;
    uint32_t chain_last = 0;
    uint64_t judged = 0;
  };
  using Entries = std::unordered_map<Key, Entry, Hash>;
  struct Pace {
    engine::Time since{};
    uint32_t count = 0;
  };

  static bool allows(const Entry& entry, const Use& use);
  const Entry* find(const Key& key);
  void add(const Key& key, const Entry& entry);
  bool is_too_fast(NodeId peer, engine::Time now);
  template <class Goes>
  void erase_if(const Goes& goes);

  std::unordered_map<uint64_t, Entry> whole_;  // of sessions that may use all files
  // Those of single files; the older half goes when the newer one is full.
  Entries newer_;
  Entries older_;
  std::map<NodeId, uint64_t> restricted_;
  std::map<NodeId, Pace> paces_;
};

}  // namespace penstock::chain
