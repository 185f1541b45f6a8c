// What agents and the service of locks say to one another, as values and as bytes
// (docs/formats/locks.md).
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "penstock/engine.h"
#include "penstock/locks.h"

namespace penstock::locks_net {

using locks::AgentId;
using locks::Answer;
using locks::Ended;
using locks::Held;
using locks::Kind;
using locks::Owner;
using locks::Range;
using locks::RequestId;
using locks::Type;
using locks::Wanted;

inline constexpr uint16_t kMethod = 82;

struct RequestHeader {
  uint16_t version = 0;
  uint16_t words = 0;     // how many
  uint32_t checksum = 0;  // CRC-32C of this header, with 0 here, and of the words behind it
  uint64_t session = 0;   // of the calling node
  uint64_t sequence = 0;  // of what is said in the session, counted up; 0: it waits to be told
  uint64_t heard = 0;     // the last ended request that the agent has heard of
  uint32_t life = 0;      // that is meant
  uint32_t unused = 0;
};
static_assert(sizeof(RequestHeader) == 40 && std::is_trivially_copyable_v<RequestHeader>);

struct ResponseHeader {
  uint16_t lowest = 0;  // versions that the service speaks
  uint16_t highest = 0;
  uint16_t life = 0;
  uint16_t is_good = 0;   // 1: the session goes on
  uint32_t taken = 0;     // words that are done; the others are to be said again
  uint32_t checksum = 0;  // CRC-32C of what is told
};
static_assert(sizeof(ResponseHeader) == 16 && std::is_trivially_copyable_v<ResponseHeader>);

inline constexpr size_t kWordsRoom = engine::kNetMessageMax - sizeof(RequestHeader);
inline constexpr size_t kToldRoom = engine::kNetMessageMax - sizeof(ResponseHeader);

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

struct Set {
  Wanted wanted;
  uint64_t request = 0;  // by which it waits; 0: it does not
};
struct Get {
  Wanted wanted;
};
struct Release {
  Owner owner;
  InodeId inode;
};
struct Cancel {
  uint64_t request = 0;
};
// For a new life: it has this.
struct Have {
  Wanted wanted;
};
// And nothing else.
struct HaveAll {};

using Word = std::variant<Set, Get, Release, Cancel, Have, HaveAll>;

// ---- what an agent is told ----

// Of the next word.
struct Answered {
  Answer answer = Answer::done;
};
// The same, to Get: something is in the way.
struct InTheWay {
  Held held;
};
// A request that waited.
struct NoLonger {
  uint64_t event = 0;  // counted up
  uint64_t request = 0;
  Answer answer = Answer::done;
};

using Told = std::variant<Answered, InTheWay, NoLonger>;

// Appends it.
void encode(const Word& word, std::string& bytes);
void encode(const Told& told, std::string& bytes);
// Of foreign bytes; none: they are no words. Owners are `agent`'s, of whom the bytes say nothing.
std::optional<std::vector<Word>> decode_words(std::string_view bytes, AgentId agent);
std::optional<std::vector<Told>> decode_told(std::string_view bytes);

}  // namespace penstock::locks_net
