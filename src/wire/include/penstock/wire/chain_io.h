// Calls to replicas of chains: what clients ask of them, and they of one another (decision 0044).
//
// Requests and responses are fixed structs, as in chunk_io.h; what comes in lists is in exposed
// memory. decode_chain_request() checks every field that a struct can be wrong in by itself.
// Format: docs/formats/wire.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "penstock/base.h"
#include "penstock/wire/chunk_io.h"

namespace penstock::wire {

enum class ChainMethod : uint16_t {
  // Of clients.
  read = 32,    // exposure 0, access place: where the bytes go; 1, if any: their checksums
  update = 33,  // to the head: exposure 0, access fetch: the bytes of a write
  probe = 34,   // where the bytes of a chunk end
  chunks = 35,  // to the head: exposure 0, access place: ChunkEntry of an inode's chunks
  // Of replicas, each to its neighbour.
  hello = 40,      // to the successor: exposure 0, access fetch: PendingEntry of what is pending
  forward = 41,    // to the successor: exposure 0, fetch: its parts; 1, if any: their bytes
  durable = 42,    // to the successor: the sender has this durable, and so have those before it
  committed = 43,  // to the syncing one: this is committed
  ask = 44,        // to the commit point: what is committed of a chunk
  list = 45,       // to the syncing one: exposure 0, place: ListedChunk of what it has
  replace = 46,    // to the syncing one: exposure 0, fetch: slots; 1, if any: the chunk's bytes
};

// Of every request: the chunk, and the version of its chain that the sender knows.
struct ChainHeader {
  uint64_t chain_version = 0;
  uint64_t inode = 0;
  uint32_t chain = 0;
  uint32_t chunk = 0;

  ChainId chain_id() const { return ChainId{chain}; }
  ChunkId chunk_id() const { return {InodeId{inode}, chunk}; }
};

// read, probe
struct ChainReadRequest {
  ChainHeader header;
  uint32_t begin = 0;
  uint32_t length = 0;
  uint32_t flags = 0;  // of a read: ChunkFlags; of a probe 0
  uint32_t reserved = 0;
};

// Chunks of the header's inode from the header's on.
struct ChainChunksRequest {
  ChainHeader header;
  uint32_t limit = 0;  // entries in the exposure
  uint32_t reserved = 0;
};
struct ChainChunksResponse {
  uint32_t count = 0;
  uint32_t next = kChunkEnd;  // from where to ask on; kChunkEnd: there are no more
};
struct ChunkEntry {
  uint32_t chunk = 0;
  uint32_t length = 0;  // where its bytes end, not 0
};

struct ChainUpdateRequest {
  ChainHeader header;
  RequestId request;
  uint32_t begin = 0;
  uint32_t end = 0;  // of a clear: kChunkEnd is to the end
  uint8_t kind = 0;  // 1 write, 2 clear, 3 remove
  uint8_t traffic = 0;
  uint16_t reserved = 0;
  uint32_t user = 0;
};

struct ChainHelloRequest {
  ChainHeader header;             // no chunk
  uint64_t from_incarnation = 0;  // of the predecessor's target, and of the one that is called
  uint64_t to_incarnation = 0;
  // To the syncing one: the version in which its repair began. That of this hello: it begins, and
  // what the syncing one has pending is nothing. To all others 0.
  uint64_t repair = 0;
  uint32_t pending = 0;  // entries in the exposure
  uint32_t reserved = 0;
};
struct PendingEntry {
  uint64_t inode = 0;
  uint32_t chunk = 0;
  uint32_t reserved = 0;
  UpdateName name;
};

enum ForwardFlags : uint32_t {
  kForwardDurable = 1,  // as `durable` would say
};
struct ChainForwardRequest {
  ChainHeader header;
  UpdateName name;
  UpdateName base;  // what it changes: committed before it
  uint32_t parts = 0;
  uint32_t flags = 0;
};

// durable, committed
struct ChainNameRequest {
  ChainHeader header;
  UpdateName name;
};

struct ChainAskRequest {
  ChainHeader header;
};
struct ChainAskResponse {
  UpdateName committed;
};

// Chunks from the header's on.
struct ChainListRequest {
  ChainHeader header;
  uint32_t limit = 0;
  uint32_t reserved = 0;
};
struct ChainListResponse {
  uint32_t count = 0;  // less than `limit`: there are no more
  uint32_t reserved = 0;
};
struct ListedChunk {
  uint64_t inode = 0;
  uint32_t chunk = 0;
  uint32_t reserved = 0;
  UpdateName committed;
};

struct ChainReplaceRequest {
  ChainHeader header;
  UpdateName expected;   // what the syncing one has
  UpdateName committed;  // what it is to have
  uint32_t length = 0;
  uint32_t removed = 0;  // 0 or 1
  uint32_t slots = 0;
  uint32_t reserved = 0;
};
struct CopiedSlot {
  RequestId request;
  UpdateName name;
};

// With the status moved: what the replica knows.
struct ChainMovedResponse {
  uint64_t chain_version = 0;
};

static_assert(sizeof(ChainHeader) == 24 && sizeof(ChainReadRequest) == 40 &&
              sizeof(ChainChunksRequest) == 32 && sizeof(ChainChunksResponse) == 8 &&
              sizeof(ChunkEntry) == 8 && sizeof(ChainUpdateRequest) == 64 &&
              sizeof(ChainHelloRequest) == 56 && sizeof(PendingEntry) == 56 &&
              sizeof(ChainForwardRequest) == 112 && sizeof(ChainNameRequest) == 64 &&
              sizeof(ChainAskRequest) == 24 && sizeof(ChainListRequest) == 32 &&
              sizeof(ChainReplaceRequest) == 120 && sizeof(ListedChunk) == 56 &&
              sizeof(CopiedSlot) == 64);

// Most entries of one list in exposed memory.
inline constexpr uint32_t kChainListMax = 4096;
inline constexpr uint32_t kUpdatePartsMax = 64;
// Slots whose last update was one and the same chunk's: 64 each of a thousand nodes.
inline constexpr uint32_t kCopiedSlotsMax = 65'536;

// Whether an update of this kind can have that range.
constexpr bool is_good_part(uint32_t kind, uint32_t begin, uint32_t end) {
  if (kind == 1) return begin < end && end <= limits::kChunkBytesMax;
  if (kind == 2) {
    return begin <= limits::kChunkBytesMax &&
           (end == kChunkEnd || (begin < end && end <= limits::kChunkBytesMax));
  }
  return kind == 3 && begin == 0 && end == 0;
}
constexpr bool is_good(const RequestId& request) {
  return request.node != 0 && request.sequence != 0 && request.incarnation != 0;
}

namespace internal {

constexpr bool is_good(const ChainHeader& h) {
  return h.chain_version != 0 && h.chain != 0;
}
constexpr bool is_good(const ChainReadRequest& r) {
  return is_good(r.header) && r.header.inode != 0 && r.length > 0 &&
         range_within(r.begin, r.length, limits::kChunkBytesMax) &&
         (r.flags & ~uint32_t{kChunkReadFlags}) == 0 && r.reserved == 0 &&
         ((r.flags & kChunkChecksums) == 0 || r.begin % limits::kBlockBytes == 0);
}
constexpr bool is_good(const ChainChunksRequest& r) {
  return is_good(r.header) && r.header.inode != 0 && r.limit > 0 && r.limit <= kChainListMax &&
         r.reserved == 0;
}
constexpr bool is_good(const ChainUpdateRequest& r) {
  return is_good(r.header) && r.header.inode != 0 && wire::is_good(r.request) && r.reserved == 0 &&
         r.traffic <= 2 && is_good_part(r.kind, r.begin, r.end);
}
constexpr bool is_good(const ChainHelloRequest& r) {
  return is_good(r.header) && r.header.inode == 0 && r.header.chunk == 0 &&
         r.pending <= kChainListMax && r.repair <= r.header.chain_version && r.reserved == 0;
}
constexpr bool is_good(const ChainForwardRequest& r) {
  return is_good(r.header) && r.header.inode != 0 && r.name.counter == r.base.counter + 1 &&
         r.parts > 0 && r.parts <= kUpdatePartsMax && (r.flags & ~uint32_t{kForwardDurable}) == 0;
}
constexpr bool is_good(const ChainNameRequest& r) {
  return is_good(r.header) && r.header.inode != 0 && r.name.counter != 0;
}
constexpr bool is_good(const ChainAskRequest& r) {
  return is_good(r.header) && r.header.inode != 0;
}
constexpr bool is_good(const ChainListRequest& r) {
  return is_good(r.header) && r.limit > 0 && r.limit <= kChainListMax && r.reserved == 0;
}
constexpr bool is_good(const ChainReplaceRequest& r) {
  return is_good(r.header) && r.header.inode != 0 && r.length <= limits::kChunkBytesMax &&
         r.removed <= 1 && (r.removed == 0 || r.length == 0) && r.slots <= kCopiedSlotsMax &&
         r.reserved == 0;
}

}  // namespace internal

// Foreign input: bad_message for another size, or a field that cannot be.
template <class T>
Result<T> decode_chain_request(Bytes message) {
  static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>);
  T request;
  if (message.size() != sizeof request) return Code::bad_message;
  std::memcpy(&request, message.data(), sizeof request);
  if (!internal::is_good(request)) return Code::bad_message;
  return request;
}

}  // namespace penstock::wire
