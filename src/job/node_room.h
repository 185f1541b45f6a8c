// NodeRoom: a room in a thread of the process of a node that joined first, where no launcher has
// one.
#pragma once

#include "room.h"
#include "room_thread.h"
#include "uplink.h"

#include <chrono>
#include <memory>

namespace penstock::job {

// Made and destroyed by one thread.
class NodeRoom {
 public:
  // `listener` is that of listen_locally(). `above` is connected to the room above, or none: then
  // all ranks are of this node. `own` becomes the connection of this process.
  static Outcome<std::unique_ptr<NodeRoom>> start(UniqueFd listener, uint32_t size,
                                                  const Secret& secret, UniqueFd above,
                                                  UniqueFd* own);
  ~NodeRoom() { thread_.close(std::chrono::milliseconds(0)); }

  // Waits until the other ranks of the node have left or ended, but not longer than this.
  void close(std::chrono::milliseconds patience) { thread_.close(patience); }

 private:
  RoomThread thread_;
  std::unique_ptr<Uplink> uplink_;  // of the thread, as the room is
  std::unique_ptr<Room> room_;
};

}  // namespace penstock::job
