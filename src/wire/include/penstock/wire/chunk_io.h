// Chunk I/O calls: what a client asks of a target through engine::Net.
//
// Requests and responses are fixed structs, little-endian, without padding; methods and numbers
// never change meaning. A request is taken apart only by decode_chunk_request(), which checks every
// field: what it returns may be used without further checks of ranges. Format:
// docs/formats/wire.md.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "penstock/base.h"

namespace penstock::wire {

static_assert(std::endian::native == std::endian::little, "structs go to the wire as they are");

enum class ChunkMethod : uint16_t {
  read = 1,       // exposure 0, access place: where the bytes go; 1, if any: their checksums
  write = 2,      // exposure 0, access fetch: where they come from
  clear = 3,      // bytes of one chunk become zeros
  remove = 4,     // chunks of an inode are removed
  sync = 5,       // an inode's updates, or everything, become durable
  end_query = 6,  // where an inode's data ends
  probe = 7,      // where holes of one chunk begin and end
  inodes = 8,     // exposure 0, access place: u64 of inodes that have chunks, from one on
};

enum ChunkFlags : uint32_t {
  kChunkRefuseHoles = 1,  // read
  kChunkDurable = 2,      // write, clear, remove
  kChunkChecksums = 4,    // read from a block's first byte on: exposure 1 holds 4 bytes a block
};
inline constexpr uint32_t kChunkReadFlags = kChunkRefuseHoles | kChunkChecksums;

// What the checksums of a read of `length` bytes take.
constexpr uint64_t checksum_bytes(uint64_t length) {
  return (length + limits::kBlockBytes - 1) / limits::kBlockBytes * sizeof(uint32_t);
}

// Calls that one client may have under way at one target at most. A service has room for a few such
// clients; a client keeps within it.
inline constexpr uint32_t kCallsOfClientMax = 8192;

// Inodes that are asked for at a time, at most.
inline constexpr uint32_t kInodesMax = 512;

// In `end` of a clear: to the end of the chunk, and its valid length is forgotten beyond `begin`.
inline constexpr uint32_t kChunkEnd = UINT32_MAX;

// read, write: bytes [begin, begin + length) of a chunk; the exposure is exactly `length` long. A
// read with checksums gets the CRC-32C of each block that it touches; those it has in full are not
// verified on the way, as they will be where they are going.
// clear: bytes [begin, end); here `length` holds the end.
// remove: chunks with index >= chunk; begin and length are 0.
// probe: bytes [begin, begin + length) of a chunk, of which nothing is read.
// sync, end_query: only the inode; 0 with sync means everything.
// inodes: the first that is wanted; `length` is how many the exposure has room for.
struct ChunkRequest {
  uint64_t inode = 0;
  uint32_t chunk = 0;
  uint32_t begin = 0;
  uint32_t length = 0;
  uint32_t flags = 0;
};

// read, write, probe: how it went. Empty responses come with calls that fail before they reach the
// store.
struct ChunkIoResponse {
  uint8_t route = 0;  // engine::Route
  uint8_t reserved[3] = {};
  // Of a read that ended with corrupt: the block's index in its chunk. Of a probe: how many blocks
  // of the range are like the first, which is a hole if the route says so.
  uint32_t bad_block = 0;
};

struct ChunkRemoveResponse {
  uint64_t removed_bytes = 0;
};

struct ChunkEndResponse {
  uint64_t allocated_bytes = 0;
  uint32_t last_chunk = 0;
  uint32_t end_in_chunk = 0;
  uint32_t any = 0;  // 0 or 1
  uint32_t reserved = 0;
};

// Each inode that has chunks and is not smaller than the one that was asked for, nor as large as
// `next`, is among the `count`, in order.
struct ChunkInodesResponse {
  uint64_t next = 0;  // from where to ask on; 0: there are no more
  uint32_t count = 0;
  uint32_t reserved = 0;
};

static_assert(sizeof(ChunkRequest) == 24 && std::is_trivially_copyable_v<ChunkRequest>);
static_assert(offsetof(ChunkRequest, chunk) == 8 && offsetof(ChunkRequest, begin) == 12 &&
              offsetof(ChunkRequest, length) == 16 && offsetof(ChunkRequest, flags) == 20);
static_assert(sizeof(ChunkIoResponse) == 8 && std::is_trivially_copyable_v<ChunkIoResponse>);
static_assert(offsetof(ChunkIoResponse, bad_block) == 4);
static_assert(sizeof(ChunkRemoveResponse) == 8);
static_assert(sizeof(ChunkEndResponse) == 24 && std::is_trivially_copyable_v<ChunkEndResponse>);
static_assert(offsetof(ChunkEndResponse, last_chunk) == 8 &&
              offsetof(ChunkEndResponse, end_in_chunk) == 12 &&
              offsetof(ChunkEndResponse, any) == 16);
static_assert(sizeof(ChunkInodesResponse) == 16 && offsetof(ChunkInodesResponse, count) == 8);
static_assert(std::has_unique_object_representations_v<ChunkRequest> &&
                  std::has_unique_object_representations_v<ChunkIoResponse> &&
                  std::has_unique_object_representations_v<ChunkEndResponse> &&
                  std::has_unique_object_representations_v<ChunkInodesResponse>,
              "no padding");

// The bytes of a struct as they go out. Valid as long as `value`.
template <class T>
Bytes as_wire(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}

namespace internal {

// Whether a read, write or clear names a non-empty range that fits the largest chunk.
constexpr bool is_good_range(const ChunkRequest& r) {
  return r.length > 0 && range_within(r.begin, r.length, limits::kChunkBytesMax);
}
constexpr bool is_good_clear(const ChunkRequest& r) {
  if (r.length == kChunkEnd) return r.begin <= limits::kChunkBytesMax;
  return r.begin < r.length && r.length <= limits::kChunkBytesMax;
}

constexpr bool is_good(ChunkMethod method, const ChunkRequest& r) {
  const bool only_inode = r.chunk == 0 && r.begin == 0 && r.length == 0 && r.flags == 0;
  switch (method) {
    case ChunkMethod::read:
      return r.inode != 0 && is_good_range(r) && (r.flags & ~uint32_t{kChunkReadFlags}) == 0 &&
             ((r.flags & kChunkChecksums) == 0 || r.begin % limits::kBlockBytes == 0);
    case ChunkMethod::write:
      return r.inode != 0 && is_good_range(r) && (r.flags & ~uint32_t{kChunkDurable}) == 0;
    case ChunkMethod::probe:
      return r.inode != 0 && is_good_range(r) && r.flags == 0;
    case ChunkMethod::clear:
      return r.inode != 0 && is_good_clear(r) && (r.flags & ~uint32_t{kChunkDurable}) == 0;
    case ChunkMethod::remove:
      return r.inode != 0 && r.begin == 0 && r.length == 0 &&
             (r.flags & ~uint32_t{kChunkDurable}) == 0;
    case ChunkMethod::sync:
      return only_inode;
    case ChunkMethod::end_query:
      return r.inode != 0 && only_inode;
    case ChunkMethod::inodes:
      return r.inode != 0 && r.chunk == 0 && r.begin == 0 && r.flags == 0 && r.length > 0 &&
             r.length <= kInodesMax;
  }
  return false;
}

}  // namespace internal

// Foreign input: bad_message for an unknown method, a wrong size, a range outside the largest
// chunk, unknown flags, or a field that the method does not use and is not 0.
inline Result<ChunkRequest> decode_chunk_request(uint16_t method, Bytes message) {
  ChunkRequest request;
  if (message.size() != sizeof request) return Code::bad_message;
  std::memcpy(&request, message.data(), sizeof request);
  if (!internal::is_good(static_cast<ChunkMethod>(method), request)) return Code::bad_message;
  return request;
}

// A response of the given type, or bad_message.
template <class T>
Result<T> decode_chunk_response(Bytes message) {
  static_assert(std::is_trivially_copyable_v<T>);
  T response;
  if (message.size() != sizeof response) return Code::bad_message;
  std::memcpy(&response, message.data(), sizeof response);
  return response;
}

}  // namespace penstock::wire
