// One application's session: its regions, rings and files, and its rights. It takes packets and
// gives packets, and knows nothing of the socket that they come from.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "penstock/client.h"
#include "penstock/resources.h"
#include "penstock/sessions/packet.h"
#include "penstock/sessions/session_node.h"

namespace penstock::sessions {

struct SessionStatus {
  uint64_t id = 0;
  int32_t pid = 0;  // as this process sees it; 0 when it is in a pid namespace of its own
  uint32_t uid = 0;
  uint32_t regions = 0;
  uint64_t region_bytes = 0;
  uint32_t rings = 0;
  uint32_t open_files = 0;
  uint64_t operations = 0;
  client::Allowance allowance;  // its own, beside its user's
};

// Requests of one session run on several threads at once; each blocks as long as it must.
class Session {
 public:
  // `account` is the session's own, and pays for all that it holds. `node` and `host` outlive it.
  Session(SessionNode& node, SessionHost& host, uint64_t id, Peer peer,
          std::shared_ptr<resources::Account> account);
  // After finish().
  ~Session();

  uint64_t id() const;
  const Peer& peer() const;
  const std::shared_ptr<resources::Account>& account() const;
  client::Terms& terms() { return terms_; }
  // What was agreed on in the greeting; version 0: there was none yet.
  wire::Agreement agreement() const;
  SessionStatus status() const;

  // Executes one request: exactly one reply to it. Any thread; the host has the requests of one
  // session executed in the order in which it got them, as far as it does not run them at once.
  ReplyPacket answer(Message message);

  // No process finds any more what the session has published. At once, so that an application that
  // comes again may publish the same.
  void withdraw_all();
  // Ends everything: cancels and waits for what is in flight, unmaps, closes. No request runs or
  // comes any more. Once.
  void finish();

 private:
  struct Parts;

  wire::Reply greet(uint64_t id, const wire::Hello& hello);

  client::Terms terms_;
  const std::unique_ptr<Parts> parts_;
  std::atomic<uint32_t> version_{0};   // 0: not greeted
  std::atomic<uint64_t> features_{0};  // written before the version
};

}  // namespace penstock::sessions
