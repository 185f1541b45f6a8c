// What a target keeps of chunks that are copies in chains (decision 0045), as it is in the
// database: chunk records, pending updates, slots of requests (docs/formats/store.md). Pure.
#pragma once

#include "block_map.h"

#include <string>
#include <string_view>
#include <vector>

#include "penstock/chain_store.h"

namespace penstock::store {

inline constexpr char kChunkKeyType = 'C';
inline constexpr char kPendingKeyType = 'P';
inline constexpr char kSlotKeyType = 'S';

// A block of the chunk that a pending update replaces.
struct PendingBlock {
  uint32_t block = 0;  // index in the chunk
  BlockRef ref;
  friend bool operator==(const PendingBlock&, const PendingBlock&) = default;
};

// An update with its new blocks, in order. What else it makes zeros follows from its parts.
struct PendingRecord {
  UpdateName name;
  std::vector<UpdatePart> parts;
  std::vector<PendingBlock> blocks;
};

// Whether a target can do this.
bool is_good(const UpdatePart& part);

// Chunk records have the type kChunkKeyType, pending ones kPendingKeyType.
std::string encode_chunk_key(char type, const ChainChunk& at);
std::optional<ChainChunk> decode_chunk_key(char type, std::string_view key);
std::string encode_slot_key(ChainId chain, uint32_t node, uint32_t slot);

// Decoding: corrupt, or wrong_version for an intact record with what only other versions of this
// program write. Keys are covered by the checksums.
std::string encode_chunk_record(std::string_view key, const ChunkState& state);
Status decode_chunk_record(std::string_view key, std::string_view record, ChunkState& state);

std::string encode_pending(std::string_view key, const PendingRecord& pending);
// How long that is, with so many blocks.
size_t pending_bytes(const PendingRecord& pending, size_t blocks);
Status decode_pending(std::string_view key, std::string_view record, PendingRecord& pending);

std::string encode_slot(std::string_view key, const SlotRecord& slot);
Status decode_slot(std::string_view key, std::string_view record, SlotRecord& slot);
// Whether a slot with `known` (no request, if nothing is known) is to have `record` from now on.
inline bool is_newer(const SlotRecord& record, const SlotRecord& known) {
  return std::pair(record.request.incarnation, record.request.sequence) >
         std::pair(known.request.incarnation, known.request.sequence);
}

}  // namespace penstock::store
