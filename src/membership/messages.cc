#include "penstock/membership/messages.h"

#include <algorithm>

#include "penstock/controller.h"
#include "penstock/wire.h"

namespace penstock::membership {

using controller::ChainReport;
using controller::MediaClass;
using controller::Reader;
using controller::RecordKind;
using controller::Writer;

namespace {

// Each message has a function that names its fields in order, for an Out or an In.
class Out {
 public:
  Out(Writer& writer, uint32_t version) : writer_(writer), version_(version) {}

  // What came with a later version is neither written nor read in an earlier one.
  bool has(uint32_t version) const { return version_ >= version; }

  template <class Word>
  void word(Word value) {
    writer_.word(value);
  }
  template <class Tag, class Word>
  void id(const Id<Tag, Word>& id) {
    writer_.word(id.value);
  }
  template <class Choice>
  void choice(Choice value, uint8_t count) {
    ASSERT(static_cast<uint8_t>(value) < count);
    writer_.word(static_cast<uint8_t>(value));
  }
  void yes(bool value) { writer_.word(static_cast<uint8_t>(value)); }
  void uuid(const controller::Uuid& uuid) { writer_.uuid(uuid); }
  void facts(const controller::NodeFacts& facts) { controller::write(writer_, facts); }
  void restriction(const rights::Restriction& what) { controller::write(writer_, what); }
  void size(size_t value) {
    ASSERT(value <= UINT32_MAX);
    writer_.word(static_cast<uint32_t>(value));
  }
  void duration(engine::Duration value) {
    ASSERT(value >= engine::Duration::zero());
    writer_.word(static_cast<uint64_t>(value.count()));
  }
  // All ones for less than 0.
  void age(engine::Duration value) {
    writer_.word(value < engine::Duration::zero() ? UINT64_MAX
                                                  : static_cast<uint64_t>(value.count()));
  }
  void code(Code code) { writer_.word(static_cast<uint16_t>(code)); }
  // What is too long is cut.
  void text(const std::string& value, size_t max) {
    writer_.bytes(std::string_view(value).substr(0, max));
  }
  void bytes(const std::string& value, size_t max) {
    ASSERT(value.size() <= max);
    writer_.bytes(value);
  }
  void wall(const engine::WallTime& time) { writer_.word(static_cast<uint64_t>(time.nanoseconds)); }
  template <size_t kBytes>
  void array(const std::array<uint8_t, kBytes>& bytes) {
    writer_.array(bytes);
  }
  template <class T, class Fields>
  void list(const std::vector<T>& list, size_t max, const Fields& fields) {
    ASSERT(list.size() <= max);
    writer_.word(static_cast<uint16_t>(list.size()));
    for (const T& one : list) fields(one);
  }
  void require(bool holds) { ASSERT(holds); }

 private:
  Writer& writer_;
  const uint32_t version_;
};

class In {
 public:
  In(Reader& reader, uint32_t version) : reader_(reader), version_(version) {}

  bool has(uint32_t version) const { return version_ >= version; }

  template <class Word>
  void word(Word& value) {
    value = reader_.word<Word>();
  }
  template <class Tag, class Word>
  void id(Id<Tag, Word>& id) {
    id.value = reader_.word<Word>();
  }
  template <class Choice>
  void choice(Choice& value, uint8_t count) {
    value = static_cast<Choice>(reader_.choice(count));
  }
  void yes(bool& value) { value = reader_.choice(2) == 1; }
  void uuid(controller::Uuid& uuid) { uuid = reader_.uuid(); }
  void facts(controller::NodeFacts& facts) { facts = controller::read_facts(reader_); }
  void restriction(rights::Restriction& what) { what = controller::read_restriction(reader_); }
  void size(size_t& value) { value = reader_.word<uint32_t>(); }
  void duration(engine::Duration& value) {
    const auto count = reader_.word<uint64_t>();
    reader_.require(count <= static_cast<uint64_t>(engine::Duration::max().count()) / 4);
    if (reader_.going()) value = engine::Duration(static_cast<int64_t>(count));
  }
  void age(engine::Duration& value) {
    const auto count = reader_.word<uint64_t>();
    const bool is_none = count == UINT64_MAX;
    reader_.require(is_none || count <= static_cast<uint64_t>(engine::Duration::max().count()));
    value = is_none || !reader_.going() ? engine::Duration(-1)
                                        : engine::Duration(static_cast<int64_t>(count));
  }
  void code(Code& code) {
    // A later release may have codes that this one does not know.
    code = static_cast<Code>(reader_.word<uint16_t>());
  }
  void text(std::string& value, size_t max) { bytes(value, max); }
  void bytes(std::string& value, size_t max) {
    value = reader_.bytes();
    reader_.require(value.size() <= max);
  }
  void wall(engine::WallTime& time) {
    time.nanoseconds = static_cast<int64_t>(reader_.word<uint64_t>());
  }
  template <size_t kBytes>
  void array(std::array<uint8_t, kBytes>& bytes) {
    reader_.array(bytes);
  }
  template <class T, class Fields>
  void list(std::vector<T>& list, size_t max, const Fields& fields) {
    const auto count = reader_.word<uint16_t>();
    reader_.require(count <= max);
    for (size_t i = 0; i < count && reader_.going(); ++i) fields(list.emplace_back());
  }
  void require(bool holds) { reader_.require(holds); }

 private:
  Reader& reader_;
  const uint32_t version_;
};

size_t place_of(RecordKind kind) {
  return static_cast<size_t>(std::find(std::begin(kMapOrder), std::end(kMapOrder), kind) -
                             std::begin(kMapOrder));
}

// `m` is const where it is written.
void fields(auto& io, auto& sender, const controller::Sender&) {
  io.id(sender.node);
  io.id(sender.incarnation);
  io.word(sender.sequence);
}
void fields(auto& io, auto& m, const controller::Join&) {
  io.uuid(m.cluster);
  io.uuid(m.node);
  io.uuid(m.process);
  io.facts(m.facts);
}
void fields(auto& io, auto& m, const controller::OpenTarget&) {
  fields(io, m.from, m.from);
  io.uuid(m.target);
  io.id(m.held);
  io.word(m.opening);
  io.word(m.capacity_bytes);
  io.choice(m.media, controller::kMediaClasses);
}
void fields(auto& io, auto& m, const controller::Heartbeat&) {
  fields(io, m.from, m.from);
  io.id(m.applied);
  io.word(m.answered);
  io.list(m.targets, limits::kTargetsPerNode, [&](auto& target) {
    io.id(target.target);
    io.id(target.incarnation);
    io.yes(target.failing);
    io.yes(target.full);
    io.word(target.used_bytes);
  });
  io.list(m.reports, limits::kReportsPerHeartbeat, [&](auto& report) {
    io.choice(report.kind, 2);
    io.id(report.chain);
    io.id(report.version);
    io.id(report.reporter);
  });
  io.list(m.accused, limits::kAccusedPerHeartbeat, [&](auto& node) { io.id(node); });
#if PENSTOCK_NEXT_PROTOCOL
  if (io.has(2)) io.word(m.uptime_ms);
#endif
}
void fields(auto& io, auto& m, const controller::Leave&) {
  fields(io, m.from, m.from);
}
void fields(auto& io, auto& m, const controller::TablePlan&) {
  io.word(m.copies);
  io.choice(m.media, controller::kMediaClasses);
  io.yes(m.racks_apart);
  io.word(m.chains);
  io.require(m.copies >= 1 && m.copies <= controller::limits::kCopiesMax);
  io.require(m.chains >= 1 && m.chains <= controller::limits::kChainsMax);
}
void fields(auto& io, auto& m, const controller::Move&) {
  io.id(m.chain);
  io.id(m.from);
  io.id(m.to);
}
void fields(auto& io, auto& m, const controller::Drain&) {
  io.id(m.node);
  io.yes(m.on);
}
void fields(auto& io, auto& m, const controller::Remove&) {
  io.id(m.node);
  io.yes(m.force);
}
void fields(auto& io, auto& m, const controller::Forget&) {
  io.id(m.target);
  io.yes(m.force);
}
void fields(auto& io, auto& m, const controller::Trust&) {
  io.id(m.target);
}
void fields(auto& io, auto& m, const controller::DrainTarget&) {
  io.id(m.target);
  io.yes(m.on);
}
void fields(auto& io, auto& m, const controller::Fence&) {
  io.id(m.node);
  io.word(m.lowest);
}
void fields(auto& io, auto& m, const MapPlace&) {
  io.choice(m.kind, UINT8_MAX);
  io.word(m.id);
  io.require(place_of(m.kind) < std::size(kMapOrder));
}
void fields(auto& io, auto& m, const AskMap&) {
  io.id(m.known);
  fields(io, m.from, m.from);
}
void fields(auto&, auto&, const AskHealth&) {}
void fields(auto& io, auto& m, const AskNodes&) {
  io.id(m.from);
}

void fields(auto& io, auto& m, const AskToEnroll&) {
  fields(io, m.join, m.join);
  io.bytes(m.secret, limits::kSecretBytes);
  io.bytes(m.request, limits::kRequestBytesMax);
  io.wall(m.at);
  io.require(m.secret.size() == limits::kSecretBytes);
}
void fields(auto& io, auto& m, const AskCertificate&) {
  io.uuid(m.node);
  io.bytes(m.request, limits::kRequestBytesMax);
  io.wall(m.at);
}
void fields(auto& io, auto& m, const controller::MakeToken&) {
  io.array(m.hash.bytes);
  io.word(m.roles);
  io.id(m.node);
  io.word(m.uses);
  io.wall(m.made);
  io.wall(m.ends);
  io.require((m.roles & ~controller::kRoles) == 0);
  io.restriction(m.restriction);
}
void fields(auto& io, auto& m, const controller::Restrict&) {
  io.id(m.node);
  io.restriction(m.what);
}
void fields(auto& io, auto& m, const controller::PublishKey&) {
  io.array(m.key.bytes);
}
void fields(auto& io, auto& m, const controller::PublishedKey&) {
  io.id(m.key);
  io.require(m.key != controller::SigningKeyId());
}
void fields(auto& io, auto& m, const controller::RevokeToken&) {
  io.id(m.token);
}
void fields(auto& io, auto& m, const AskTokens&) {
  io.id(m.from);
}
void fields(auto& io, auto& m, const AskAuthorities&) {
  io.list(m.believed, limits::kAuthoritiesMax, [&](auto& one) { io.array(one.bytes); });
  io.array(m.signed_by.bytes);
  io.require(!m.believed.empty());
}

void fields(auto& io, auto& m, const controller::Refused&) {
  io.code(m.code);
  io.text(m.reason, limits::kReasonBytesMax);
  io.require(m.code != Code::ok);
}
void fields(auto& io, auto& m, const Admitted&) {
  io.uuid(m.admission.process);
  io.id(m.admission.node);
  io.id(m.admission.incarnation);
  io.duration(m.lease);
  io.require(m.admission.node != NodeId() && m.lease > engine::Duration::zero());
}
void fields(auto& io, auto& m, const controller::Opened&) {
  io.id(m.node);
  io.id(m.node_incarnation);
  io.word(m.opening);
  io.id(m.target);
  io.id(m.incarnation);
  io.require(m.target != TargetId() && m.incarnation != controller::Incarnation());
}
void fields(auto& io, auto& m, const controller::Grant&) {
  io.id(m.node);
  io.id(m.node_incarnation);
  io.word(m.sequence);
  io.id(m.version);
  io.yes(m.lease);
  io.list(m.targets, limits::kTargetsPerNode, [&](auto& of) {
    io.id(of.target);
    io.id(of.incarnation);
  });
}
void fields(auto& io, auto& m, const controller::Made&) {
  io.id(m.table);
}
void fields(auto& io, auto& m, const MapPiece&) {
  io.id(m.version);
  io.yes(m.last);
  io.list(m.records, UINT16_MAX, [&](auto& record) {
    fields(io, record.at, record.at);
    io.bytes(record.bytes, limits::kRecordBytesMax);
    io.require(record.at.id != 0);
  });
  io.require(m.last || !m.records.empty());
}
void fields(auto& io, auto& m, const controller::Health&) {
  io.size(m.nodes);
  io.size(m.missing);
  io.size(m.suspected);
  io.size(m.chains);
  io.size(m.whole);
  io.size(m.partial);
  io.size(m.unavailable);
  io.size(m.syncing);
  io.size(m.moving);
  io.size(m.moves_left);
  io.yes(m.moves_wait);
  io.age(m.moves_time);
}
void fields(auto&, auto&, const Done&) {}
void fields(auto& io, auto& m, const NodeSeen&) {
  io.id(m.id);
  io.yes(m.silent);
  io.yes(m.suspected);
  io.age(m.heard_ago);
  io.id(m.applied);
  io.word(m.chains_left);
  io.word(m.chains_without_place);
  io.age(m.drain_time);
  io.list(m.targets, limits::kTargetsPerNode, [&](auto& target) {
    io.id(target.id);
    io.yes(target.up);
    io.yes(target.down);
    io.yes(target.failing);
    io.yes(target.full);
    io.word(target.used_bytes);
  });
  io.require(m.id != NodeId());
}
void fields(auto& io, auto& m, const NodesPiece&) {
  io.id(m.version);
  io.yes(m.last);
  io.list(m.nodes, UINT16_MAX, [&](auto& node) { fields(io, node, node); });
  io.require(m.last || !m.nodes.empty());
}

void fields(auto& io, auto& m, const Papers&) {
  io.bytes(m.certificate, limits::kCertificateBytesMax);
  io.list(m.authorities, limits::kAuthoritiesMax,
          [&](auto& one) { io.bytes(one, limits::kCertificateBytesMax); });
  io.require(!m.certificate.empty() && !m.authorities.empty());
}
void fields(auto& io, auto& m, const Authorities&) {
  io.list(m.certificates, limits::kAuthoritiesMax,
          [&](auto& one) { io.bytes(one, limits::kCertificateBytesMax); });
  io.array(m.signs.bytes);
  io.require(!m.certificates.empty());
}
void fields(auto& io, auto& m, const Enrolled&) {
  fields(io, m.admitted, m.admitted);
  fields(io, m.papers, m.papers);
}
void fields(auto& io, auto& m, const controller::MadeToken&) {
  io.id(m.token);
}
void fields(auto& io, auto& m, const TokensPiece&) {
  io.yes(m.last);
  io.list(m.tokens, controller::limits::kTokensMax, [&](auto& token) {
    io.id(token.id);
    io.word(token.roles);
    io.id(token.node);
    io.word(token.uses);
    io.wall(token.made);
    io.wall(token.ends);
    io.require((token.roles & ~controller::kRoles) == 0);
    io.list(token.used_by, controller::limits::kTokenUsesMax,
            [&](auto& key) { io.array(key.bytes); });
    io.restriction(token.restriction);
  });
  io.require(m.last || !m.tokens.empty());
}

template <class Variant>
std::string encode_any(const Variant& message, uint32_t version) {
  ASSERT(version >= wire::kNodeVersionLeast && version <= wire::kNodeVersionMost);
  Writer writer(static_cast<uint8_t>(version));
  writer.word(static_cast<uint8_t>(message.index()));
  Out out(writer, version);
  std::visit([&](const auto& one) { fields(out, one, one); }, message);
  std::string bytes = writer.take();
  ASSERT(bytes.size() <= wire::kMembershipBytesMax);
  return bytes;
}

template <class Variant, size_t kAt = 0>
void make(Variant& message, size_t index) {
  ASSERT(index < std::variant_size_v<Variant>);
  if constexpr (kAt < std::variant_size_v<Variant>) {
    if (index != kAt) return make<Variant, kAt + 1>(message, index);
    message.template emplace<kAt>();
  }
}

template <class Variant>
Result<Variant> decode_any(std::string_view bytes, uint32_t version) {
  ASSERT(version >= wire::kNodeVersionLeast && version <= wire::kNodeVersionMost);
  if (bytes.size() > wire::kMembershipBytesMax) return Code::bad_message;
  Reader reader(bytes, static_cast<uint8_t>(version));
  Variant message;
  make(message, reader.choice(std::variant_size_v<Variant>));
  In in(reader, version);
  std::visit([&](auto& one) { fields(in, one, one); }, message);
  const Status status = reader.end();
  if (status == Code::wrong_version) return status;
  if (!status.ok()) return Code::bad_message;
  return message;
}

}  // namespace

std::string encode(const Request& request, uint32_t version) {
  return encode_any(request, version);
}
std::string encode(const Answer& answer, uint32_t version) {
  return encode_any(answer, version);
}
Result<Request> decode_request(std::string_view bytes, uint32_t version) {
  return decode_any<Request>(bytes, version);
}
Result<Answer> decode_answer(std::string_view bytes, uint32_t version) {
  return decode_any<Answer>(bytes, version);
}

}  // namespace penstock::membership
