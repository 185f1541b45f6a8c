// Bounds of the chunk service, each with its reason.
#pragma once

#include "penstock/chunks.h"
#include "penstock/wire.h"

namespace penstock::chunks::limits {

using penstock::limits::kBlockBytes;

// Calls that wait for a context.
inline constexpr uint32_t kQueueMax = 16384;
// Transports without direct access to the caller's memory: pieces of this size are staged, in at
// most so many buffers at a time.
inline constexpr uint64_t kStageBytes = kMiB;
inline constexpr uint32_t kStageBuffersMax = 16;

static_assert(kStageBytes % kBlockBytes == 0);
static_assert(wire::checksum_bytes(kStageBytes) <= kBlockBytes,
              "the checksums of a stage fit behind its bytes");
static_assert(kCallsMax + kQueueMax >= 2 * wire::kCallsOfClientMax,
              "two busy clients may meet at one target without being turned away");

}  // namespace penstock::chunks::limits
