// Sockets by which processes find a room that nobody opened for them.
#pragma once

#include "frame.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base.h"
#include "penstock/job/host_address.h"
#include "penstock/job/member.h"

namespace penstock::job {

// UNIX sockets with a name that is in no file system. Of a name that nobody else can have known.
// in_use: another process has it.
Outcome<UniqueFd> listen_locally(const std::string& name);
// Waits until somebody listens. access_denied: it is another user's.
Outcome<UniqueFd> connect_locally(const std::string& name, Time deadline);
// One turn of it: busy when nobody listens yet.
Result<UniqueFd> try_connect_locally(const std::string& name);

// Of a UNIX socket: its peer is a process of this user, or root. Of others: true.
bool is_trusted(int socket);

// Over all interfaces, at a port that is free.
Outcome<UniqueFd> listen_anywhere(uint16_t* port);
// The first of them that answers. `whom` is for the message where none does.
Outcome<UniqueFd> connect_to(const std::vector<HostAddress>& addresses, uint16_t port,
                             Time deadline, const std::string& whom);
// As people write it, without a port.
std::optional<HostAddress> parse_address(const std::string& text);
// It means another machine on another machine.
bool is_loopback(const HostAddress& host);

Status fill_with_random(MutableBytes bytes);
std::string as_hex(Bytes bytes);

}  // namespace penstock::job
