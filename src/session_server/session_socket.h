// Datagrams with descriptors over a session's socket, and the process at its other end.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "penstock/base.h"
#include "penstock/sessions.h"

namespace penstock::session_server {

Result<sessions::Peer> peer_of(int socket);
// A descriptor that becomes readable when the process ends; none for this process itself, and where
// it has no number here (another pid namespace) or may not be watched. peer_gone: it has ended.
Result<UniqueFd> watch_process(int32_t pid);

struct Datagram {
  Bytes bytes;  // valid until the thread receives the next one
  std::vector<resources::ForeignFd> descriptors;
};
// Receives one datagram. busy: none is there; peer_gone: the peer has closed; bad_message: it is
// longer, or has more descriptors, than any message. Never blocks. Descriptors are closed in the
// name of `sender`.
Result<Datagram> receive(int socket, const std::shared_ptr<resources::Account>& sender);

// busy when there is no room in the socket. Never blocks.
Status try_send(int socket, const sessions::ReplyPacket& reply);

}  // namespace penstock::session_server
