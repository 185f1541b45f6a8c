// What the parts of one session share, and how they answer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "penstock/sessions/limits.h"
#include "penstock/sessions/packet.h"
#include "penstock/sessions/session.h"
#include "penstock/sessions/session_node.h"

namespace penstock::sessions {

struct Context {
  SessionNode& node;
  SessionHost& host;
  const uint64_t id;
  const Peer peer;
  const std::shared_ptr<resources::Account> account;

  const client::Credentials& credentials() const { return peer.credentials; }
  client::FileSystem& files() const { return *node.files; }

  // The application broke the protocol: begins the session's end. Any thread.
  void end_broken(const char* why) const;
  // Runs `work` on a shard's loop and waits until it has completed the operation given to it.
  void on_shard(uint32_t shard, const std::function<void(engine::Op& done)>& work) const;
  // The same for work that ends at once.
  void at_once_on_shard(uint32_t shard, const std::function<void()>& work) const;
  // The shard whose turn it is.
  uint32_t next_shard() const;
};

using Answer = Outcome<wire::ReplyBody>;

// The descriptor that goes with a reply, if any. It is open as long as the session's segment, or
// its keeper, lives.
struct Given {
  int fd = -1;
  std::shared_ptr<const void> keeper;
};

// "open /a/b: not found"
Failure failure_of(const std::string& what, Status status);

wire::Attributes to_wire(const client::Attributes& attributes);
meta::FileTime to_time(const wire::Time& time);

}  // namespace penstock::sessions
