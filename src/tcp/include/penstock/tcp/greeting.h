// The greeting: how two nodes find out, before any call, whether they may talk and what they both
// speak. Its three messages are the same in all versions.
//
// The caller says who it is, whom it wants, which versions it speaks and which features it has; the
// server answers with what both have, or refuses with a reason for people. Features that one side
// does not know are no reason: a bit counts only when both have set it.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "penstock/base.h"
#include "penstock/tcp/limits.h"

namespace penstock::tcp {

// Of a whole cluster, drawn at random when it is made.
using ClusterId = std::array<std::byte, 16>;

// Which life of a node's process this is: a later one is larger.
using Incarnation = Id<struct IncarnationTag, uint64_t>;

// Optional parts of the protocol, one bit each. There is none yet.
inline constexpr uint64_t kFeatures = 0;

// The number of a process that has no number in the cluster yet. Any number of them may call, and
// only what is open to them.
inline constexpr NodeId kGuest{UINT32_MAX};

struct Hello {
  // Of all that nodes say to one another (wire/node_version.h). Frames are the same in all of them.
  uint8_t lowest_version = 0;
  uint8_t highest_version = 0;
  uint64_t features = 0;
  ClusterId cluster{};
  NodeId node;    // the caller's
  NodeId wanted;  // the one that it believes to have reached
  uint32_t service = 0;
  Incarnation incarnation;
  Bytes proof;  // of its identity; empty as long as there are no certificates
};

struct Welcome {
  uint8_t version = 0;
  uint32_t calls_max = 0;  // that may be in progress on this connection
  uint64_t features = 0;   // that both sides have
  NodeId node;
  Incarnation incarnation;
  Bytes proof;
};

enum class Refusal : uint16_t {
  wrong_version = 1,  // no version that both speak
  wrong_cluster = 2,
  wrong_node = 3,    // another node than the wanted one is there
  no_service = 4,    // nobody serves that number
  too_many = 5,      // too many connections at this moment
  not_proven = 6,    // the proof of identity does not hold
  bad_greeting = 7,  // it could not be read
  not_sealed = 8,    // it came in the clear, and the server speaks TLS
  removed = 9,       // the cluster has removed the caller's node
};

struct Refused {
  Refusal reason = Refusal::bad_greeting;
  uint8_t lowest_version = 0;  // that the server speaks
  uint8_t highest_version = 0;
  std::string_view text;  // for people; UTF-8, but foreign
};

using GreetingBytes = std::span<std::byte, limits::kMessageBytesMax>;

// Each writes the message and returns its length. Proofs and texts keep their limits.
uint32_t encode_hello(const Hello& hello, GreetingBytes to);
uint32_t encode_welcome(const Welcome& welcome, GreetingBytes to);
uint32_t encode_refused(const Refused& refused, GreetingBytes to);

// Foreign bytes: bad_message for a wrong length, a range of versions that is empty, a node 0, or a
// reserved field that is not 0. Proofs and texts lie in `message`. Whatever reason a refusal has
// that this code does not know is kept as it is: a refusal stays one.
Result<Hello> decode_hello(Bytes message);
Result<Welcome> decode_welcome(Bytes message);
Result<Refused> decode_refused(Bytes message);

// A node as it greets.
struct Identity {
  ClusterId cluster{};
  NodeId node;
  Incarnation incarnation;
  uint8_t lowest_version = 0;
  uint8_t highest_version = 0;
  uint64_t features = 0;
};

// What a server has against a caller, before it looks at the proof and for the service.
std::optional<Refusal> objection(const Identity& server, const Hello& hello);

// Of a caller and a server without objection: the highest version that both speak, and the features
// that both have.
Welcome agree(const Identity& server, const Hello& hello, uint32_t calls_max);

// Whether the welcome answers that hello: its version and features were offered, it allows a call,
// and the node is the one that was wanted. bad_message where not.
Status check_welcome(const Hello& hello, const Welcome& welcome);

// Why the two have no version in common, and what to do, for people.
std::string no_common_version(const Identity& self, NodeId other, uint8_t lowest, uint8_t highest);

// "another cluster", for logs and messages.
std::string_view refusal_name(Refusal reason);

}  // namespace penstock::tcp
