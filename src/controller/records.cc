#include "penstock/controller/records.h"

#include <algorithm>

#include "penstock/controller/codec.h"

namespace penstock::controller {
namespace {

// Bits of members.
constexpr uint8_t kLeaving = 1;
constexpr uint8_t kDoubtful = 2;
// Bits of targets.
constexpr uint8_t kForgotten = 1;
constexpr uint8_t kDraining = 2;

template <class Record>
Result<Record> finished(const Reader& reader, Record record) {
  TRY(reader.end());
  return record;
}

void write_card(Writer& writer, const CardAddress& card) {
  writer.string(card.host);
  writer.word(card.port);
  writer.word(card.rail);
  writer.word(card.numa);
}

CardAddress read_card(Reader& reader) {
  CardAddress card;
  card.host = reader.string();
  card.port = reader.word<uint16_t>();
  card.rail = reader.word<uint16_t>();
  card.numa = reader.word<uint16_t>();
  reader.require(!card.host.empty());
  return card;
}

Member read_member(Reader& reader) {
  Member member;
  member.target = TargetId(reader.word<uint32_t>());
  member.incarnation = Incarnation(reader.word<uint64_t>());
  member.state = static_cast<CopyState>(reader.choice(kCopyStates));
  const auto bits = reader.word<uint8_t>();
  reader.require((bits & ~(kLeaving | kDoubtful)) == 0 && member.target != TargetId());
  member.leaving = (bits & kLeaving) != 0;
  member.doubtful = (bits & kDoubtful) != 0;
  return member;
}

}  // namespace

std::string key_of(RecordKind kind, uint32_t id) {
  std::string key{kKeyPrefix, static_cast<char>(kind)};
  if (kind == RecordKind::lease || kind == RecordKind::root) return key;
  // Big endian, so that ids come in their order.
  for (int shift = 24; shift >= 0; shift -= 8) key.push_back(static_cast<char>(id >> shift));
  return key;
}

RootRecord root_of(const State& state) {
  return {state.cluster,
          state.version,
          static_cast<uint32_t>(state.nodes.size()),
          static_cast<uint32_t>(state.targets.size()),
          static_cast<uint32_t>(state.tables.size()),
          static_cast<uint32_t>(state.chains.size())};
}

bool is_storable(const NodeFacts& facts) {
  const auto fits = [](const std::string& text) { return text.size() <= limits::kNameBytesMax; };
  return fits(facts.name) && fits(facts.rack) && facts.cards.size() <= limits::kCardsMax &&
         (facts.roles & ~kRoles) == 0 &&
         std::all_of(facts.cards.begin(), facts.cards.end(), [&](const CardAddress& card) {
           return fits(card.host) && !card.host.empty();
         });
}

std::string encode(const LeaseRecord& lease) {
  Writer writer(kRecordVersion);
  writer.word(lease.epoch);
  writer.uuid(lease.holder);
  writer.word(lease.renewals);
  return writer.take();
}

Result<LeaseRecord> decode_lease(std::string_view bytes) {
  Reader reader(bytes, kRecordVersion);
  LeaseRecord lease;
  lease.epoch = reader.word<uint64_t>();
  lease.holder = reader.uuid();
  lease.renewals = reader.word<uint64_t>();
  reader.require(lease.epoch > 0);
  return finished(reader, lease);
}

std::string encode(const RootRecord& root) {
  Writer writer(kRecordVersion);
  writer.uuid(root.cluster);
  writer.word(root.version.value);
  writer.word(root.nodes);
  writer.word(root.targets);
  writer.word(root.tables);
  writer.word(root.chains);
  return writer.take();
}

Result<RootRecord> decode_root(std::string_view bytes) {
  Reader reader(bytes, kRecordVersion);
  RootRecord root;
  root.cluster = reader.uuid();
  root.version = MapVersion(reader.word<uint64_t>());
  root.nodes = reader.word<uint32_t>();
  root.targets = reader.word<uint32_t>();
  root.tables = reader.word<uint32_t>();
  root.chains = reader.word<uint32_t>();
  reader.require(root.nodes <= limits::kNodesMax && root.targets <= limits::kTargetsMax &&
                 root.tables <= limits::kTablesMax && root.chains <= limits::kChainsMax);
  return finished(reader, root);
}

void write(Writer& writer, const NodeFacts& facts) {
  ASSERT(is_storable(facts));
  writer.word(facts.features);
  writer.word(facts.roles);
  writer.string(facts.name);
  writer.string(facts.rack);
  writer.word(static_cast<uint8_t>(facts.cards.size()));
  for (const CardAddress& card : facts.cards) write_card(writer, card);
}

NodeFacts read_facts(Reader& reader) {
  NodeFacts facts;
  facts.features = reader.word<uint64_t>();
  facts.roles = reader.word<uint8_t>();
  facts.name = reader.string();
  facts.rack = reader.string();
  const auto cards = reader.word<uint8_t>();
  reader.require(cards <= limits::kCardsMax);
  for (int i = 0; i < cards && reader.going(); ++i) facts.cards.push_back(read_card(reader));
  reader.require(is_storable(facts));
  return facts;
}

std::string encode(const Node& node) {
  Writer writer(kRecordVersion);
  writer.uuid(node.uuid);
  writer.uuid(node.process);
  writer.word(node.incarnation.value);
  writer.word(node.changed.value);
  writer.word(static_cast<uint8_t>(node.standing));
  write(writer, node.facts);
  return writer.take();
}

Result<Node> decode_node(NodeId id, std::string_view bytes) {
  Reader reader(bytes, kRecordVersion);
  Node node;
  node.id = id;
  node.uuid = reader.uuid();
  node.process = reader.uuid();
  node.incarnation = NodeIncarnation(reader.word<uint64_t>());
  node.changed = MapVersion(reader.word<uint64_t>());
  node.standing = static_cast<Standing>(reader.choice(kStandings));
  node.facts = read_facts(reader);
  reader.require(node.incarnation.value > 0);
  return finished(reader, std::move(node));
}

std::string encode(const Target& target) {
  ASSERT(target.held <= target.incarnation);
  Writer writer(kRecordVersion);
  writer.uuid(target.uuid);
  writer.word(target.node.value);
  writer.word(target.incarnation.value);
  writer.word(target.held.value);
  writer.word(target.opening);
  writer.word(target.capacity_bytes);
  writer.word(target.changed.value);
  writer.word(static_cast<uint8_t>(target.media));
  const int bits = (target.forgotten ? kForgotten : 0) | (target.draining ? kDraining : 0);
  writer.word(static_cast<uint8_t>(bits));
  return writer.take();
}

Result<Target> decode_target(TargetId id, std::string_view bytes) {
  Reader reader(bytes, kRecordVersion);
  Target target;
  target.id = id;
  target.uuid = reader.uuid();
  target.node = NodeId(reader.word<uint32_t>());
  target.incarnation = Incarnation(reader.word<uint64_t>());
  target.held = Incarnation(reader.word<uint64_t>());
  target.opening = reader.word<uint64_t>();
  target.capacity_bytes = reader.word<uint64_t>();
  target.changed = MapVersion(reader.word<uint64_t>());
  target.media = static_cast<MediaClass>(reader.choice(kMediaClasses));
  const auto bits = reader.word<uint8_t>();
  reader.require((bits & ~(kForgotten | kDraining)) == 0);
  target.forgotten = (bits & kForgotten) != 0;
  target.draining = (bits & kDraining) != 0;
  reader.require(target.held <= target.incarnation && target.node != NodeId());
  return finished(reader, std::move(target));
}

std::string encode(const Table& table) {
  ASSERT(table.copies > 0 && table.copies <= limits::kCopiesMax && table.chains > 0);
  Writer writer(kRecordVersion);
  writer.word(static_cast<uint8_t>(table.copies));
  writer.word(static_cast<uint8_t>(table.media));
  writer.word(static_cast<uint8_t>(table.racks_apart));
  writer.word(table.first.value);
  writer.word(table.chains);
  writer.word(table.changed.value);
  return writer.take();
}

Result<Table> decode_table(TableId id, std::string_view bytes) {
  Reader reader(bytes, kRecordVersion);
  Table table;
  table.id = id;
  table.copies = reader.word<uint8_t>();
  table.media = static_cast<MediaClass>(reader.choice(kMediaClasses));
  table.racks_apart = reader.choice(2) != 0;
  table.first = ChainId(reader.word<uint32_t>());
  table.chains = reader.word<uint32_t>();
  table.changed = MapVersion(reader.word<uint64_t>());
  reader.require(table.copies > 0 && table.copies <= limits::kCopiesMax && table.chains > 0 &&
                 table.chains <= limits::kChainsMax && table.first >= kFirstSharedChain);
  return finished(reader, table);
}

std::string encode(const Chain& chain) {
  ASSERT(chain.members.size() <= limits::kMembersMax && chain.version != ChainVersion());
  Writer writer(kRecordVersion);
  writer.word(chain.table.value);
  writer.word(chain.version.value);
  writer.word(chain.changed.value);
  writer.word(static_cast<uint8_t>(chain.members.size()));
  for (const Member& member : chain.members) {
    writer.word(member.target.value);
    writer.word(member.incarnation.value);
    writer.word(static_cast<uint8_t>(member.state));
    const int bits = (member.leaving ? kLeaving : 0) | (member.doubtful ? kDoubtful : 0);
    writer.word(static_cast<uint8_t>(bits));
  }
  return writer.take();
}

Result<Chain> decode_chain(ChainId id, std::string_view bytes) {
  Reader reader(bytes, kRecordVersion);
  Chain chain;
  chain.id = id;
  chain.table = TableId(reader.word<uint32_t>());
  chain.version = ChainVersion(reader.word<uint64_t>());
  chain.changed = MapVersion(reader.word<uint64_t>());
  const auto members = reader.word<uint8_t>();
  reader.require(members <= limits::kMembersMax && chain.version != ChainVersion());
  for (int i = 0; i < members && reader.going(); ++i) chain.members.push_back(read_member(reader));
  return finished(reader, std::move(chain));
}

std::string encode(const KeyPrint& key) {
  ASSERT(key != KeyPrint());
  Writer writer(kRecordVersion);
  writer.array(key.bytes);
  return writer.take();
}

Result<KeyPrint> decode_key(std::string_view bytes) {
  Reader reader(bytes, kRecordVersion);
  KeyPrint key;
  reader.array(key.bytes);
  reader.require(key != KeyPrint());
  return finished(reader, key);
}

std::string encode(const Token& token) {
  ASSERT(token.uses > 0 && token.uses <= limits::kTokenUsesMax);
  ASSERT(token.used_by.size() <= token.uses);
  Writer writer(kRecordVersion);
  writer.array(token.hash.bytes);
  writer.word(token.roles);
  writer.word(token.node.value);
  writer.word(token.uses);
  writer.word(static_cast<uint64_t>(token.made.nanoseconds));
  writer.word(static_cast<uint64_t>(token.ends.nanoseconds));
  writer.word(static_cast<uint32_t>(token.used_by.size()));
  for (const KeyPrint& key : token.used_by) writer.array(key.bytes);
  if (!token.restriction.is_nothing()) write(writer, token.restriction);
  return writer.take();
}

Result<Token> decode_token(TokenId id, std::string_view bytes) {
  Reader reader(bytes, kRecordVersion);
  Token token;
  token.id = id;
  reader.array(token.hash.bytes);
  token.roles = reader.word<uint8_t>();
  token.node = NodeId(reader.word<uint32_t>());
  token.uses = reader.word<uint32_t>();
  token.made.nanoseconds = static_cast<int64_t>(reader.word<uint64_t>());
  token.ends.nanoseconds = static_cast<int64_t>(reader.word<uint64_t>());
  const auto used = reader.word<uint32_t>();
  reader.require(id != TokenId() && (token.roles & ~kRoles) == 0 && token.uses > 0 &&
                 token.uses <= limits::kTokenUsesMax && used <= token.uses);
  for (uint32_t i = 0; i < used && reader.going(); ++i) {
    reader.array(token.used_by.emplace_back().bytes);
  }
  if (reader.has_more()) {
    token.restriction = read_restriction(reader);
    reader.require(!token.restriction.is_nothing());
  }
  return finished(reader, std::move(token));
}

namespace {

void write_ranges(Writer& writer, const rights::IdRanges& ranges) {
  writer.word(static_cast<uint8_t>(ranges.size()));
  for (const rights::IdRange& range : ranges) {
    writer.word(range.first);
    writer.word(range.last);
  }
}

rights::IdRanges read_ranges(Reader& reader) {
  rights::IdRanges ranges;
  const auto count = reader.word<uint8_t>();
  reader.require(count <= rights::limits::kRangesMax);
  for (int i = 0; i < count && reader.going(); ++i) {
    rights::IdRange& range = ranges.emplace_back();
    range.first = reader.word<uint32_t>();
    range.last = reader.word<uint32_t>();
  }
  return ranges;
}

}  // namespace

void write(Writer& writer, const rights::Restriction& restriction) {
  ASSERT(rights::is_good(restriction));
  write_ranges(writer, restriction.uids);
  write_ranges(writer, restriction.gids);
  writer.word(static_cast<uint8_t>(restriction.squash.has_value()));
  if (restriction.squash) {
    writer.word(restriction.squash->uid);
    writer.word(restriction.squash->gid);
  }
  writer.word(static_cast<uint8_t>(restriction.read_only));
  writer.bytes(restriction.subtree);
}

rights::Restriction read_restriction(Reader& reader) {
  rights::Restriction restriction;
  restriction.uids = read_ranges(reader);
  restriction.gids = read_ranges(reader);
  if (reader.choice(2) != 0) {
    rights::User& user = restriction.squash.emplace();
    user.uid = reader.word<uint32_t>();
    user.gid = reader.word<uint32_t>();
  }
  restriction.read_only = reader.choice(2) != 0;
  restriction.subtree = reader.bytes();
  reader.require(rights::is_good(restriction));
  if (!reader.going()) return {};
  return restriction;
}

std::string encode(const Restricted& restricted) {
  Writer writer(kRecordVersion);
  writer.word(restricted.changed.value);
  write(writer, restricted.what);
  return writer.take();
}

Result<Restricted> decode_restricted(NodeId id, std::string_view bytes) {
  Reader reader(bytes, kRecordVersion);
  Restricted restricted;
  restricted.id = id;
  restricted.changed = MapVersion(reader.word<uint64_t>());
  restricted.what = read_restriction(reader);
  reader.require(id != NodeId());
  return finished(reader, std::move(restricted));
}

std::string encode(const SigningKey& key) {
  ASSERT(key.key != PublicKey());
  Writer writer(kRecordVersion);
  writer.array(key.key.bytes);
  writer.word(key.changed.value);
  return writer.take();
}

Result<SigningKey> decode_signing_key(SigningKeyId id, std::string_view bytes) {
  Reader reader(bytes, kRecordVersion);
  SigningKey key;
  key.id = id;
  reader.array(key.key.bytes);
  key.changed = MapVersion(reader.word<uint64_t>());
  reader.require(id != SigningKeyId() && key.key != PublicKey());
  return finished(reader, key);
}

std::string encode(const Fenced& fenced) {
  ASSERT(fenced.lowest > 0 && fenced.lowest <= limits::kSessionMost);
  Writer writer(kRecordVersion);
  writer.word(fenced.id.value);
  writer.word(fenced.lowest);
  writer.word(fenced.changed.value);
  return writer.take();
}

Result<Fenced> decode_fenced(NodeId id, std::string_view bytes) {
  Reader reader(bytes, kRecordVersion);
  Fenced fenced;
  fenced.id = NodeId(reader.word<uint32_t>());
  fenced.lowest = reader.word<uint64_t>();
  fenced.changed = MapVersion(reader.word<uint64_t>());
  reader.require(fenced.id == id && id != NodeId() && fenced.lowest > 0 &&
                 fenced.lowest <= limits::kSessionMost);
  return finished(reader, fenced);
}

}  // namespace penstock::controller
