// What this library's kernels are told (kernels.cu), as the host and the device see it alike.
#pragma once

#include <cstdint>

namespace penstock::device {

// The type of a word that is compared.
enum class WordType : int32_t { i16, u16, i32, u32, i64, u64 };

// Words of this PE's own memory, which all have to compare.
struct WaitForWords {
  const void* at;
  uint64_t count;
  const int* status;   // not 0: left out; null: none is
  const void* values;  // one for each word; null: `value` for all
  uint64_t value;      // its bits, from the lowest on
  int32_t comparison;  // device::Comparison
  WordType type;
};
static_assert(sizeof(WaitForWords) == 48);

// Elements with a distance on either side, counted in elements.
struct StridedElements {
  void* to;
  const void* from;
  int64_t to_stride;
  int64_t from_stride;
  uint64_t count;
  uint32_t element_bytes;  // 1, 2, 4, 8 or 16
  uint32_t for_each_block;
};
static_assert(sizeof(StridedElements) == 48);

// Elements between this PE's memory and a symmetric place of one that is not near. Strides as
// above.
struct RowFar {
  const void* there;
  const void* here;
  uint64_t count;
  uint64_t stride_there;
  uint64_t stride_here;
  uint32_t element_bytes;
  int32_t is_get;
};
static_assert(sizeof(RowFar) == 48);

// Bytes and a word that tells of them, at addresses of the PE that they are for.
struct PutWithSignal {
  void* to;
  const void* from;
  uint64_t bytes;
  uint64_t* signal;
  uint64_t value;
  int32_t op;  // device::SignalOp
  int32_t reserved;
};
static_assert(sizeof(PutWithSignal) == 48);

enum class ChangeBy : int32_t { swap, compare_swap, add, bit_and, bit_or, bit_xor };

// One word of 4 or 8 bytes, which changes at once.
struct ChangeWord {
  void* at;
  uint64_t value;
  uint64_t expected;
  ChangeBy by;
  int32_t bytes;
  uint64_t* seen;  // of the host: what was there before; null: nobody asks
  uint64_t* done;  // of the host: is given `number` when `seen` is there
  uint64_t number;
};
static_assert(sizeof(ChangeWord) == 56);

}  // namespace penstock::device
