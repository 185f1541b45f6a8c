#include "replay_prepares.h"

#include "update_maps.h"

#include <algorithm>

namespace penstock::store {
namespace {

using limits::kBlockBytes;
using limits::kMapBlocks;

// How a chunk is that `prepare` finds.
struct Found {
  bool recorded = false;
  ChunkState state;
  std::optional<PendingRecord> pending;
};

Result<Found> find(Replayed& replayed, const LoggedPrepare& prepare) {
  Found found;
  const std::string chunk_key = encode_chunk_key(kChunkKeyType, prepare.at);
  TRY_ASSIGN(const std::string chunk, replayed.get(chunk_key));
  found.recorded = !chunk.empty();
  if (found.recorded) {
    TRY(decode_chunk_record(chunk_key, chunk, found.state));
  } else if (prepare.base.chain_version == 0) {
    // Without updates of its chain: its maps, if it has any, say the rest.
    found.state.committed = prepare.base;
  }
  const std::string pending_key = encode_chunk_key(kPendingKeyType, prepare.at);
  TRY_ASSIGN(const std::string pending, replayed.get(pending_key));
  if (!pending.empty()) {
    TRY(decode_pending(pending_key, pending, found.pending.emplace()));
  }
  return found;
}

Result<uint32_t> length_of(Replayed& replayed, const ChainChunk& at) {
  TRY_ASSIGN(const auto maps, replayed.maps_of(at));
  if (maps.empty()) return uint32_t{0};
  const auto& [index, map] = maps.back();
  return static_cast<uint32_t>(index * limits::kMapBytes) + map->valid_end;
}

Status commit_maps(Replayed& replayed, const ChainChunk& at, const PendingRecord& update,
                   const UpdateEffect& effect, uint32_t length) {
  const UpdateEffect::Range bytes = effect.range(length);
  const BlockRange range{
      static_cast<uint32_t>(bytes.begin / kBlockBytes),
      static_cast<uint32_t>((uint64_t{bytes.end} + kBlockBytes - 1) / kBlockBytes)};
  for (uint32_t index = range.first / kMapBlocks; index * kMapBlocks < range.end; ++index) {
    TRY_ASSIGN(BlockMap* const map, replayed.map_of({at.chain, at.chunk, index}));
    if (map->empty() && !any_in(update.blocks, within_map(range, index))) continue;
    change_map(effect, update.blocks, range, index, *map,
               [map](uint32_t block, BlockRef ref) { map->blocks[block] = ref; });
  }
  return Code::ok;
}

Status commit_slot(Replayed& replayed, const SlotRecord& slot) {
  const std::string key = encode_slot_key(slot.at.chain, slot.request.node, slot.request.slot);
  TRY_ASSIGN(const std::string known, replayed.get(key));
  SlotRecord old;
  if (!known.empty()) TRY(decode_slot(key, known, old));
  const bool is_anybodys = !known.empty() || slot.request.sequence != 0;
  if (is_anybodys && is_newer(slot, old)) replayed.put(key, encode_slot(key, slot));
  return Code::ok;
}

// As the target does it: ChainUpdates::commit().
Status commit(Replayed& replayed, const ChainChunk& at, const Found& found) {
  const PendingRecord& update = *found.pending;
  uint32_t length = found.state.length;
  if (!found.recorded) {
    TRY_ASSIGN(length, length_of(replayed, at));
  }
  const UpdateEffect effect(update.parts, length);
  TRY(commit_maps(replayed, at, update, effect, length));
  const std::string key = encode_chunk_key(kChunkKeyType, at);
  replayed.put(key, encode_chunk_record(key, {update.name, effect.removed(), effect.length()}));
  for (const UpdatePart& part : update.parts) {
    TRY(commit_slot(replayed, {part.request, at, update.name}));
  }
  return Code::ok;
}

}  // namespace

Result<bool> replay_prepare(Replayed& replayed, const LoggedPrepare& prepare) {
  TRY_ASSIGN(const Found found, find(replayed, prepare));
  if (found.state.committed.counter > prepare.base.counter) return false;
  if (found.state.committed != prepare.base) {
    const bool follows = found.pending && found.pending->name == prepare.base;
    if (!follows) return Code::corrupt;
    TRY(commit(replayed, prepare.at, found));
  }
  replayed.put(encode_chunk_key(kPendingKeyType, prepare.at), prepare.record);
  return true;
}

}  // namespace penstock::store
