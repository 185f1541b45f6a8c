// Requests of newer kernels that libfuse 3.14 does not know: files without a name (FUSE_TMPFILE)
// and birth times (FUSE_STATX).
#pragma once

#include <cstddef>
#include <span>

namespace penstock::fuse {

// A file without a name is asked for as one of this name, which no real request can have.
inline constexpr const char* kUnnamed = "/";

// To be called for each request before libfuse sees it; `context` is the Front. True: it was
// answered on `device`. One for a file without a name becomes one that libfuse serves.
bool serve_newer_request(void* context, int device, std::span<std::byte> request);

}  // namespace penstock::fuse
