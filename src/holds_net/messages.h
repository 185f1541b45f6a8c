// What agents and the service say to one another, as values and as bytes (docs/formats/holds.md).
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "penstock/engine.h"
#include "penstock/holds.h"
#include "penstock/wire.h"

namespace penstock::holds_net {

using holds::AgentId;
using holds::Back;
using holds::Given;
using holds::Hold;
using holds::Recall;
using holds::RequestId;
using holds::Stamp;
using holds::Want;

inline constexpr uint16_t kMethod = 81;

// ---- the words around ----

enum class Kind : uint16_t {
  begin = 1,    // a session
  say = 2,      // words
  attend = 3,   // answered when there is something to tell, or after a while
  dropped = 4,  // the session ends, and nothing is kept of it
};

struct RequestHeader {
  uint16_t version = 0;
  uint16_t kind = 0;
  uint32_t checksum = 0;  // CRC-32C of this header, with 0 here, and of the words behind it
  uint64_t session = 0;   // of the calling node
  uint64_t caller = 0;    // one process, by a number that no other has
  uint64_t sequence = 0;  // of what is said, counted up; else 0
  uint32_t life = 0;      // of the table that is meant, as it was last heard; 0: of none
  uint32_t length = 0;    // of the words: behind this header, or in an exposure to fetch from
};
static_assert(sizeof(RequestHeader) == 40 && std::is_trivially_copyable_v<RequestHeader>);

struct ResponseHeader {
  uint16_t lowest = 0;  // versions that the service speaks
  uint16_t highest = 0;
  uint16_t life = 0;
  uint16_t is_good = 0;   // 1: the session goes on, or has begun
  uint64_t next = 0;      // with 0 to a begin: the number of the session that may begin
  uint32_t length = 0;    // of what is told: behind this header, or in an exposure to place into
  uint32_t checksum = 0;  // CRC-32C of it
};
static_assert(sizeof(ResponseHeader) == 24 && std::is_trivially_copyable_v<ResponseHeader>);

inline constexpr size_t kShortWords = engine::kNetMessageMax - sizeof(RequestHeader);
inline constexpr size_t kShortTold = engine::kNetMessageMax - sizeof(ResponseHeader);

inline Bytes bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline uint32_t checksum_of(RequestHeader header, std::string_view words) {
  header.checksum = 0;
  return crc32c(bytes_of(words), crc32c(std::as_bytes(std::span(&header, 1))));
}

// ---- words of an agent ----

struct GiveUp {
  InodeId inode;
  Stamp grant;
  bool in_use = false;
};
struct Unused {
  InodeId inode;
};
struct Cancel {
  InodeId inode;
  RequestId request;
};
// Of a session of an earlier life: it has this. With none: in use.
struct Claim {
  InodeId inode;
  Hold hold = Hold::none;
};
struct ClaimsEnd {};

using Word = std::variant<Want, Back, GiveUp, Unused, Cancel, Claim, ClaimsEnd>;

// ---- what an agent is told ----

// The claim is good; the hold is of this stamp.
struct Granted {
  InodeId inode;
  Stamp stamp;
};
struct ClaimsTaken {};
// To a Want, in place of Given: a node that is restricted has not shown that it may know of the
// inode, or is to change nothing.
struct Refused {
  InodeId inode;
  RequestId request;
  bool only_reads = false;
};

using Told = std::variant<Given, Recall, Granted, ClaimsTaken, Refused>;

// Appends it.
void encode(const Word& word, std::string& bytes);
void encode(const Told& told, std::string& bytes);
// Of foreign bytes; none: they are no words. They are `agent`'s, of whom the bytes say nothing.
std::optional<std::vector<Word>> decode_words(std::string_view bytes, AgentId agent);
std::optional<std::vector<Told>> decode_told(std::string_view bytes, AgentId agent);

}  // namespace penstock::holds_net
