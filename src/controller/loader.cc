// All records of a controller, put together to a state.
#include <cstring>

#include "penstock/controller/records.h"

namespace penstock::controller {
namespace {

// The kind and the id that a key names; false if it is none of ours.
bool parse_key(std::string_view key, RecordKind& kind, uint32_t& id) {
  if (key.size() < 2 || key[0] != kKeyPrefix) return false;
  kind = static_cast<RecordKind>(key[1]);
  id = 0;
  for (const char byte : key.substr(2)) id = id << 8 | static_cast<uint8_t>(byte);
  return key == key_of(kind, id);
}

// Ids follow one another from the first on, as keys come in order.
template <class Id, class Record>
Status append(std::vector<Record>& records, Id id, Id first, size_t most, std::string_view bytes,
              Result<Record> (*decode)(Id, std::string_view)) {
  if (records.size() >= most || id.value != first.value + records.size()) return Code::corrupt;
  TRY_ASSIGN(Record record, decode(id, bytes));
  ASSERT(record.id == id);
  records.push_back(std::move(record));
  return Code::ok;
}

}  // namespace

Status StateLoader::add(std::string_view key, std::string_view bytes) {
  RecordKind kind;
  uint32_t id = 0;
  if (!parse_key(key, kind, id)) return Code::corrupt;
  return add(kind, id, bytes);
}

Status StateLoader::add(RecordKind kind, uint32_t id, std::string_view bytes) {
  switch (kind) {
    case RecordKind::lease: {
      TRY_ASSIGN([[maybe_unused]] const LeaseRecord lease, decode_lease(bytes));
      return Code::ok;
    }
    case RecordKind::root: {
      TRY_ASSIGN(root_, decode_root(bytes));
      has_root_ = true;
      return Code::ok;
    }
    case RecordKind::node:
      return append(state_.nodes, NodeId(id), NodeId(1), limits::kNodesMax, bytes, decode_node);
    case RecordKind::target:
      return append(state_.targets, TargetId(id), TargetId(1), limits::kTargetsMax, bytes,
                    decode_target);
    case RecordKind::table:
      return append(state_.tables, TableId(id), TableId(1), limits::kTablesMax, bytes,
                    decode_table);
    case RecordKind::chain:
      return append(state_.chains, ChainId(id), kFirstSharedChain, limits::kChainsMax, bytes,
                    decode_chain);
    case RecordKind::key: {
      TRY_ASSIGN(keys_[NodeId(id)], decode_key(bytes));
      return Code::ok;
    }
    case RecordKind::token: {
      if (state_.tokens.size() >= limits::kTokensMax) return Code::corrupt;
      TRY_ASSIGN(state_.tokens[TokenId(id)], decode_token(TokenId(id), bytes));
      return Code::ok;
    }
    case RecordKind::fence: {
      TRY_ASSIGN(state_.fences[NodeId(id)], decode_fenced(NodeId(id), bytes));
      return Code::ok;
    }
    case RecordKind::restriction: {
      TRY_ASSIGN(state_.restrictions[NodeId(id)], decode_restricted(NodeId(id), bytes));
      return Code::ok;
    }
    case RecordKind::signing_key: {
      if (state_.signing_keys.size() >= limits::kSigningKeysMax) return Code::corrupt;
      const SigningKeyId key(id);
      TRY_ASSIGN(state_.signing_keys[key], decode_signing_key(key, bytes));
      return Code::ok;
    }
  }
  return Code::corrupt;
}

Result<State> StateLoader::finish() {
  if (!has_root_) return Code::corrupt;
  // Keys come before nodes.
  for (const auto& [node, key] : keys_) {
    if (!state_.has(node)) return Code::corrupt;
    state_.at(node).key = key;
  }
  state_.cluster = root_.cluster;
  state_.version = root_.version;
  if (root_of(state_) != root_ || !find_fault(state_).empty()) return Code::corrupt;
  return std::move(state_);
}

}  // namespace penstock::controller
