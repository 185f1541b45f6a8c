// The bounds of a server that every host of the network may reach.
#pragma once

#include <cstddef>

namespace penstock::http::limits {

// Scrapers are few; further connections are turned away, so that descriptors stay for sessions.
inline constexpr unsigned kConnectionsMax = 32;
// Of one connection: a request's line and headers, and libmicrohttpd's own state.
inline constexpr size_t kConnectionBytesMax = 16 * 1024;
// Without a byte from or to the other side.
inline constexpr unsigned kIdleSecondsMax = 10;

}  // namespace penstock::http::limits
