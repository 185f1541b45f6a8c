// Bounds of this library, each with its reason.
#pragma once

#include <cstddef>

#include "penstock/controller.h"
#include "penstock/wire.h"

namespace penstock::membership::limits {

// Targets of one node: the disks of the largest machines, a few times over.
inline constexpr size_t kTargetsPerNode = 256;
// Of one heartbeat. What does not fit is said by the next, as long as it holds.
inline constexpr size_t kReportsPerHeartbeat = 1024;
inline constexpr size_t kAccusedPerHeartbeat = 1024;
static_assert(kTargetsPerNode * 22 + kReportsPerHeartbeat * 17 + kAccusedPerHeartbeat * 4 + 64 <
                  wire::kMembershipBytesMax,
              "a heartbeat fits a request");
// Of a refusal's reason: it is a sentence or two for people.
inline constexpr size_t kReasonBytesMax = 1024;
// Of one record of a map: a node with all of its cards and the longest names.
inline constexpr size_t kRecordBytesMax = 12 * kKiB;
static_assert(controller::limits::kCardsMax * (controller::limits::kNameBytesMax + 7) +
                      2 * controller::limits::kNameBytesMax + 128 <
                  kRecordBytesMax,
              "the largest record fits");
static_assert(kRecordBytesMax < wire::kMembershipBytesMax, "a piece holds a record at least");

// A token's secret: 128 random bits. A request for a certificate, and a certificate, as PEM: with
// P-256 they take 500 and 900 bytes.
inline constexpr size_t kSecretBytes = 16;
inline constexpr size_t kRequestBytesMax = 2 * kKiB;
inline constexpr size_t kCertificateBytesMax = 4 * kKiB;
inline constexpr size_t kAuthoritiesMax = 2;
// Guests' calls at a time, and how long a wrong token waits for its answer; of so many, more are
// told at once. Nothing is waited for of a guest, so that each takes a step of the controller.
inline constexpr size_t kGuestCallsMax = 64;
inline constexpr engine::Duration kWrongTokenPause = std::chrono::seconds(1);
inline constexpr size_t kWrongTokensMax = 256;
// Who is let in has a clock that differs by no more from the controller's: certificates and tokens
// end by it.
inline constexpr std::chrono::minutes kClocksApartMax{10};

// Calls that a controller has at a time: of each node some heartbeats and its question for the map.
inline constexpr size_t kCallsMax = 4 * controller::limits::kNodesMax;
// And the bytes of what these ask: a question of the longest kind from each of a thousand at once.
inline constexpr size_t kAskedBytesMax = 64 * kMiB;
static_assert(kAskedBytesMax / wire::kMembershipBytesMax >= 1000);
// Pieces of the map that a controller keeps as bytes until the map changes: many ask for the same.
inline constexpr size_t kKeptPiecesBytesMax = 32 * kMiB;

// A question that the controller answers at once is asked again after this time: it has a commit
// to wait for, and a lease must outlive a lost question.
inline constexpr engine::Duration kTryTime = std::chrono::seconds(2);
static_assert(kTryTime * 2 <= controller::limits::kLease);
// How much longer than the controller waits for news a node waits for its answer.
inline constexpr engine::Duration kMapGrace = std::chrono::seconds(1);
// Between two tries: at first what a message takes, then what a controller that is being replaced
// does not feel.
inline constexpr engine::Duration kAgainFirst = std::chrono::milliseconds(20);
inline constexpr engine::Duration kAgainMost = std::chrono::milliseconds(500);
// Heartbeats under way at a time: one at each interval of a try.
inline constexpr size_t kHeartbeatsMax = 4;
static_assert(kHeartbeatsMax * controller::limits::kHeartbeatInterval >= kTryTime);
// What is to be reported waits so long for more of it: one heartbeat tells all.
inline constexpr engine::Duration kReportPause = std::chrono::milliseconds(10);
// Grants that wait for their map. They are given in their order within a lease; of older ones
// nothing is left.
inline constexpr size_t kGrantsKept = 16;
// The map is asked for beside the question that waits at the controller no more often than this,
// however many say that it has changed.
inline constexpr engine::Duration kRefreshPause = std::chrono::milliseconds(50);
// Neighbours that are not reached for so long are accused, until they were reached for as long: the
// pauses of a loaded machine are shorter, and so accused and suspected are told apart within 10 s.
inline constexpr engine::Duration kAccuseAfter = std::chrono::milliseconds(1500);
static_assert(kAccuseAfter + controller::limits::kHeartbeatInterval < controller::limits::kLease,
              "accusations of a process that ended are over when its successor may be suspected");
// A target that may still be open elsewhere is asked for so long: the lease of a lost node ends.
inline constexpr engine::Duration kOpenPatience = 3 * controller::limits::kLease;
// A node that ends in order tries to say so for so long; after that its lease ends by itself.
inline constexpr engine::Duration kLeaveTime = controller::limits::kLease / 2;

}  // namespace penstock::membership::limits
