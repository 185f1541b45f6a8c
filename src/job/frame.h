// Frames between members and rooms (docs/formats/job.md): what is in them, as bytes. Knows no
// sockets. Everything that is read was sent by a peer, and nothing of it is believed.
#pragma once

#include "bytes_io.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base.h"
#include "penstock/job/limits.h"
#include "penstock/job/place.h"

namespace penstock::job {

inline constexpr uint32_t kMagic = 0x4a4e4550;  // "PENJ"
inline constexpr uint16_t kVersion = 1;
inline constexpr size_t kSecretBytes = 16;
using Secret = std::array<std::byte, kSecretBytes>;

// Of a frame that is for all ranks of a room.
inline constexpr uint32_t kAllRanks = UINT32_MAX;

enum class Kind : uint16_t {
  hello = 1,     // up: who comes
  welcome = 2,   // down: its place
  refused = 3,   // down: why it is not let in; the last frame
  bring = 4,     // up: comes to a meeting
  brought = 5,   // down: what all of it brought
  failed = 6,    // down: the meeting is over without
  withdraw = 7,  // up: gives a meeting up
  leave = 8,     // up
  left = 9,      // down: the answer to it
  abort = 10,    // up
  ended = 11,    // down, and of rooms up: ranks that ended or left
  // Between rooms.
  room = 12,     // up: hello of a room
  joined = 13,   // up: a rank of that room
  answer = 14,   // down: what all of a meeting brought, for several ranks of a room
  waiting = 15,  // down, to members, too: who has not joined yet
  // Between a launcher and its part on another node (task.h). `ended` goes up there, too.
  task = 16,     // down, over the part's standard input: what it is to do
  part = 17,     // up: hello of a part
  ready = 18,    // up: its ranks could be started
  cannot = 19,   // up: why they cannot; the last frame
  start = 20,    // down
  output = 21,   // up
  took = 22,     // both: so many bytes of a stream have gone on, and may follow
  input = 23,    // down; without a body: its end
  closed = 24,   // both: nobody reads that stream any more
  signal = 25,   // down
  done = 26,     // up: all its ranks have ended, and all that they printed was sent
  dismiss = 27,  // down: it is to end, too
};

struct FrameHeader {
  uint32_t body_bytes = 0;
  Kind kind = Kind::hello;
  uint16_t reserved = 0;
  uint32_t descriptors = 0;
  uint32_t rank = 0;    // whom it is of (up) or for (down)
  uint64_t serial = 0;  // of a meeting, as the member counts them
};
static_assert(sizeof(FrameHeader) == 24 && std::is_trivially_copyable_v<FrameHeader>);
static_assert(offsetof(FrameHeader, rank) == 12 && offsetof(FrameHeader, serial) == 16);

struct Frame {
  FrameHeader header;
  std::vector<std::byte> body;
  std::vector<UniqueFd> descriptors;
  bool descriptors_lost = false;  // this process had no room for all of them
};

struct Hello {
  uint32_t rank = 0;
  uint32_t size = 0;
  Secret secret{};
};

// The same for all; the header says for which rank it is.
struct Welcome {
  std::vector<uint32_t> node_of;  // each rank's
  // Of a rank below node_of.size().
  Place place_of(uint32_t rank) const;
};

// Parts of the frame's body. The ranks stay as they came, so that the many that come to one meeting
// cost no list each: read_ranks() looks whether they are any.
struct BringBody {
  std::string name;
  Bytes ranks;
  Bytes bytes;
};

// How a meeting failed.
struct FailedBody {
  Code code = Code::closed;
  std::string text;
};

struct EndedBody {
  std::vector<End> ends;
  std::vector<uint32_t> left;
};

// A rank, and the number that it gave a meeting.
struct Turn {
  uint32_t rank = 0;
  uint64_t serial = 0;
};

// What stands in front of the bytes of all: for each rank in order how much it brought.
struct Share {
  uint32_t bytes = 0;
  uint32_t descriptors = 0;
};

std::vector<std::byte> encode(const Hello& hello);
std::vector<std::byte> encode(const Welcome& welcome);
std::vector<std::byte> encode_bring(std::string_view name, std::span<const uint32_t> ranks,
                                    Bytes bytes);
std::vector<std::byte> encode(const FailedBody& failed);
std::vector<std::byte> encode(const EndedBody& ended);
std::vector<std::byte> encode_abort(int32_t code, std::string_view why);

std::optional<Hello> decode_hello(Bytes body);
std::optional<Welcome> decode_welcome(Bytes body);
std::optional<BringBody> decode_bring(Bytes body);
std::optional<FailedBody> decode_failed(Bytes body);
// `size` is that of the job.
std::optional<EndedBody> decode_ended(Bytes body, uint32_t size);
std::optional<std::pair<int32_t, std::string>> decode_abort(Bytes body);
// Several turns of one meeting, and the body of a frame `brought` behind them.
std::vector<std::byte> encode_answer(const std::vector<Turn>& turns, Bytes brought);
struct AnswerBody {
  std::vector<Turn> turns;
  Bytes brought;  // of the frame
};
std::optional<AnswerBody> decode_answer(Bytes body, uint32_t size);
// The shares of `count` ranks; what follows them are their bytes, exactly.
std::optional<std::vector<Share>> decode_shares(ByteReader& body, size_t count,
                                                uint32_t descriptors);

// "rank 3 has", "ranks 3, 5 and 12 more have": those of `missing`, of which not all are named.
std::string have_not_come(const std::vector<uint32_t>& missing);
// "rank 3", and what became of it: "rank 3 was killed by signal 9 (Killed)".
std::string describe(const End& end);

}  // namespace penstock::job
