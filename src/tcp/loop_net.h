// What stands behind a TcpNet: the connections of one loop, both those that it made and those that
// others made to its services.
#pragma once

#include "caller_side.h"
#include "incoming.h"
#include "stream.h"
#include "switchboard.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/tcp/net.h"

namespace penstock::tcp::internal {

class LoopNet;

// Whether that caller is to hear no more than that it was removed.
inline bool is_removed(const NetworkConfig& config, NodeId caller, uint32_t service) {
  return caller != kGuest && service != config.open_to_removed &&
         config.resolver->was_removed(caller);
}

// A connection to one service of another node, from the attempt to connect to its end.
class Outgoing final : public SocketUser, public CallerSide::Watcher {
 public:
  Outgoing(LoopNet& net, engine::Address to, std::vector<SocketAddress> addresses);

  void start();
  CallerSide& side() { return side_; }
  bool takes_calls() const {
    return !stopped_ && !stream_.failed() && !stream_.is_worn() && side_.takes_calls();
  }
  engine::Address to() const { return to_; }
  bool ready() const { return ready_; }
  Incarnation incarnation() const { return incarnation_; }
  const std::string& trouble() const { return trouble_; }
  std::optional<ConnectionFacts> facts() const { return stream_.facts(); }
  Status end() const { return end_; }
  // Ends an attempt that takes too long.
  void look();
  void stop(Status status);
  // Calls have ended, and nothing is under way.
  bool over() const { return over_ && !connecting_ && !shaking_hands_; }

  void on_completion(uint32_t what, int result, uint32_t flags) override;
  void on_welcome(const Welcome& welcome) override;
  void on_refusal(const Refused& refused) override;
  Status status_of_calls(Status end) override;
  void on_caller_end(Status status) override;

 private:
  void try_next();
  void connected();
  void on_secured();
  std::string unproven() const;
  void complain(std::string_view cause) const;

  LoopNet& net_;
  const engine::Address to_;
  const std::vector<SocketAddress> addresses_;
  size_t next_ = 0;  // of the addresses
  UniqueFd socket_;  // while it is being connected
  bool connecting_ = false;
  bool shaking_hands_ = false;
  HandshakeOp handshake_;  // has the socket then
  bool stopped_ = false;
  bool ready_ = false;
  bool over_ = false;
  bool refused_ = false;  // by somebody who was reached, or by this side
  engine::Time deadline_;
  engine::WallTime ends_ = kWithoutEnd;    // with the certificate of whoever is called
  engine::Time next_at_ = engine::kNever;  // when the address at hand has had its share of the time
  Incarnation incarnation_;
  std::string trouble_;
  Status end_ = Code::peer_gone;
  Stream stream_;
  CallerSide side_;
};

// A connection that another node made to one of the loop's services.
class Accepted final : public ServerSide::Watcher {
 public:
  Accepted(LoopNet& net, uint32_t service_number, engine::Service& service, engine::Peer peer,
           const Welcome& welcome, engine::WallTime ends);

  void start(UniqueFd socket, std::unique_ptr<Seal> seal);
  uint32_t service() const { return service_; }
  NodeId caller() const { return peer_.node; }
  ServerSide& side() { return side_; }
  void stop(Status status) { stream_.fail(status, ""); }
  void look(engine::WallTime now);
  bool stopped() const { return over_ || stream_.failed(); }
  bool over() const { return over_; }
  void on_server_end() override;

 private:
  LoopNet& net_;
  const uint32_t service_;
  const engine::Peer peer_;
  const engine::WallTime ends_;
  bool over_ = false;
  bool leaving_ = false;
  Stream stream_;
  ServerSide side_;
};

// Owner thread only.
class LoopNet final : public engine::Poller {
 public:
  LoopNet(Switchboard& board, engine::Loop& loop, engine::Parker& parker, engine::Net* local);
  ~LoopNet() override;
  Status create();
  void close();

  bool poll() override;
  bool prepare_sleep() override;
  void woke() override { sockets.ring.woke(); }

  void call(engine::CallOp& op);
  void cancel(engine::CallOp& op);
  void serve(engine::Address address, engine::Service& service);
  void withdraw(engine::Address address);
  void adopt(Greeted greeted);
  void expel(NodeId node);
  std::vector<PeerFacts> peers() const;
  std::optional<ConnectionFacts> connection(engine::Address address) const;

  // For its connections: one of them is over, and is destroyed at the end of the turn.
  void retire() { any_over_ = true; }
  NodeId self() const { return board.config().identity.node; }
  // Called now and then, for the listener.
  void set_looker(std::function<void()> look) { look_ = std::move(look); }

  // Turns of the loop until so many handshakes, all of which were stopped, have ended.
  void await(const uint32_t& handshakes_left) const;

  Switchboard& board;
  Sockets sockets;
  uint32_t handshakes = 0;  // of connections that this loop makes
  IncomingPool pool;

 private:
  struct Contact {
    std::unique_ptr<Outgoing> current;
    engine::Duration pause{};  // after the next failure
    engine::Time not_before{};
    Status last = Code::peer_gone;
    std::string trouble;
  };

  void make_room_for_guest();
  CallerSide* side_to(engine::Address address, Status& refused);
  bool flush();
  void reap();
  void note_end(Contact& contact);
  void look();

  engine::Parker& parker_;
  engine::Net* const local_;
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::map<engine::Address, Contact> contacts_;
  std::vector<std::unique_ptr<Outgoing>> ending_;  // connections that others follow already
  std::vector<std::unique_ptr<Accepted>> accepted_;
  std::map<uint32_t, engine::Service*> services_;
  std::function<void()> look_;
  engine::Timer timer_;
  bool any_over_ = false;
  bool attached_ = false;
  bool closed_ = false;
};

}  // namespace penstock::tcp::internal
