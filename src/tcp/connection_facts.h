// What the kernel knows of a connected socket.
#pragma once

#include "penstock/tcp/net.h"

namespace penstock::tcp {

ConnectionFacts facts_of(int socket, bool sealed);

}  // namespace penstock::tcp
