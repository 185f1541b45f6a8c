// What goes between an application and its session: packets, each of bytes and descriptors. How
// they travel is the matter of the session's host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "penstock/client.h"
#include "penstock/resources.h"
#include "penstock/wire.h"

namespace penstock::sessions {

// The process at the other end.
struct Peer {
  client::Credentials credentials;
  int32_t pid = 0;  // 0 when it has none in our pid namespace
};

// A request as it came: one message of the protocol, within its limits, with as many descriptors as
// it needs.
struct Message {
  wire::Request request;
  std::vector<resources::ForeignFd> descriptors;
  size_t bytes = 0;
};
// Foreign input. bad_message: it is no message of the protocol, or came with other descriptors than
// it needs; busy: its sender has too many descriptors open here, with which it is charged.
Result<Message> message_of(Bytes packet, std::vector<resources::ForeignFd> descriptors);

// A reply as it is to be sent, perhaps with a descriptor, which is open as long as its keeper
// lives.
struct ReplyPacket {
  std::string bytes;
  int descriptor = -1;
  std::shared_ptr<const void> keeper;
  bool ends_session = false;  // the application broke the protocol, and learns of it
};

}  // namespace penstock::sessions
