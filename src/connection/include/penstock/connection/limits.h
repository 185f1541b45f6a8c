// Bounds of an application's connection, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "penstock/base.h"

namespace penstock::connection::limits {

// NOLINTNEXTLINE(google-build-using-namespace): one name for all bounds.
using namespace penstock::limits;

// How long a control call waits for its reply. Long, as an fsync of a large file may take long; the
// death of the agent ends it at once.
inline constexpr std::chrono::seconds kCallTimeout{120};

// After an agent's death: for how long its successor is waited for (PENSTOCK_RECONNECT_SECONDS in
// the environment changes it for sessions made later, up to the maximum), and how often it is
// looked for.
inline constexpr std::chrono::seconds kReconnectTimeout{10};
inline constexpr std::chrono::seconds kReconnectTimeoutMax{3600};
inline constexpr std::chrono::milliseconds kReconnectPauseMin{5};
inline constexpr std::chrono::milliseconds kReconnectPauseMax{200};
// One step of setting a session up again.
inline constexpr int kSetupStepMs = 5000;

// How long a request waits for room in the socket. An agent that lives reads at once.
inline constexpr long kSendTimeoutSeconds = 30;

// Control calls in flight of one session; more callers wait. Half of what an agent holds for one
// session, so that it never stops reading.
inline constexpr uint32_t kCallsMax = 32;
// For so long a caller looks for the reply itself before it sleeps: what calls take that wait for
// nothing, as the sleep and the two wake-ups that it spares cost about as much.
inline constexpr std::chrono::microseconds kReplyLook{60};

// Transfers that one region of GPU memory counts apart: as many as a session's lanes share.
inline constexpr uint32_t kRegionTransfersMax = 4;

}  // namespace penstock::connection::limits
