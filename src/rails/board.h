// What stands behind Introductions: who serves what, who is vouched for, and the service itself.
#pragma once

#include "messages.h"

#include <list>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "penstock/engine.h"
#include "penstock/rails/limits.h"

namespace penstock::rails::internal {

// Makes a queue pair for a caller; in its loop.
class Host {
 public:
  // On failure `trouble` says why, for the caller's people.
  virtual Result<verbs::Offer> accept(engine::Peer peer, const Wanted& wanted,
                                      std::string& trouble) = 0;

 protected:
  ~Host() = default;
};

// Where a loop is handed what others ask of it. It outlives the loop's net, as some may be on its
// way.
struct Inbox {
  engine::Loop* loop = nullptr;
  Host* host = nullptr;  // of the loop's thread only; null once it was closed
};

class Board final : public engine::Service {
 public:
  explicit Board(engine::Loop& loop);
  ~Board();

  // Any thread.
  void serve(uint32_t service, std::shared_ptr<Inbox> inbox);
  void withdraw(uint32_t service);
  // Whether a connection stands, or stood a moment ago, on which that peer has proven itself: its
  // number, key and roles.
  bool vouches_for(const engine::Peer& peer, engine::Time now) const;

  // In the service's loop.
  void on_call(engine::IncomingCall& call) override;
  void stop(engine::Op& done);

 private:
  struct Ask;
  struct Watch {
    engine::IncomingCall* call = nullptr;
    NodeId node;
    engine::Time until{};
  };
  struct PeerOrder {
    bool operator()(const engine::Peer& a, const engine::Peer& b) const {
      return std::tie(a.node, a.roles, a.key) < std::tie(b.node, b.roles, b.key);
    }
  };

  void introduce(engine::IncomingCall& call);
  void finish(Ask& ask);
  void watch(engine::IncomingCall& call);
  void look();
  void look_later();
  void stop_if_done();

  engine::Loop& loop_;
  // In the service's loop.
  std::list<Watch> watches_;  // the oldest first
  std::map<NodeId, uint32_t> watches_of_;
  uint32_t asks_ = 0;
  engine::Timer timer_;
  bool timer_runs_ = false;
  bool stopped_ = false;
  engine::Op* done_ = nullptr;

  mutable engine::Mutex mutex_;
  std::map<uint32_t, std::shared_ptr<Inbox>> served_;
  // When each has asked or begun to watch last.
  std::map<engine::Peer, engine::Time, PeerOrder> seen_;
};

}  // namespace penstock::rails::internal
