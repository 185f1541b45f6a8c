// Uplink: a node's room's connection to the room above it.
#pragma once

#include "connection.h"
#include "loop.h"
#include "room.h"

#include <memory>
#include <string>

namespace penstock::job {

// Of the loop's thread.
class Uplink : public RoomAbove {
 public:
  struct Above {
    Hello hello;       // its rank: the number of this node, or kAllRanks where nobody numbered it
    std::string name;  // of the process that has the room above, for messages
  };

  // `socket` is connected, over TCP.
  Uplink(Loop& loop, UniqueFd socket, const Above& above);
  ~Uplink() override;

  // Before anything joins. The room is lent, and outlives this.
  Status begin(Room* room);

  void joined(uint32_t rank) override;
  void bring(const Turn& turn, std::vector<std::byte> body) override;
  void withdraw(const Turn& turn) override;
  void ended(const EndedBody& ended) override;

 private:
  void read();
  Status act(const Frame& frame);
  void send(FrameHeader header, std::vector<std::byte> body);
  void flush();
  void lose(const std::string& why);

  Loop& loop_;
  const uint32_t size_;
  const std::string name_;
  Room* room_ = nullptr;
  std::unique_ptr<Connection> connection_;  // none: lost
  Loop::Token token_ = 0;
  bool welcomed_ = false;
};

}  // namespace penstock::job
