// Bounds of the session server, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "penstock/base.h"

namespace penstock::session_server::limits {

using namespace penstock::limits;  // NOLINT(google-build-using-namespace): one name for all bounds

// A session's socket and its process.
inline constexpr uint64_t kSessionDescriptors = 2;
// What a session's account is charged with of the agent's heap for itself, its requests that wait
// and the replies that do.
inline constexpr uint64_t kSessionHeapBytes = 384 * kKiB;
// Kept open to be given up when there are no others, for root and the user of this process: a
// socket and the process at its other end.
inline constexpr uint32_t kSpareDescriptors = 4;
static_assert(kSpareDescriptors >= kSessionDescriptors, "they make room for one session");
// After this pause connections are looked at again, when there was no descriptor for them.
inline constexpr std::chrono::milliseconds kAcceptPause{100};
// Requests of a session wait in the socket when so much of them waits here.
inline constexpr size_t kRequestBytesWaitingMax = 64 * kKiB;

// Threads that execute control calls. Some are kept free of requests, for the ends of sessions.
inline constexpr uint32_t kWorkers = 16;
inline constexpr uint32_t kWorkersForRequests = 12;
// Of these, what the requests of one user other than root may occupy.
inline constexpr uint32_t kWorkersPerUser = 6;
static_assert(kWorkersPerUser < kWorkersForRequests, "one user cannot stall the others");
// Requests of one session that are executed at once, and that may wait; beyond that its socket is
// not read.
inline constexpr uint32_t kRequestsAtOnceMax = 4;
inline constexpr uint32_t kRequestsWaitingMax = 64;
static_assert(kRequestsAtOnceMax < kWorkersPerUser, "one session cannot stall its user's others");
static_assert(kWorkersForRequests < kWorkers, "a session's end finds a thread");

// How often the server looks for sessions whose application has not read its replies for too long.
inline constexpr int kMuteLookMs = 100;

}  // namespace penstock::session_server::limits
