// A session's socket, as the application's side uses it.
#pragma once

#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/wire.h"

namespace penstock::connection {

// peer_gone when no process listens there, else why it failed.
Outcome<UniqueFd> connect_to(const std::string& path);

// From now on a send on this socket waits for room for a limited time only.
void bound_sends(int socket);

// Sends one request with descriptors; timed_out when the socket had no room for too long. Thread
// safe.
Status send_request(int socket, const wire::Request& request, const std::vector<int>& descriptors);

// Receives one reply; blocks, unless `flags` (of recvmsg) say otherwise: busy then, when there is
// none. peer_gone: the other side has closed. A descriptor that belongs to the reply is `given`;
// any other is closed. Thread safe: each reply is received by one.
Result<wire::Reply> receive_reply(int socket, int flags, UniqueFd* given);

// What a reply to a hello, which is ok, says was agreed on; wrong_version or bad_message where that
// is nothing that this library speaks.
Result<wire::Agreement> greeting_of(const wire::Reply& reply);

// One request and its reply on a socket that no other thread uses; timed_out after `timeout_ms`.
Result<wire::Reply> exchange(int socket, const wire::Request& request,
                             const std::vector<int>& descriptors, int timeout_ms);

}  // namespace penstock::connection
