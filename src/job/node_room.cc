#include "node_room.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>

namespace penstock::job {

Outcome<std::unique_ptr<NodeRoom>> NodeRoom::start(UniqueFd listener, uint32_t size,
                                                   const Secret& secret, UniqueFd above,
                                                   UniqueFd* own) {
  auto node = std::make_unique<NodeRoom>();
  TRY(node->thread_.open());
  Loop& loop = node->thread_.loop();
  if (above) {
    node->uplink_ = std::make_unique<Uplink>(
        loop, std::move(above),
        Uplink::Above{{kAllRanks, size, secret}, "the process that made the unique id"});
  }
  node->room_ = std::make_unique<Room>(
      loop, Room::Options{.size = size, .secret = secret, .above = node->uplink_.get()},
      [](const End&) {});  // the others are told; nobody is there who could end them
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Failure{Status::from_errno(errno), std::strerror(errno)};
  }
  own->reset(ends[0]);
  node->room_->adopt(UniqueFd(ends[1]));
  if (node->uplink_) {
    if (const Status begun = node->uplink_->begin(node->room_.get()); !begun.ok()) {
      return Failure{begun, "no descriptor is left for the room of the job (ulimit -n)"};
    }
  }
  TRY(node->thread_.start(std::move(listener), {[at = node.get()](UniqueFd socket) {
                                                  at->room_->adopt(std::move(socket));
                                                },
                                                [at = node.get()] { return at->room_->is_over(); },
                                                [at = node.get()] {
                                                  at->room_.reset();
                                                  at->uplink_.reset();
                                                }}));
  return node;
}

}  // namespace penstock::job
