// Bounds of TLS between nodes, each with its reason.
#pragma once

#include <cstddef>
#include <cstdint>

#include "penstock/base.h"

namespace penstock::tls::limits {

// Content of one record (RFC 8446, 5.1).
inline constexpr uint32_t kContentMax = 16 * kKiB;
inline constexpr uint32_t kRecordHeaderBytes = 5;
// Behind the content: its type, and the tag.
inline constexpr uint32_t kTagBytes = 16;
inline constexpr uint32_t kTrailerBytes = 1 + kTagBytes;
// A record is so much longer than what it says.
inline constexpr uint32_t kRecordExtraBytes = kRecordHeaderBytes + kTrailerBytes;
// Records under one key: half of what AES-GCM bears (RFC 8446, 5.5).
inline constexpr uint64_t kRecordsOfKey = uint64_t{1} << 23;
// Of a peer that does not renew its key so many are taken, and no more.
inline constexpr uint64_t kRecordsOfKeyMax = 2 * kRecordsOfKey;
static_assert(kRecordsOfKeyMax <= 23'726'566, "2^24.5, which AES-GCM bears");

// What names a node in its certificate: a cluster, a number, and all roles.
inline constexpr size_t kUriBytesMax = 256;
// A request for a certificate with one P-256 key takes some 400.
inline constexpr size_t kRequestBytesMax = 4096;

}  // namespace penstock::tls::limits
