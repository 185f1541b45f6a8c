// What proxies of PEs send each other: frames in lanes (decision 0077, docs/formats/far-ring.md).
#pragma once

#include <cstdint>

#include "penstock/base.h"

namespace penstock::symm {

// Two for each pair of PEs and direction: an answer never waits behind a request that waits for
// room to be answered.
enum class MailLane : uint32_t { asked = 0, answered = 1 };
inline constexpr uint32_t kMailLanes = 2;

enum class MailKind : uint8_t {
  put = 1,  // asked: as device::Ask has them
  get = 2,
  put_row = 3,
  get_row = 4,
  change = 5,
  flush = 6,
  got = 16,  // answered
  changed = 17,
  flushed = 18,
};

// Foreign input where it arrives.
struct MailFrame {
  MailKind kind{};
  uint8_t width_log2 = 0;
  uint8_t change = 0;
  uint8_t zero = 0;
  uint32_t bytes = 0;     // of the body
  uint64_t offset = 0;    // in the target's heap
  uint64_t value = 0;     // of a change, or what was there before; get: bytes; get_row: elements
  uint64_t expected = 0;  // of a compare_swap; of a row: the stride there, in elements
  uint64_t tag = 0;       // of the asker, which comes back
};
static_assert(sizeof(MailFrame) == 40);

// Bytes that a frame may carry: staging is divided into some of them.
inline constexpr uint32_t kMailBodyMax = 64 * 1024;

// What a frame takes of a lane.
inline constexpr uint64_t mail_bytes(uint64_t body) {
  return align_up(sizeof(MailFrame) + body, uint64_t{64});
}

// Lanes keep the order of frames; between lanes and PEs there is none. One thread.
class DeviceMail {
 public:
  virtual ~DeviceMail() = default;
  // How much of a lane to that PE is free now. It never becomes less but by send().
  virtual uint64_t room(uint32_t pe, MailLane lane) = 0;
  // There is room. peer_gone: the PE is not reached any more.
  virtual Status send(uint32_t pe, MailLane lane, const MailFrame& frame, Bytes body) = 0;
  // The head of the next frame from that PE, whole; false: none has come. bad_message: the PE sends
  // what is none.
  virtual Result<bool> peek(uint32_t pe, MailLane lane, MailFrame* out) = 0;
  // Takes the frame that peek() gave, and its body, of that frame's size.
  virtual void take(uint32_t pe, MailLane lane, MutableBytes body) = 0;
  // Tells other PEs of what was sent and taken.
  virtual Status flush(uint32_t pe) = 0;
  // Lets arrive what is under way.
  virtual void progress() = 0;
};

}  // namespace penstock::symm
