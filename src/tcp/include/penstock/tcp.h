// engine::Net over TCP, and what two nodes say to one another: frames, and the greeting that comes
// before them. Format: docs/formats/tcp.md.
#pragma once

#include "penstock/tcp/frame.h"
#include "penstock/tcp/greeting.h"
#include "penstock/tcp/limits.h"
#include "penstock/tcp/listener.h"
#include "penstock/tcp/net.h"
#include "penstock/tcp/network.h"
