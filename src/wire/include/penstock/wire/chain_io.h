// Calls to replicas of chains: what clients ask of them, and they of one another (decision 0044).
//
// Requests and responses are fixed structs, as in chunk_io.h; what comes in lists is in exposed
// memory. decode_chain_request() checks every field that a struct can be wrong in by itself.
// Format, and what is done with other versions of it: docs/formats/wire.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

#include "penstock/base.h"
#include "penstock/wire/agent_session.h"
#include "penstock/wire/capability.h"
#include "penstock/wire/chunk_io.h"
#include "penstock/wire/node_version.h"

namespace penstock::wire {

enum class ChainMethod : uint16_t {
  // Of clients.
  read = 32,    // exposure 0, access place: where the bytes go; 1, if any: their checksums
  update = 33,  // to the head: exposure 0, access fetch: the bytes of a write
  probe = 34,   // where the bytes of a chunk end
  chunks = 35,  // to the head: exposure 0, access place: ChunkEntry of an inode's chunks
  inodes = 36,  // to the head: exposure 0, access place: u64 of inodes that have chunks
  show = 37,    // what the client may do: remembered for its session, in all chains of the target
  // Of replicas, each to its neighbour.
  hello = 40,    // to the successor: exposure 0, access fetch: PendingEntry of what is pending
  forward = 41,  // to the successor: exposure 0, fetch: its parts; 1, if any: their bytes
  durable = 42,  // to the commit point: the sender has this durable; answered when it is committed
  committed = 43,  // to the syncing one: this is committed
  ask = 44,        // to the commit point: what is committed of a chunk
  list = 45,       // to the syncing one: exposure 0, place: ListedChunk of what it has
  replace = 46,    // to the syncing one: exposure 0, fetch: slots; then, if any, the chunk's bytes;
                   // then, if any, u32 for each damaged block
  copy = 47,       // to any: exposure 0, place: blocks of the chunk as that update left it
  state = 48,      // to a neighbour: how it is, by itself
  grant = 49,      // to the successor: how much space the sender may use
#if PENSTOCK_NEXT_PROTOCOL
  load = 50,  // to a neighbour, instead of state: the same, and how much waits there
#endif
};

// The first version that has the method. A version grows with fields at the end of the header, and
// with methods.
constexpr uint16_t first_version_of(ChainMethod method) {
  return static_cast<uint16_t>(method) < 50 ? 1 : 2;
}

enum class Traffic : uint8_t {
  latency = 0,     // somebody waits for just this
  throughput = 1,  // a part of much
  repair = 2,      // nobody waits
};

// Of every request: the chunk, and the version of its chain that the sender knows.
struct ChainHeader {
  uint16_t protocol = kNodeVersion;
  uint16_t header_bytes = 72 + 8 * PENSTOCK_NEXT_PROTOCOL;
  Traffic traffic = Traffic::latency;
  std::array<uint8_t, 3> reserved{};
  uint64_t chain_version = 0;
  // The chunk's key; the epoch of the snapshot that has it is 0 as long as there are none.
  uint64_t snapshot = 0;
  uint64_t inode = 0;
  uint32_t chain = 0;
  uint32_t chunk = 0;
  // Of a read: the chunk must have been updated so often at least, or it ends with stale. Of all
  // others 0.
  uint64_t chunk_version = 0;
  // Of a client: for which session of its node's agent it is (AgentSession::word()), the same in
  // all tries of an update; 0: it has none. Of all others 0.
  uint64_t capability = 0;
  uint32_t target = 0;  // the one that is meant; 0: whoever answers
  uint32_t user = 0;    // for whom the client does it
  // What is not begun within this time, counted from when it has arrived, is not done: it ends with
  // timed_out. 0: there is no such time.
  uint64_t deadline_us = 0;
#if PENSTOCK_NEXT_PROTOCOL
  uint64_t sent_us = 0;  // when it was sent, on the clock of the sender; 0: it does not say
#endif

  ChainHeader() = default;
  ChainHeader(uint64_t its_chain_version, uint64_t its_inode, uint32_t its_chain,
              uint32_t its_chunk)
      : chain_version(its_chain_version), inode(its_inode), chain(its_chain), chunk(its_chunk) {}

  ChainId chain_id() const {
    return ChainId{chain};
  }
  ChunkId chunk_id() const {
    return {InodeId{inode}, chunk};
  }
};
// How long headers are in a version.
using ChainHeaderBytes = uint16_t (*)(uint16_t version);
constexpr uint16_t chain_header_bytes(uint16_t version) {
  return version >= 2 ? sizeof(ChainHeader) : 72;
}

// With the status wrong_version: what the replica speaks.
struct ChainProtocolResponse {
  uint16_t lowest = kNodeVersionLeast;
  uint16_t highest = kNodeVersion;
  uint32_t reserved = 0;
};

// read, probe, update, where they end well: as ChunkIoResponse, and how often the chunk has been
// updated, as it is seen here, or with this update.
struct ChainIoResponse {
  ChunkIoResponse io;
  uint64_t chunk_version = 0;
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

// Inodes from the header's on; the answer is ChunkInodesResponse.
struct ChainInodesRequest {
  ChainHeader header;
  uint32_t limit = 0;  // numbers in the exposure
  uint32_t reserved = 0;
};

struct ChainUpdateRequest {
  ChainHeader header;
  RequestId request;
  uint32_t begin = 0;
  uint32_t end = 0;  // of a clear: kChunkEnd is to the end
  uint8_t kind = 0;  // 1 write, 2 clear, 3 remove
  std::array<uint8_t, 7> reserved{};
};

// A target that does not know what a client may do ends its calls with bad_handle. Then this is
// said, and the call repeated. Ends with access_denied where it is no capability of the caller's,
// with stale where its session is over, with bad_handle where the target does not know the key.
struct ChainShowRequest {
  ChainHeader header;  // no chunk
  Capability capability;
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
  kForwardDurable = 1,  // as `durable` would say; only to the commit point
  kForwardDrop = 2,     // its one part takes a removed chunk's name away
};
inline constexpr uint32_t kForwardFlags = kForwardDurable | kForwardDrop;
struct ChainForwardRequest {
  ChainHeader header;
  UpdateName name;
  UpdateName base;  // what it changes: committed before it
  uint32_t parts = 0;
  uint32_t flags = 0;
};

// durable
struct ChainWordRequest {
  ChainHeader header;
  UpdateName name;
  uint32_t from = 0;  // the sender's target
  uint32_t reserved = 0;
};

// committed
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
  uint32_t damaged = 0;  // blocks whose bytes nobody has
};
struct CopiedSlot {
  RequestId request;
  UpdateName name;
};

// Whole blocks, from a replica that has committed this very update; stale from another.
struct ChainCopyRequest {
  ChainHeader header;
  UpdateName committed;
  uint32_t first_block = 0;
  uint32_t blocks = 0;  // up to kCopyBlocksMax
};
struct ChainCopyResponse {
  uint64_t damaged = 0;  // a bit for each block, from the lowest on: it is damaged there, too
};

struct ChainStateRequest {
  ChainHeader header;  // no chunk
};
struct ChainStateResponse {
  // How long the oldest of its own operations on its disk has been under way, in all its chains.
  uint64_t oldest_us = 0;
};

#if PENSTOCK_NEXT_PROTOCOL
// load: what is asked is a ChainStateRequest.
struct ChainLoadResponse {
  ChainStateResponse state;
  uint64_t under_way = 0;  // operations that have begun there and not ended
};
#endif

// In bytes of all that the predecessor's updates have used since the version began, and will.
struct ChainGrantRequest {
  ChainHeader header;     // no chunk
  uint64_t sequence = 0;  // grows; an older one ends with stale
  uint64_t least = 0;     // no_space if that is not there
  uint64_t most = 0;
};
struct ChainGrantResponse {
  uint64_t granted = 0;
  uint32_t scarce = 0;  // 1: what is not used is wanted back
  uint32_t reserved = 0;
};

// With the status moved: what the replica knows.
struct ChainMovedResponse {
  uint64_t chain_version = 0;
};

#if !PENSTOCK_NEXT_PROTOCOL
static_assert(sizeof(ChainHeader) == 72 && sizeof(ChainReadRequest) == 88 &&
              sizeof(ChainChunksRequest) == 80 && sizeof(ChainChunksResponse) == 8 &&
              sizeof(ChainInodesRequest) == 80 && sizeof(ChunkEntry) == 8 &&
              sizeof(ChainUpdateRequest) == 112 && sizeof(ChainHelloRequest) == 104 &&
              sizeof(ChainShowRequest) == 192 && sizeof(PendingEntry) == 56 &&
              sizeof(ChainForwardRequest) == 160 && sizeof(ChainNameRequest) == 112 &&
              sizeof(ChainWordRequest) == 120 && sizeof(ChainAskRequest) == 72 &&
              sizeof(ChainListRequest) == 80 && sizeof(ChainReplaceRequest) == 168 &&
              sizeof(ListedChunk) == 56 && sizeof(CopiedSlot) == 64 &&
              sizeof(ChainCopyRequest) == 120 && sizeof(ChainCopyResponse) == 8 &&
              sizeof(ChainStateRequest) == 72 && sizeof(ChainStateResponse) == 8 &&
              sizeof(ChainIoResponse) == 16 && sizeof(ChainProtocolResponse) == 8 &&
              sizeof(ChainGrantRequest) == 96 && sizeof(ChainGrantResponse) == 16);
#endif
static_assert(chain_header_bytes(kNodeVersion) == sizeof(ChainHeader));
static_assert(offsetof(ChainHeader, chain) == 32, "the same in all versions");

// Most entries of one list in exposed memory.
inline constexpr uint32_t kChainListMax = 4096;
inline constexpr uint32_t kUpdatePartsMax = 64;
// Slots whose last update was one and the same chunk's: 64 each of a thousand nodes.
inline constexpr uint32_t kCopiedSlotsMax = 65'536;
// Blocks of one copy: the bits of its answer.
inline constexpr uint32_t kCopyBlocksMax = 64;

// Whether an update of this kind can have that range.
// Of an update between replicas; no client asks for it.
inline constexpr uint32_t kDropPart = 4;
constexpr bool is_good_part(uint32_t kind, uint32_t begin, uint32_t end) {
  if (kind == 1) return begin < end && end <= limits::kChunkBytesMax;
  if (kind == 2) {
    return begin <= limits::kChunkBytesMax &&
           (end == kChunkEnd || (begin < end && end <= limits::kChunkBytesMax));
  }
  return (kind == 3 || kind == kDropPart) && begin == 0 && end == 0;
}
constexpr bool is_good(const RequestId& request) {
  return request.node != 0 && request.sequence != 0 && request.incarnation != 0;
}

namespace internal {

constexpr bool is_good(const ChainHeader& h) {
  return h.header_bytes == sizeof h && h.traffic <= Traffic::repair &&
         h.reserved == decltype(h.reserved){} && h.chain_version != 0 && h.chain != 0 &&
         h.snapshot == 0;
}
constexpr bool is_unconditional(const ChainHeader& h) {
  return is_good(h) && h.chunk_version == 0 && h.capability == 0;
}
// A node changes chunks for its own agent only.
constexpr bool is_good_session(uint64_t word, uint32_t node) {
  return word == 0 ||
         (AgentSession::is_word(word) && AgentSession::of_word(word).node.value == node);
}
// Of a client's request that changes nothing: it may name its session.
constexpr bool is_of_client(const ChainHeader& h) {
  return is_good(h) && h.chunk_version == 0 && AgentSession::is_word(h.capability);
}
constexpr bool is_good(const ChainReadRequest& r) {
  return is_good(r.header) && AgentSession::is_word(r.header.capability) && r.header.inode != 0 &&
         r.length > 0 && range_within(r.begin, r.length, limits::kChunkBytesMax) &&
         (r.flags & ~uint32_t{kChunkReadFlags}) == 0 && r.reserved == 0 &&
         ((r.flags & kChunkChecksums) == 0 || r.begin % limits::kBlockBytes == 0);
}
constexpr bool is_good(const ChainChunksRequest& r) {
  return is_of_client(r.header) && r.header.inode != 0 && r.limit > 0 && r.limit <= kChainListMax &&
         r.reserved == 0;
}
constexpr bool is_good(const ChainShowRequest& r) {
  return is_of_client(r.header) && r.header.inode == 0 && r.header.chunk == 0 &&
         r.header.capability == r.capability.session && wire::is_good(r.capability);
}
constexpr bool is_good(const ChainInodesRequest& r) {
  return is_of_client(r.header) && r.header.inode != 0 && r.header.chunk == 0 && r.limit > 0 &&
         r.limit <= kInodesMax && r.reserved == 0;
}
constexpr bool is_good(const ChainUpdateRequest& r) {
  return is_good(r.header) && r.header.chunk_version == 0 && r.header.inode != 0 &&
         wire::is_good(r.request) && is_good_session(r.header.capability, r.request.node) &&
         r.reserved == decltype(r.reserved){} && r.kind != kDropPart &&
         is_good_part(r.kind, r.begin, r.end);
}
constexpr bool is_good(const ChainHelloRequest& r) {
  return is_unconditional(r.header) && r.header.inode == 0 && r.header.chunk == 0 &&
         r.pending <= kChainListMax && r.repair <= r.header.chain_version && r.reserved == 0;
}
constexpr bool is_good(const ChainForwardRequest& r) {
  return is_unconditional(r.header) && r.header.inode != 0 &&
         r.name.counter == r.base.counter + 1 && r.parts > 0 && r.parts <= kUpdatePartsMax &&
         (r.flags & ~kForwardFlags) == 0 && ((r.flags & kForwardDrop) == 0 || r.parts == 1);
}
constexpr bool is_good(const ChainWordRequest& r) {
  return is_unconditional(r.header) && r.header.inode != 0 && r.name.counter != 0 && r.from != 0 &&
         r.reserved == 0;
}
constexpr bool is_good(const ChainNameRequest& r) {
  return is_unconditional(r.header) && r.header.inode != 0 && r.name.counter != 0;
}
constexpr bool is_good(const ChainAskRequest& r) {
  return is_unconditional(r.header) && r.header.inode != 0;
}
constexpr bool is_good(const ChainListRequest& r) {
  return is_unconditional(r.header) && r.limit > 0 && r.limit <= kChainListMax && r.reserved == 0;
}
constexpr bool is_good(const ChainReplaceRequest& r) {
  return is_unconditional(r.header) && r.header.inode != 0 && r.length <= limits::kChunkBytesMax &&
         r.removed <= 1 && (r.removed == 0 || r.length == 0) && r.slots <= kCopiedSlotsMax &&
         r.damaged <= (r.length + limits::kBlockBytes - 1) / limits::kBlockBytes;
}
constexpr bool is_good(const ChainCopyRequest& r) {
  return is_unconditional(r.header) && r.header.inode != 0 && r.committed.counter != 0 &&
         r.blocks > 0 && r.blocks <= kCopyBlocksMax &&
         range_within(r.first_block, r.blocks, limits::kChunkBytesMax / limits::kBlockBytes);
}

constexpr bool is_good(const ChainGrantRequest& r) {
  return is_unconditional(r.header) && r.header.inode == 0 && r.header.chunk == 0 &&
         r.sequence != 0 && r.least <= r.most && r.most <= INT64_MAX;
}
constexpr bool is_good(const ChainStateRequest& r) {
  return is_unconditional(r.header) && r.header.inode == 0 && r.header.chunk == 0;
}

}  // namespace internal

// The chain that a request is for, which is where it is in all versions; none if it is too short.
inline ChainId chain_of_request(Bytes message) {
  ChainId chain;
  constexpr size_t kAt = offsetof(ChainHeader, chain);
  if (message.size() < kAt + sizeof chain.value) return {};
  std::memcpy(&chain.value, message.data() + kAt, sizeof chain.value);
  return chain;
}

// For whose session a client asks, and the file; the same in all versions.
struct ChainAsker {
  uint64_t session = 0;
  InodeId inode;
};
inline std::optional<ChainAsker> asker_of_request(Bytes message) {
  ChainAsker asker;
  if (message.size() < chain_header_bytes(1)) return std::nullopt;
  std::memcpy(&asker.session, message.data() + offsetof(ChainHeader, capability), 8);
  std::memcpy(&asker.inode.value, message.data() + offsetof(ChainHeader, inode), 8);
  return asker;
}

// How somebody waits for it, by its header: of a request that may be malformed.
inline Traffic traffic_of_request(Bytes message) {
  Traffic traffic{};
  constexpr size_t kAt = offsetof(ChainHeader, traffic);
  if (message.size() < kAt + sizeof traffic) return {};
  std::memcpy(&traffic, message.data() + kAt, sizeof traffic);
  return traffic;
}

// Says a request, which has the header of this release, in that version, and returns its length in
// it. What an older header does not have is left out: a field may be added only if 0, which is then
// read, means what not saying it did.
inline size_t say_in(uint16_t version, MutableBytes request,
                     ChainHeaderBytes bytes_in = chain_header_bytes) {
  const struct {
    uint16_t protocol;
    uint16_t header_bytes;
  } first{version, bytes_in(version)};
  ASSERT(request.size() >= sizeof(ChainHeader) && first.header_bytes <= sizeof(ChainHeader));
  std::memcpy(request.data(), &first, sizeof first);
  const MutableBytes rest = request.subspan(sizeof(ChainHeader));
  if (first.header_bytes < sizeof(ChainHeader) && !rest.empty()) {
    std::memmove(request.data() + first.header_bytes, rest.data(), rest.size());
  }
  return first.header_bytes + rest.size();
}

// Foreign input: wrong_version in a version that is not spoken, bad_message for another size than
// that version has, or a field that cannot be.
template <class T>
Result<T> decode_chain_request(Bytes message, const Protocol& speaks = kNodeProtocol,
                               ChainHeaderBytes bytes_in = chain_header_bytes) {
  static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>);
  struct {
    uint16_t protocol = 0;
    uint16_t header_bytes = 0;
  } first;
  if (message.size() < sizeof first) return Code::bad_message;
  std::memcpy(&first, message.data(), sizeof first);
  if (first.protocol == 0) return Code::bad_message;
  if (first.protocol < speaks.lowest || first.protocol > speaks.highest) return Code::wrong_version;
  const size_t header = bytes_in(first.protocol);
  ASSERT(header <= sizeof(ChainHeader));
  const bool fits =
      first.header_bytes == header && message.size() == header + sizeof(T) - sizeof(ChainHeader);
  if (!fits) return Code::bad_message;
  // What an older header does not have is 0.
  std::array<std::byte, sizeof(T)> whole{};
  std::memcpy(whole.data(), message.data(), header);
  if constexpr (sizeof(T) > sizeof(ChainHeader)) {
    std::memcpy(whole.data() + sizeof(ChainHeader), message.data() + header,
                sizeof(T) - sizeof(ChainHeader));
  }
  T request;
  std::memcpy(&request, whole.data(), sizeof request);
  request.header.header_bytes = sizeof(ChainHeader);
  if (!internal::is_good(request)) return Code::bad_message;
  return request;
}

}  // namespace penstock::wire
