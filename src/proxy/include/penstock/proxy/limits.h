// Bounds of rings for kernels, each with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "penstock/base.h"

namespace penstock::proxy::limits {

// NOLINTNEXTLINE(google-build-using-namespace): one name for all bounds.
using namespace penstock::limits;

// Rings for kernels of one session: more would make each turn of their thread longer.
inline constexpr uint32_t kDeviceRingsMax = 64;
// Requests of one ring that are looked up side by side: enough for the memory's latency to be
// hidden, few enough for the first to be answered soon.
inline constexpr uint32_t kDeviceRingBatch = 64;
// For how long their thread polls after the last request: a kernel that works on what it got asks
// again by then. Then it sleeps, and looks in between. A sleep is a part of the time since the last
// request, so that a kernel waits no longer than that part; the longest sleep is one with which
// looking costs less than a hundredth of a processor.
inline constexpr std::chrono::microseconds kDeviceRingSpin{100};
inline constexpr int kDeviceRingSleepPart = 16;
inline constexpr std::chrono::microseconds kDeviceRingSleepMin{10};
inline constexpr std::chrono::microseconds kDeviceRingSleepMax{1000};
// For how long the thread stays awake for a kernel that is said to come: a launch, and some work.
inline constexpr std::chrono::microseconds kDeviceRingAwake{2000};
// For how long kernels are waited for that must leave a ring that is closed, or all rings of a
// session: their naps, and the copies that they are at, take far less.
inline constexpr std::chrono::seconds kDeviceRingDrain{1};
// A ring counts as left when no kernel has waited in it for so long: longer than a kernel works
// between two requests.
inline constexpr std::chrono::milliseconds kDeviceRingQuiet{20};

// For how long a new ring waits for the driver to give memory of earlier ones back: that takes it
// a while where there is much, and without limit while kernels run.
inline constexpr std::chrono::seconds kReapWait{5};

}  // namespace penstock::proxy::limits
