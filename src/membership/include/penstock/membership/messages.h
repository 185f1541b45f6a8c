// What nodes, and persons by their commands, ask a controller, and what it answers. Most of it are
// the step's own events and answers. Format: docs/formats/membership.md.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "penstock/controller.h"
#include "penstock/membership/limits.h"
#include "penstock/wire.h"

namespace penstock::membership {

// The order of a map's records: what one names comes before it.
inline constexpr controller::RecordKind kMapOrder[] = {
    controller::RecordKind::node,       controller::RecordKind::target,
    controller::RecordKind::table,      controller::RecordKind::chain,
    controller::RecordKind::fence,      controller::RecordKind::restriction,
    controller::RecordKind::signing_key};

// A record of the map, or with id 0 what is before all of its kind.
struct MapPlace {
  controller::RecordKind kind = controller::RecordKind::node;
  uint32_t id = 0;

  friend bool operator==(const MapPlace&, const MapPlace&) = default;
};

// What was published since `known`, from a place on. A question for the beginning is kept at the
// controller until there is something.
struct AskMap {
  controller::MapVersion known;  // 0: nothing is
  MapPlace from;
};
struct AskHealth {};
// How nodes and targets are, from the node of that number on.
struct AskNodes {
  NodeId from;
};

// A process without a certificate asks for one, with a token's secret: it is a Join besides.
struct AskToEnroll {
  controller::Join join;
  std::string secret;   // limits::kSecretBytes
  std::string request;  // PKCS #10, PEM: proves that it has the key
  engine::WallTime at;  // its own time
};
// A node asks for a new certificate: under the old one, or, where that has ended, as a guest that
// has the key which the controller knows.
struct AskCertificate {
  controller::Uuid node;  // of its directory
  std::string request;
  engine::WallTime at;
};
// Tokens, from that number on.
struct AskTokens {
  controller::TokenId from;
};
// A node says which authorities it believes, durably, and which of them has signed its certificate:
// half of SHA-256 of their keys. It is told which there are.
struct AskAuthorities {
  std::vector<controller::KeyPrint> believed;  // 1 to limits::kAuthoritiesMax
  controller::KeyPrint signed_by;
};

// The place in the list is the kind in a message. A Fence is answered with Done once it is in
// force, and refused as busy until then: whoever orders it asks again. A process cannot claim in a
// Join that its predecessor has ended: that takes a proof.
using Request =
    std::variant<controller::Join, controller::OpenTarget, controller::Heartbeat, controller::Leave,
                 controller::TablePlan, controller::Move, controller::Drain, controller::Remove,
                 controller::Forget, controller::Trust, AskMap, AskHealth, AskNodes,
                 controller::DrainTarget, AskToEnroll, AskCertificate, controller::MakeToken,
                 controller::RevokeToken, AskTokens, AskAuthorities, controller::Fence,
                 controller::Restrict, controller::PublishKey>;

struct Admitted {
  controller::Admission admission;
  engine::Duration lease{};  // how long a lease of this controller lasts
};
struct MapRecord {
  MapPlace at;
  std::string bytes;  // controller/records.h

  friend bool operator==(const MapRecord&, const MapRecord&) = default;
};
// Once the last piece has come, the map is at least that of the first one's version. Records may be
// newer than that, and are sent again then.
struct MapPiece {
  controller::MapVersion version;
  bool last = true;
  std::vector<MapRecord> records;  // in order; the next piece begins behind
};
struct Done {};
// What a node proves who it is by, and by whom it believes others; PEM.
struct Papers {
  std::string certificate;
  std::vector<std::string> authorities;  // 1 or 2; the first has signed the certificate
};
// Whom nodes believe now: the authority of the cluster, and while another follows it, both.
struct Authorities {
  std::vector<std::string> certificates;  // 1 or 2; PEM
  // Which signs: who has a certificate by another asks for a new one. Zeros: none can.
  controller::KeyPrint signs;
};
struct Enrolled {
  Admitted admitted;
  Papers papers;
};
struct TokensPiece {
  bool last = true;
  std::vector<controller::Token> tokens;  // in order; without their hashes
};

// What the map does not say of a node: what the controller has seen.
struct NodeSeen {
  NodeId id;
  bool silent = true;  // its lease is over, and nothing was heard
  bool suspected = false;
  // Since its last heartbeat; less than 0: none was heard by this controller.
  engine::Duration heard_ago{-1};
  controller::MapVersion applied{};
  uint32_t chains_left = 0;  // that it has to hand over before it may be removed,
  // While it drains, or a target of it does: chains that have to go and that nobody can take now,
  uint32_t chains_without_place = 0;
  // and about how long that takes; less than 0: that is not known.
  engine::Duration drain_time{-1};
  struct OfTarget {
    TargetId id;
    bool up = false;
    bool down = false;  // surely not serving; neither, while a lease may still run
    bool failing = false;
    bool full = false;
    uint64_t used_bytes = 0;
  };
  std::vector<OfTarget> targets{};  // limits::kTargetsPerNode at most
};
struct NodesPiece {
  controller::MapVersion version;
  bool last = true;
  std::vector<NodeSeen> nodes;  // in order; the next piece begins behind
};

using Answer =
    std::variant<controller::Refused, Admitted, controller::Opened, controller::Grant,
                 controller::Made, MapPiece, controller::Health, Done, NodesPiece, Enrolled, Papers,
                 controller::MadeToken, TokensPiece, Authorities, controller::PublishedKey>;

// At most kMembershipBytesMax: who makes a piece of a map sees to that. The lists of a request keep
// to limits.h; too long a reason is cut.
//
// `version` is one that both sides speak. A field of a later one is left out, and is then what it
// is by itself; a kind that a version does not have may not be said in it.
std::string encode(const Request& request, uint32_t version = wire::kNodeVersion);
std::string encode(const Answer& answer, uint32_t version = wire::kNodeVersion);
// Foreign input: bad_message for all that encode() does not make, to the last byte; wrong_version
// for a later version. The bytes of records are their own (decode_node() and so on).
Result<Request> decode_request(std::string_view bytes, uint32_t version = wire::kNodeVersion);
Result<Answer> decode_answer(std::string_view bytes, uint32_t version = wire::kNodeVersion);

}  // namespace penstock::membership
