// What newer kernels have and libfuse 3.14 does not know: files without a name (FUSE_TMPFILE),
// birth times (FUSE_STATX), and that the node takes privileges from files that are written
// (FUSE_HANDLE_KILLPRIV_V2, docs/decisions/0030).
#pragma once

#include <cstddef>
#include <span>
#include <sys/uio.h>

namespace penstock::fuse {

// A file without a name is asked for as one of this name, which no real request can have.
inline constexpr const char* kUnnamed = "/";

// To be called for each request before libfuse sees it; `context` is the Front. True: it was
// answered on `device`. One for a file without a name becomes one that libfuse serves.
bool serve_newer_request(void* context, int device, std::span<std::byte> request);

// To be called with each reply that libfuse writes, in the thread that got its request: accepts
// what the kernel has offered there.
void amend_reply(std::span<const iovec> parts);

// Whether the request that this thread serves is to take set-id bits from the file that it changes,
// as far as requests say so.
bool request_takes_set_ids();

}  // namespace penstock::fuse
