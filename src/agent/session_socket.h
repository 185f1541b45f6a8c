// Datagrams with descriptors over a session's socket, and who is at its other end.
#pragma once

#include "foreign_fd.h"

#include <memory>
#include <string>
#include <vector>

#include "penstock/client.h"
#include "penstock/wire.h"

namespace penstock::agent {

struct Peer {
  client::Credentials credentials;
  int32_t pid = 0;  // 0 when it has none in our pid namespace
};
Result<Peer> peer_of(int socket);
// A descriptor that becomes readable when the process ends; none for this process itself, and where
// it has no number here (another pid namespace) or may not be watched. peer_gone: it has ended.
Result<UniqueFd> watch_process(int32_t pid);

struct Message {
  wire::Request request;
  std::vector<ForeignFd> descriptors;
  size_t bytes = 0;
};

// Receives one message. busy: none is there; peer_gone: the peer has closed; bad_message: it is no
// message of ours, or came with other descriptors than it needs. Never blocks. Descriptors are
// closed in the name of `sender`.
Result<Message> receive(int socket, const std::shared_ptr<Account>& sender);

// A reply as it is sent, perhaps with a descriptor, which is open as long as its keeper lives.
struct OutgoingReply {
  std::string bytes;
  int descriptor = -1;
  std::shared_ptr<const void> keeper;
};
// A page that does not fit becomes too_large.
std::string bytes_of(const wire::Reply& reply);
// busy when there is no room in the socket. Never blocks.
Status try_send(int socket, const OutgoingReply& reply);

}  // namespace penstock::agent
