// The door of a process: accepts connections of other nodes and hands each to the loop that serves
// what it wants.
#pragma once

#include <memory>

#include "penstock/tcp/net.h"

namespace penstock::tcp {

namespace internal {
class Door;
}  // namespace internal

// Runs in the loop of the TcpNet that it was made with; owner thread only, and gone before that net
// is closed. A caller whose hello does not come in time, or cannot be read, loses its connection;
// one that is of another cluster or version, looks for another node or for a service that nobody
// serves, is told so. However many do not greet, those that do get through.
class TcpListener {
 public:
  // A port of 0 is any that is free.
  static Outcome<std::unique_ptr<TcpListener>> listen(TcpNetwork& network, TcpNet& net,
                                                      const SocketAddress& at);
  ~TcpListener();

  // With the port.
  const SocketAddress& address() const;

 private:
  explicit TcpListener(std::unique_ptr<internal::Door> door);
  std::unique_ptr<internal::Door> door_;
};

}  // namespace penstock::tcp
