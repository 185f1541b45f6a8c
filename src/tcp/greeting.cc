#include "penstock/tcp/greeting.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <type_traits>

namespace penstock::tcp {
namespace {

// The fixed parts as they travel; docs/formats/tcp.md. A proof or a text follows.
struct WireHello {
  uint8_t lowest_version = 0;
  uint8_t highest_version = 0;
  uint16_t proof_bytes = 0;
  uint32_t service = 0;
  uint64_t features = 0;
  ClusterId cluster{};
  uint32_t node = 0;
  uint32_t wanted = 0;
  uint64_t incarnation = 0;
};
struct WireWelcome {
  uint8_t version = 0;
  uint8_t reserved = 0;
  uint16_t proof_bytes = 0;
  uint32_t calls_max = 0;
  uint64_t features = 0;
  uint32_t node = 0;
  uint32_t reserved_too = 0;
  uint64_t incarnation = 0;
};
struct WireRefused {
  uint16_t reason = 0;
  uint8_t lowest_version = 0;
  uint8_t highest_version = 0;
  uint32_t text_bytes = 0;
};
static_assert(sizeof(WireHello) == 48 && offsetof(WireHello, cluster) == 16 &&
              offsetof(WireHello, node) == 32 && offsetof(WireHello, incarnation) == 40);
static_assert(sizeof(WireWelcome) == 32 && offsetof(WireWelcome, features) == 8 &&
              offsetof(WireWelcome, incarnation) == 24);
static_assert(sizeof(WireRefused) == 8);
static_assert(std::has_unique_object_representations_v<WireHello> &&
                  std::has_unique_object_representations_v<WireWelcome> &&
                  std::has_unique_object_representations_v<WireRefused>,
              "no padding");

template <class Wire>
uint32_t put(const Wire& wire, Bytes tail, GreetingBytes to) {
  ASSERT(sizeof wire + tail.size() <= to.size());
  std::memcpy(to.data(), &wire, sizeof wire);
  if (!tail.empty()) std::memcpy(to.data() + sizeof wire, tail.data(), tail.size());
  return static_cast<uint32_t>(sizeof wire + tail.size());
}

// What follows the fixed part; false when that is not there.
template <class Wire>
bool take(Bytes message, Wire& wire, Bytes& tail) {
  if (message.size() < sizeof wire) return false;
  std::memcpy(&wire, message.data(), sizeof wire);
  tail = message.subspan(sizeof wire);
  return true;
}

}  // namespace

uint32_t encode_hello(const Hello& hello, GreetingBytes to) {
  ASSERT(hello.proof.size() <= limits::kProofBytesMax);
  ASSERT(hello.lowest_version <= hello.highest_version && hello.node != NodeId());
  return put(WireHello{.lowest_version = hello.lowest_version,
                       .highest_version = hello.highest_version,
                       .proof_bytes = static_cast<uint16_t>(hello.proof.size()),
                       .service = hello.service,
                       .features = hello.features,
                       .cluster = hello.cluster,
                       .node = hello.node.value,
                       .wanted = hello.wanted.value,
                       .incarnation = hello.incarnation.value},
             hello.proof, to);
}

uint32_t encode_welcome(const Welcome& welcome, GreetingBytes to) {
  ASSERT(welcome.proof.size() <= limits::kProofBytesMax);
  ASSERT(welcome.calls_max > 0 && welcome.calls_max <= limits::kCallsMax);
  return put(WireWelcome{.version = welcome.version,
                         .proof_bytes = static_cast<uint16_t>(welcome.proof.size()),
                         .calls_max = welcome.calls_max,
                         .features = welcome.features,
                         .node = welcome.node.value,
                         .incarnation = welcome.incarnation.value},
             welcome.proof, to);
}

uint32_t encode_refused(const Refused& refused, GreetingBytes to) {
  ASSERT(refused.text.size() <= limits::kReasonBytesMax);
  return put(WireRefused{.reason = static_cast<uint16_t>(refused.reason),
                         .lowest_version = refused.lowest_version,
                         .highest_version = refused.highest_version,
                         .text_bytes = static_cast<uint32_t>(refused.text.size())},
             std::as_bytes(std::span(refused.text)), to);
}

Result<Hello> decode_hello(Bytes message) {
  WireHello wire;
  Bytes proof;
  if (!take(message, wire, proof)) return Code::bad_message;
  if (wire.proof_bytes != proof.size() || proof.size() > limits::kProofBytesMax ||
      wire.lowest_version > wire.highest_version || wire.node == 0 || wire.wanted == 0) {
    return Code::bad_message;
  }
  return Hello{.lowest_version = wire.lowest_version,
               .highest_version = wire.highest_version,
               .features = wire.features,
               .cluster = wire.cluster,
               .node = NodeId{wire.node},
               .wanted = NodeId{wire.wanted},
               .service = wire.service,
               .incarnation = Incarnation{wire.incarnation},
               .proof = proof};
}

Result<Welcome> decode_welcome(Bytes message) {
  WireWelcome wire;
  Bytes proof;
  if (!take(message, wire, proof)) return Code::bad_message;
  if (wire.proof_bytes != proof.size() || proof.size() > limits::kProofBytesMax ||
      wire.reserved != 0 || wire.reserved_too != 0 || wire.node == 0 || wire.calls_max == 0 ||
      wire.calls_max > limits::kCallsMax) {
    return Code::bad_message;
  }
  return Welcome{.version = wire.version,
                 .calls_max = wire.calls_max,
                 .features = wire.features,
                 .node = NodeId{wire.node},
                 .incarnation = Incarnation{wire.incarnation},
                 .proof = proof};
}

Result<Refused> decode_refused(Bytes message) {
  WireRefused wire;
  Bytes text;
  if (!take(message, wire, text)) return Code::bad_message;
  if (wire.text_bytes != text.size() || text.size() > limits::kReasonBytesMax) {
    return Code::bad_message;
  }
  return Refused{.reason = static_cast<Refusal>(wire.reason),
                 .lowest_version = wire.lowest_version,
                 .highest_version = wire.highest_version,
                 .text = {reinterpret_cast<const char*>(text.data()), text.size()}};
}

std::optional<Refusal> objection(const Identity& server, const Hello& hello) {
  ASSERT(server.lowest_version <= server.highest_version && server.node != NodeId());
  if (hello.cluster != server.cluster) return Refusal::wrong_cluster;
  if (hello.highest_version < server.lowest_version ||
      hello.lowest_version > server.highest_version) {
    return Refusal::wrong_version;
  }
  if (hello.wanted != server.node) return Refusal::wrong_node;
  return std::nullopt;
}

Welcome agree(const Identity& server, const Hello& hello, uint32_t calls_max) {
  ASSERT(!objection(server, hello).has_value());
  ASSERT(calls_max > 0 && calls_max <= limits::kCallsMax);
  return {.version = std::min(server.highest_version, hello.highest_version),
          .calls_max = calls_max,
          .features = server.features & hello.features,
          .node = server.node,
          .incarnation = server.incarnation,
          .proof = {}};
}

Status check_welcome(const Hello& hello, const Welcome& welcome) {
  const bool was_offered = welcome.version >= hello.lowest_version &&
                           welcome.version <= hello.highest_version &&
                           (welcome.features & ~hello.features) == 0;
  return was_offered && welcome.node == hello.wanted ? Code::ok : Code::bad_message;
}

std::string no_common_version(const Identity& self, NodeId other, uint8_t lowest, uint8_t highest) {
  const auto versions = [](uint8_t from, uint8_t to) {
    return from == to ? fmt::format("version {}", to) : fmt::format("versions {} to {}", from, to);
  };
  const bool self_is_older = self.highest_version < lowest;
  return fmt::format(
      "no common version: node {} speaks {}, this node {} (upgrade {} to a release "
      "that speaks version {})",
      other.value, versions(lowest, highest), versions(self.lowest_version, self.highest_version),
      self_is_older ? std::string("this node") : fmt::format("node {}", other.value),
      self_is_older ? lowest : self.lowest_version);
}

std::string_view refusal_name(Refusal reason) {
  switch (reason) {
    case Refusal::wrong_version:
      return "no common version";
    case Refusal::wrong_cluster:
      return "another cluster";
    case Refusal::wrong_node:
      return "another node";
    case Refusal::no_service:
      return "no such service";
    case Refusal::too_many:
      return "too many connections";
    case Refusal::not_proven:
      return "identity not proven";
    case Refusal::not_sealed:
      return "it speaks TLS, and this process was started with --insecure";
    case Refusal::removed:
      return "the node was removed from the cluster";
    case Refusal::bad_greeting:
      return "unreadable greeting";
  }
  return "unknown reason";
}

}  // namespace penstock::tcp
