// Memory of PEs on other nodes, as a group asks its transport for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "penstock/base.h"

namespace penstock::symm {

// A symmetric address between processes: which stretch of memory, and where in it.
enum class Segment : uint8_t { memory = 0, data = 1 };  // control words and heap; the program's own
inline constexpr uint32_t kSegments = 2;

struct FarPlace {
  Segment segment = Segment::memory;
  uint64_t offset = 0;
};

// A change of a word of 4 or 8 bytes that happens at once. Numbers go over the wire.
enum class AtomicOp : uint8_t {
  fetch = 0,
  set = 1,
  swap = 2,
  compare_swap = 3,
  add = 4,
  bit_and = 5,
  bit_or = 6,
  bit_xor = 7,
};

struct Change {
  AtomicOp op = AtomicOp::fetch;
  uint8_t width = 8;
  uint64_t operand = 0;
  uint64_t expected = 0;  // of compare_swap
};

// Elements with equal steps between them, in bytes.
struct FarRow {
  uint64_t count = 0;
  uint32_t element_bytes = 0;
  uint64_t stride = 0;  // at the PE's
};

// What was asked for and has not come. Its owner waits for all before it goes away.
struct FarAnswer {
  uint32_t awaited = 0;
  Status status;  // the first that failed
  uint64_t value = 0;
};

// How a PE is reached.
struct FarWay {
  bool is_decided = true;  // it may be a better one soon
  bool is_rdma = false;
  std::string device;  // of this side
  std::string why;     // not by RDMA
};

// Thread safe. PEs are numbers of the group and on other nodes; places were checked against the
// segments' sizes. Calls end with peer_gone when the PE is not reached any more. To each PE
// requests take effect in the order in which they were made.
class FarMemory {
 public:
  virtual ~FarMemory() = default;

  // `source` may change when they return.
  virtual Status put(uint32_t pe, FarPlace dest, Bytes source) = 0;
  virtual Status put_row(uint32_t pe, FarPlace dest, const FarRow& row, const void* source,
                         uint64_t source_stride) = 0;
  virtual Status put_signal(uint32_t pe, FarPlace dest, Bytes source, FarPlace signal,
                            const Change& change) = 0;
  // Nothing comes back.
  virtual Status change(uint32_t pe, FarPlace word, const Change& change) = 0;

  virtual Status get_row(uint32_t pe, void* dest, uint64_t dest_stride, FarPlace source,
                         const FarRow& row) = 0;
  // Asks, and returns: `dest` has the bytes when nothing is awaited any more.
  virtual Status start_get(uint32_t pe, MutableBytes dest, FarPlace source, FarAnswer* answer) = 0;
  virtual Status start_change(uint32_t pe, FarPlace word, const Change& change,
                              FarAnswer* answer) = 0;
  virtual Status finish(FarAnswer* answer) = 0;
  // The same, where quiet() is what waits for it.
  virtual Status get_later(uint32_t pe, MutableBytes dest, FarPlace source) = 0;
  virtual Status change_later(uint32_t pe, FarPlace word, const Change& change, void* dest) = 0;

  // What was put before is there, and what is to come later has come, at all PEs or at one.
  virtual Status quiet() = 0;
  virtual Status quiet(uint32_t pe) = 0;
  // As change(), but it goes out at once with all before it, and no quiet waits for it.
  virtual Status tell(uint32_t pe, FarPlace word, const Change& change) = 0;

  // One turn of whatever is to be done: sends, receives, serves. Does not wait. Whether something
  // came.
  virtual bool progress() = 0;
  // The same when nothing happens: may sleep for as long, and wakes when something comes.
  virtual void doze(uint32_t microseconds) = 0;

  // For people; makes no connection.
  virtual FarWay way(uint32_t pe) = 0;
  // A PE whose connection ended without a good bye.
  virtual std::optional<uint32_t> broken() const = 0;
  // Says good bye to all. No other call follows, and none is under way.
  virtual void close() = 0;
};

}  // namespace penstock::symm
