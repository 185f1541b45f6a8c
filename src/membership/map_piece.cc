// Pieces of the cluster map, and of what was seen of nodes, out of a controller's state.
#include "pieces.h"

#include <algorithm>

namespace penstock::membership {

using controller::RecordKind;
using controller::State;

namespace {

// Fills a piece with the records of one kind after another.
class PieceWriter {
 public:
  PieceWriter(const State& state, controller::MapVersion known, size_t bytes_max)
      : known_(known), bytes_left_(bytes_max) {
    ASSERT(known <= state.version);
    ASSERT(bytes_max >= kPieceBytes + kPieceRecordBytes + limits::kRecordBytesMax);
    bytes_left_ -= kPieceBytes;
    piece_.version = state.version;
  }

  // Those behind that many: records stand in the order of their ids.
  template <class Record>
  void add(RecordKind kind, const std::vector<Record>& records, uint32_t behind) {
    for (size_t i = behind; i < records.size() && piece_.last; ++i) {
      if (records[i].changed > known_) add(kind, records[i]);
    }
  }
  template <class IdOf, class Record>
  void add(RecordKind kind, const std::map<IdOf, Record>& records, uint32_t behind) {
    for (auto at = records.upper_bound(IdOf(behind)); at != records.end() && piece_.last; ++at) {
      if (at->second.changed > known_) add(kind, at->second);
    }
  }
  MapPiece take() { return std::move(piece_); }

 private:
  template <class Record>
  void add(RecordKind kind, const Record& record) {
    std::string bytes = controller::encode(record);
    ASSERT(bytes.size() <= limits::kRecordBytesMax && record.id.value > 0);
    const size_t length = kPieceRecordBytes + bytes.size();
    piece_.last = length <= bytes_left_;
    if (!piece_.last) return;
    bytes_left_ -= length;
    piece_.records.push_back({{kind, record.id.value}, std::move(bytes)});
  }

  const controller::MapVersion known_;
  size_t bytes_left_;
  MapPiece piece_;
};

// How many chains have ids up to this one.
uint32_t chains_until(uint32_t id) {
  return id < kFirstSharedChain.value ? 0 : id - kFirstSharedChain.value + 1;
}

}  // namespace

MapPiece piece_of(const State& state, controller::MapVersion known, MapPlace from,
                  size_t bytes_max) {
  PieceWriter writer(state, known, bytes_max);
  bool is_behind = false;  // kinds before the place's were sent
  for (const RecordKind kind : kMapOrder) {
    const bool is_here = kind == from.kind;
    const uint32_t behind = is_here ? from.id : 0;
    is_behind = is_behind || is_here;
    if (!is_behind) continue;
    if (kind == RecordKind::node) writer.add(kind, state.nodes, behind);
    if (kind == RecordKind::target) writer.add(kind, state.targets, behind);
    if (kind == RecordKind::table) writer.add(kind, state.tables, behind);
    if (kind == RecordKind::chain) writer.add(kind, state.chains, chains_until(behind));
    if (kind == RecordKind::fence) writer.add(kind, state.fences, behind);
    if (kind == RecordKind::restriction) writer.add(kind, state.restrictions, behind);
    if (kind == RecordKind::signing_key) writer.add(kind, state.signing_keys, behind);
  }
  ASSERT(is_behind);
  return writer.take();
}

namespace {

NodeSeen seen_of(const State& state, const controller::Node& node) {
  NodeSeen seen;
  seen.id = node.id;
  seen.silent = node.seen.silent;
  seen.suspected = node.is_suspected();
  if (node.seen.heard != controller::kLongAgo) {
    seen.heard_ago = std::max(state.now - node.seen.heard, engine::Duration::zero());
  }
  seen.applied = node.seen.applied;
  seen.chains_left = static_cast<uint32_t>(controller::chains_on(state, node.id));
  if (controller::has_to_hand_over(state, node)) {
    seen.chains_without_place =
        static_cast<uint32_t>(controller::chains_without_place(state, node.id));
    seen.drain_time = controller::time_to_drain(state, node.id);
  }
  for (const TargetId id : node.targets) {
    if (seen.targets.size() == limits::kTargetsPerNode) break;
    const controller::Target::Seen& of = state.at(id).seen;
    seen.targets.push_back({id, of.up, of.down, of.failing, of.full, of.used_bytes});
  }
  return seen;
}

}  // namespace

NodesPiece nodes_of(const State& state, NodeId from) {
  NodesPiece piece;
  piece.version = state.version;
  size_t bytes = kPieceBytes;
  for (size_t i = from.value == 0 ? 0 : from.value - 1; i < state.nodes.size(); ++i) {
    NodeSeen seen = seen_of(state, state.nodes[i]);
    bytes += kNodeSeenBytes + seen.targets.size() * kTargetSeenBytes;
    piece.last = bytes <= wire::kMembershipBytesMax;
    if (!piece.last) break;
    piece.nodes.push_back(std::move(seen));
  }
  ASSERT(piece.last || !piece.nodes.empty());
  return piece;
}

}  // namespace penstock::membership
