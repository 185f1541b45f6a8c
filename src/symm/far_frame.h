// What two PEs of different nodes say to each other, as bytes
// (docs/formats/symmetric-memory.md).
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "penstock/symm/far.h"

namespace penstock::symm {

static_assert(std::endian::native == std::endian::little, "frames are written as they are");

enum class FarKind : uint8_t {
  put = 1,
  put_row = 2,
  get = 3,
  get_row = 4,
  change = 5,
  flush = 6,
  bytes = 7,    // answers get and get_row
  value = 8,    // answers a change that wants it
  flushed = 9,  // answers flush
  bye = 10,
  card = 11,           // of the two sides' cards, see FarCardWord
  window_wanted = 12,  // onto a part of a segment, for the sender's card
  window = 13,         // answers it
};

// Before each; `length` bytes follow put, put_row and bytes.
struct FarFrame {
  FarKind kind = FarKind::bye;
  uint8_t segment = 0;
  uint8_t op = 0;      // of a change
  uint8_t width = 0;   // of a change's word
  uint32_t count = 0;  // of a row: elements. Of a change: 1 where an answer is wanted
  uint64_t offset = 0;
  uint64_t length = 0;  // of bytes; of a change: operand; of a value: it
  uint64_t extra = 0;   // of a row: its stride; of a compare_swap: what is expected
};
static_assert(sizeof(FarFrame) == 32 && std::is_trivially_copyable_v<FarFrame>);

// The operation of a card frame: how two PEs come to use a queue pair. Each is said once at most.
enum class FarCardWord : uint8_t {
  offer = 0,    // where the queue pair is: limits::kFarOfferBytes follow
  ready = 1,    // it takes messages
  passed = 2,   // the trial came through
  moved = 3,    // all that follows comes by messages
  refused = 4,  // there will be none; `width`: why, a FarLack
};

// Why there is no queue pair. Numbers go over the wire.
enum class FarLack : uint8_t {
  none = 0,
  off = 1,          // it was told so
  no_device = 2,    // or none that can be used
  too_many = 3,     // queue pairs, or memory for them
  not_joined = 4,   // the queue pair could not be made to reach the other one
  not_through = 5,  // the trial did not come through
};
const char* text_of(FarLack lack);

// In front of the bytes of a message, of which a queue pair has them.
struct FarMessage {
  enum class Kind : uint8_t { bytes = 1, credit = 2, trial = 3 };
  uint32_t taken = 0;  // messages with credit that its sender has taken so far; wraps around
  Kind kind = Kind::bytes;
  std::array<uint8_t, 3> reserved{};
};
static_assert(sizeof(FarMessage) == 8 && std::is_trivially_copyable_v<FarMessage>);

// What a connection begins with, from the one that made it.
inline constexpr size_t kFarSecretBytes = 16;
using FarSecret = std::array<std::byte, kFarSecretBytes>;
struct FarHello {
  static constexpr uint64_t kMagic = 0x3276'5241'464e'5350;  // "PSNFARv2"
  uint64_t magic = kMagic;
  FarSecret secret{};
  uint32_t from = 0;
  uint32_t to = 0;
};
static_assert(sizeof(FarHello) == 32 && std::is_trivially_copyable_v<FarHello>);

// And what answers it.
enum class FarVerdict : uint32_t {
  welcome = 1,
  other_way = 2,  // there is, or will be, a connection that the answering PE has made
  not_here = 3,   // another PE is meant
  begin = 4,      // from the one that made it, after welcome: it has not given up meanwhile
};
struct FarReply {
  static constexpr uint32_t kMagic = 0x5241'4650;
  uint32_t magic = kMagic;
  FarVerdict verdict = FarVerdict::welcome;
};
static_assert(sizeof(FarReply) == 8);

// Takes as long whatever differs.
bool same_secret(const FarSecret& one, const FarSecret& other);

}  // namespace penstock::symm
