// What a target needs to judge capabilities of clients (docs/decisions/0066), and what a client
// needs to have some.
#pragma once

#include <optional>

#include "penstock/engine.h"
#include "penstock/wire.h"

namespace penstock::chain {

// Capabilities of a node that were judged before that version of the map count no more.
struct Restricted {
  NodeId node;
  uint64_t since = 0;
};

// Of the process of targets; asked in their loops.
class CapabilityJudge {
 public:
  enum class Verdict : uint8_t { good, forged, unknown_key };
  virtual ~CapabilityJudge() = default;
  // Whether clients need any: nodes prove who they are, and somebody signs.
  virtual bool are_asked_for() const = 0;
  // Whether it is signed. Thread safe; takes some 0.13 ms.
  virtual Verdict judge(const wire::Capability& capability) = 0;
};

// Of the process of clients; asked in their loops, and never blocks.
class CapabilitySource {
 public:
  virtual ~CapabilitySource() = default;
  // For chunks of that file, of the session of that word, with these rights at least. None yet: it
  // is on its way, ask again. access_denied: whoever has the names refuses it.
  virtual Result<std::optional<wire::Capability>> find(InodeId inode, uint64_t session,
                                                       uint8_t rights) = 0;
  // A target has refused it, or does not know its key any more: the next one is asked for anew.
  virtual void drop(const wire::Capability& capability) = 0;
};

}  // namespace penstock::chain
