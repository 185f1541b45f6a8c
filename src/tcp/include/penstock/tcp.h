// What two nodes say to one another over a stream of bytes: frames, and the greeting that comes
// before them. Pure functions over bytes, without sockets; any thread may call them. Format:
// docs/formats/tcp.md.
#pragma once

#include "penstock/tcp/frame.h"
#include "penstock/tcp/greeting.h"
#include "penstock/tcp/limits.h"
