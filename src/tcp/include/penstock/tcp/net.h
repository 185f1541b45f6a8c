// engine::Net over TCP.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/engine.h"
#include "penstock/tcp/network.h"

namespace penstock::tcp {

namespace internal {
class LoopNet;
}  // namespace internal

// One other service, as a loop sees its connection.
struct PeerFacts {
  engine::Address address;
  bool connected = false;  // it has welcomed this node
  Incarnation incarnation;
  std::string trouble;  // why the last attempt or connection ended; empty while all is well
};

// One connection that this node made, as the kernel knows it at this moment.
struct ConnectionFacts {
  SocketAddress local, remote;
  bool sealed = false;         // by records of TLS; else in the clear
  bool by_kernel = false;      // which the kernel makes, and not this process
  uint64_t path_mtu = 0;       // the largest packet that the kernel knows to reach the other side
  uint64_t segment_bytes = 0;  // of payload in a packet
  uint64_t segments = 0;       // sent
  uint64_t retransmissions = 0;
  std::string congestion;  // how the kernel chooses its pace: "cubic"
};

// The Net of one loop; owner thread only. One connection for each address that the loop calls; it
// is made by the first call and goes when nobody has used it for a while. Calls to this node go to
// `local`, where there is one, and are served there, too.
//
// A call that was sent ends with its response, with timed_out at its deadline, or with peer_gone
// when its connection ends; in all cases only when its memory is touched no more. cancel() has an
// effect until the request is on its way. Calls wait in order while a connection is made or has as
// many calls in progress as its server allows; "busy" is the server's word. Exposed memory is the
// host's, and a span has at most limits::kSpanBytesMax bytes (else not_supported,
// invalid_argument).
//
// Of what arrives everything is checked; who breaks the protocol loses the connection.
class TcpNet final : public engine::Net {
 public:
  // `parker` is the one that the loop sleeps in. not_supported: the kernel has no io_uring with
  // rings of buffers (Linux 5.19), or the parker cannot watch. `local` may be null; all outlive it.
  static Outcome<std::unique_ptr<TcpNet>> create(TcpNetwork& network, engine::Loop& loop,
                                                 engine::Parker& parker,
                                                 engine::Net* local = nullptr);
  // close(), where that has not been called.
  ~TcpNet() override;

  // Ends all connections, and waits until the kernel has nothing of them. Calls end with closed, in
  // the next turn of the loop. Services must have been withdrawn by then, and have replied to all
  // calls before the object is destroyed.
  void close();

  void call(engine::CallOp& op) override;
  void cancel(engine::CallOp& op) override;
  // The address is one of this node, and not served yet.
  void serve(engine::Address address, engine::Service& service) override;
  void withdraw(engine::Address address) override;

  // Ends all connections with that node, which was removed: its calls, and calls to it.
  void expel(NodeId node);

  std::vector<PeerFacts> peers() const;
  // Some system calls. Nothing: there is no connection to that address now.
  std::optional<ConnectionFacts> connection(engine::Address address) const;
  // System calls of the loop's sockets so far.
  uint64_t system_calls() const;

  internal::LoopNet& internals() { return *net_; }

 private:
  explicit TcpNet(std::unique_ptr<internal::LoopNet> net);
  std::unique_ptr<internal::LoopNet> net_;
};

}  // namespace penstock::tcp
