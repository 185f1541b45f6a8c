// The words around what is asked and what is answered (docs/formats/meta-calls.md). Little endian,
// as all machines are that this runs on.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "penstock/engine.h"
#include "penstock/wire.h"

namespace penstock::meta_net {

inline constexpr uint16_t kMethod = 80;

struct RequestHeader {
  uint16_t version = 0;
  uint16_t reserved = 0;
  uint32_t checksum = 0;  // CRC-32C of this header, with 0 here, and of what is asked behind it
  uint64_t session = 0;   // of the agent; 0: there is none
  uint64_t caller = 0;    // one RemoteMeta, by a number that no other has
  uint64_t service = 0;   // the life of the service that is meant; 0: any
  uint64_t sequence = 0;  // of the slot; 0: a call that changes nothing, which has no slot
  uint32_t slot = 0;
  uint32_t length = 0;  // of what is asked: behind this header, or in an exposure to fetch from
};
static_assert(sizeof(RequestHeader) == 48 && std::is_trivially_copyable_v<RequestHeader>);

struct ResponseHeader {
  uint32_t length = 0;    // of the answer; with result_too_large what it takes
  uint32_t checksum = 0;  // CRC-32C of the answer
  uint16_t lowest = 0;    // versions that the service speaks
  uint16_t highest = 0;
  uint32_t reserved = 0;
  uint64_t service = 0;  // its life
  uint64_t stamp = 0;    // for what is kept of answers; 0: nothing is known of it
};
static_assert(sizeof(ResponseHeader) == 32 && std::is_trivially_copyable_v<ResponseHeader>);

// What is longer lies in exposed memory.
inline constexpr size_t kShortRequest = engine::kNetMessageMax - sizeof(RequestHeader);
inline constexpr size_t kShortAnswer = engine::kNetMessageMax - sizeof(ResponseHeader);

inline Bytes bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline engine::MemoryRef memory_of(const std::string& bytes) {
  // Transfers that take bytes from it do not write to it.
  return {reinterpret_cast<std::byte*>(const_cast<char*>(bytes.data())), bytes.size()};  // NOLINT
}

template <class Header>
bool read_header(Bytes message, Header& header) {
  if (message.size() < sizeof header) return false;
  std::memcpy(&header, message.data(), sizeof header);
  return true;
}

inline uint32_t checksum_of(RequestHeader header, std::string_view asked) {
  header.checksum = 0;
  return crc32c(bytes_of(asked), crc32c(std::as_bytes(std::span(&header, 1))));
}

}  // namespace penstock::meta_net
