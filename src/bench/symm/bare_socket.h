// A plain TCP connection between two PEs, without symmetric memory: what far rows are beside.
#pragma once

#include "pes.h"

namespace penstock::bench {

// Both spin when they wait, as PEs do. One thread at each side.
class BareSocket {
 public:
  // Together with the other PE: the second one listens, for the first one alone.
  static Outcome<std::unique_ptr<BareSocket>> connect(job::Member& member, uint32_t first,
                                                      uint32_t second);

  // Of the first: so many bytes there, and as many back. One call is both ways.
  Status pings(uint64_t calls, uint64_t bytes);
  // So many bytes there, and a word back when all calls' have come.
  Status streams(uint64_t calls, uint64_t bytes);
  Status end();
  // Of the second: answers until end().
  Status serve();

 private:
  struct Order;
  explicit BareSocket(UniqueFd socket) : socket_(std::move(socket)) {}
  Status send_all(Bytes bytes);
  Status receive_all(MutableBytes bytes);

  UniqueFd socket_;
  std::vector<std::byte> buffer_;
};

}  // namespace penstock::bench
