// A session's socket, as the application's side uses it.
#pragma once

#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/wire.h"

namespace penstock::api {

// peer_gone when nobody listens there, else why it failed.
Outcome<UniqueFd> connect_to(const std::string& path);

// Sends one request with descriptors. Blocks while the socket has no room. Thread safe.
Status send_request(int socket, const wire::Request& request, const std::vector<int>& descriptors);

// Receives one reply; blocks. peer_gone: the other side has closed.
Result<wire::Reply> receive_reply(int socket);

// One request and its reply on a socket that nobody else uses; timed_out after `timeout_ms`.
Result<wire::Reply> exchange(int socket, const wire::Request& request,
                             const std::vector<int>& descriptors, int timeout_ms);

}  // namespace penstock::api
