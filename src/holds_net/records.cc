#include "records.h"

#include "limits.h"
#include "messages.h"

#include <algorithm>
#include <utility>

namespace penstock::holds_net {
namespace {

constexpr uint8_t kRecordVersion = 1;
constexpr char kOfNodes = 'N';

// Version, fields, and the CRC-32C of both.
std::string seal(meta::Writer writer) {
  std::string bytes = writer.take();
  const uint32_t checksum = crc32c(bytes_of(bytes));
  bytes.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
  return bytes;
}

// The fields alone.
Result<std::string_view> open_sealed(std::string_view bytes) {
  uint32_t checksum = 0;
  if (bytes.size() <= sizeof checksum) return Code::corrupt;
  const std::string_view content = bytes.substr(0, bytes.size() - sizeof checksum);
  std::memcpy(&checksum, bytes.data() + content.size(), sizeof checksum);
  if (crc32c(bytes_of(content)) != checksum) return Code::corrupt;
  const auto version = static_cast<uint8_t>(content.front());
  if (version != kRecordVersion) return version == 0 ? Code::corrupt : Code::wrong_version;
  return content.substr(1);
}

bool is_sound(const NodeRecord& record) {
  uint64_t before = 0;
  for (const SessionRecord& one : record.sessions) {
    if (one.session <= before || one.session > record.latest) return false;
    before = one.session;
  }
  return record.latest > 0 && record.sessions.size() <= limits::kSessionsOfNodeMax;
}

void put(engine::KvTransaction& transaction, NodeId node, const NodeRecord& record) {
  ASSERT(is_sound(record));
  transaction.put(key_of(node), encode(record));
}

auto find(NodeRecord& record, uint64_t session) {
  return std::find_if(record.sessions.begin(), record.sessions.end(),
                      [&](const SessionRecord& one) { return one.session == session; });
}

}  // namespace

std::string key_of_life() {
  return {kKeyPrefix, 'L'};
}

std::string key_of(NodeId node) {
  std::string key{kKeyPrefix, kOfNodes};
  for (int shift = 24; shift >= 0; shift -= 8) {
    key.push_back(static_cast<char>(node.value >> shift));
  }
  return key;
}

std::optional<NodeId> node_of(std::string_view key) {
  if (key.size() != 6 || key[0] != kKeyPrefix || key[1] != kOfNodes) return std::nullopt;
  uint32_t node = 0;
  for (const char byte : key.substr(2)) node = node << 8 | static_cast<uint8_t>(byte);
  return NodeId(node);
}

std::string encode_life(uint16_t life) {
  meta::Writer writer;
  writer.byte(kRecordVersion);
  writer.varint(life);
  return seal(std::move(writer));
}

Result<uint16_t> decode_life(std::string_view bytes) {
  TRY_ASSIGN(const std::string_view content, open_sealed(bytes));
  meta::Reader reader(content);
  const uint64_t life = reader.varint();
  if (!reader.finished() || life == 0 || life > UINT16_MAX) return Code::corrupt;
  return static_cast<uint16_t>(life);
}

std::string encode(const NodeRecord& record) {
  meta::Writer writer;
  writer.byte(kRecordVersion);
  writer.varint(record.latest);
  writer.byte(static_cast<uint8_t>(record.sessions.size()));
  for (const SessionRecord& one : record.sessions) {
    writer.varint(one.session);
    writer.byte(one.has_ended ? 1 : 0);
  }
  return seal(std::move(writer));
}

Result<NodeRecord> decode_node(std::string_view bytes) {
  TRY_ASSIGN(const std::string_view content, open_sealed(bytes));
  meta::Reader reader(content);
  NodeRecord record;
  record.latest = reader.varint();
  const uint8_t count = reader.byte();
  for (uint8_t i = 0; i < count && reader.going(); ++i) {
    SessionRecord& one = record.sessions.emplace_back();
    one.session = reader.varint();
    const uint8_t has_ended = reader.byte();
    reader.require(has_ended <= 1);
    one.has_ended = has_ended == 1;
  }
  if (!reader.finished() || !is_sound(record)) return Code::corrupt;
  return record;
}

Result<NodeRecord> get(engine::KvTransaction& transaction, NodeId node) {
  TRY_ASSIGN(const std::optional<std::string> bytes, transaction.get(key_of(node)));
  if (!bytes) return NodeRecord();
  return decode_node(*bytes);
}

Result<Begun> begin(engine::KvTransaction& transaction, holds::AgentId agent) {
  TRY_ASSIGN(NodeRecord record, get(transaction, agent.node));
  if (agent.session <= record.latest) return Begun{Code::stale, record.latest + 1};
  if (record.sessions.size() >= limits::kSessionsOfNodeMax) return Begun{Code::busy, 0};
  record.latest = agent.session;
  record.sessions.push_back({agent.session, false});
  put(transaction, agent.node, record);
  return Begun{Code::ok, 0};
}

Status end(engine::KvTransaction& transaction, holds::AgentId agent) {
  TRY_ASSIGN(NodeRecord record, get(transaction, agent.node));
  const auto found = find(record, agent.session);
  if (found == record.sessions.end() || found->has_ended) return Code::ok;
  found->has_ended = true;
  put(transaction, agent.node, record);
  return Code::ok;
}

Status forget(engine::KvTransaction& transaction, holds::AgentId agent) {
  TRY_ASSIGN(NodeRecord record, get(transaction, agent.node));
  const auto found = find(record, agent.session);
  if (found == record.sessions.end()) return Code::ok;
  record.sessions.erase(found);
  put(transaction, agent.node, record);
  return Code::ok;
}

Result<Records> begin_life(engine::KvTransaction& transaction) {
  Records records;
  TRY_ASSIGN(const std::optional<std::string> bytes, transaction.get(key_of_life()));
  if (bytes) {
    TRY_ASSIGN(records.life, decode_life(*bytes));
  }
  // Lives are the upper part of stamps, which never go back.
  if (records.life == UINT16_MAX) return Code::wrong_version;
  ++records.life;
  transaction.put(key_of_life(), encode_life(records.life));
  const std::string first{kKeyPrefix, kOfNodes};
  const std::string last{kKeyPrefix, kOfNodes + 1};
  Status damage;
  TRY(transaction.scan(first, last, [&](std::string_view key, std::string_view value) {
    const std::optional<NodeId> node = node_of(key);
    Result<NodeRecord> record = decode_node(value);
    if (!node || !record) {
      damage = record ? Status(Code::corrupt) : record.error();
      return false;
    }
    records.nodes.emplace_back(*node, std::move(*record));
    return true;
  }));
  if (!damage.ok()) return damage;
  return records;
}

std::vector<holds::AgentId> sessions_of(const NodeRecords& nodes) {
  std::vector<holds::AgentId> all;
  for (const auto& [node, record] : nodes) {
    for (const SessionRecord& one : record.sessions) all.push_back({node, one.session});
  }
  return all;
}

}  // namespace penstock::holds_net
