// The kernels: gathering pieces, checking what has landed, and, in a build with mailboxes, serving
// one.
//
// A warp takes a piece, or a block to check, at a time. Whole words of 16 or 4 bytes go at once,
// several in flight for each thread, since a read over PCIe takes more than a microsecond; for the
// same reason a warp reads its next entry of the list before it works on this one.
#include "kernels.h"
#include "penstock_device/copy.h"

namespace penstock::gpu {
namespace {

constexpr int kWarp = 32;
constexpr int kInFlight = 8;

__device__ unsigned warp_lane() {
  return threadIdx.x % kWarp;
}
__device__ uint32_t warp() {
  return (blockIdx.x * blockDim.x + threadIdx.x) / kWarp;
}
__device__ uint32_t warps() {
  return gridDim.x * blockDim.x / kWarp;
}

// Words of T at aligned addresses.
template <class T>
__device__ void copy_words(const T* source, T* destination, uint64_t count) {
  uint64_t i = warp_lane();
  for (; i + (kInFlight - 1) * kWarp < count; i += kInFlight * kWarp) {
    T words[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) words[k] = __ldcs(source + i + k * kWarp);
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) __stcs(destination + i + k * kWarp, words[k]);
  }
  for (; i < count; i += kWarp) __stcs(destination + i, __ldcs(source + i));
}

// The 4 bytes at `shift` / 8 bytes behind the aligned word `source`.
__device__ uint32_t word_at(const uint32_t* source, unsigned shift) {
  // The second word is not read when none of its bytes are needed: it may be on the next page.
  return shift == 0 ? __ldcs(source) : __funnelshift_r(__ldcs(source), __ldcs(source + 1), shift);
}

// Words to an aligned destination from a source that is not aligned with it.
__device__ void copy_shifted(const char* source, uint32_t* destination, uint64_t count) {
  const auto misaligned = reinterpret_cast<uintptr_t>(source) % 4;
  const auto* const words = reinterpret_cast<const uint32_t*>(source - misaligned);
  const unsigned shift = static_cast<unsigned>(misaligned) * 8;
  for (uint64_t i = warp_lane(); i < count; i += kWarp) destination[i] = word_at(words + i, shift);
}

__device__ void copy_bytes(const char* source, char* destination, uint64_t count) {
  for (uint64_t i = warp_lane(); i < count; i += kWarp) destination[i] = source[i];
}

__device__ void copy_piece(const GatherPiece& piece) {
  const char* source = static_cast<const char*>(piece.source);
  char* destination = static_cast<char*>(piece.destination);
  uint64_t left = piece.length;
  const uint64_t word = sizeof(uint4);
  const uint64_t past = reinterpret_cast<uintptr_t>(destination) % word;
  uint64_t head = past == 0 ? 0 : word - past;
  if (head > left) head = left;
  copy_bytes(source, destination, head);
  source += head;
  destination += head;
  left -= head;
  const uint64_t body = left / word * word;
  if (reinterpret_cast<uintptr_t>(source) % word == 0) {
    copy_words(reinterpret_cast<const uint4*>(source), reinterpret_cast<uint4*>(destination),
               body / word);
  } else if (reinterpret_cast<uintptr_t>(source) % 4 == 0) {
    copy_words(reinterpret_cast<const uint32_t*>(source), reinterpret_cast<uint32_t*>(destination),
               body / 4);
  } else {
    copy_shifted(source, reinterpret_cast<uint32_t*>(destination), body / 4);
  }
  copy_bytes(source + body, destination + body, left - body);
}

// Copies a piece and says whether it is what it should be. Where source and destination are equal
// modulo 16, as those of whole blocks are, the bytes are looked at on their way.
__device__ bool copy_checked(const GatherPiece& piece, const device::Constants& constants) {
  const char* const source = static_cast<const char*>(piece.source);
  char* const destination = static_cast<char*>(piece.destination);
  const auto length = static_cast<uint32_t>(piece.length);
  if ((source - destination) % sizeof(device::Unit) == 0) {
    return device::copy_by_warp(constants, source, destination, length, piece.remainder);
  }
  copy_piece(piece);
  // What the other threads of the warp wrote is seen after this.
  __syncwarp();
  return device::copy_by_warp(constants, destination, nullptr, length, piece.remainder);
}

// One entry of a list in host memory, as four words.
template <class T>
__device__ T read_entry(const T* list, uint32_t index, uint32_t count) {
  static_assert(sizeof(T) % sizeof(uint4) == 0);
  union Entry {
    uint4 words[sizeof(T) / sizeof(uint4)];
    T value;
    __device__ Entry() {}
  } entry;
  if (index < count) {
    const auto* const words = reinterpret_cast<const uint4*>(list + index);
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T) / sizeof(uint4)); ++i) {
      entry.words[i] = __ldcs(words + i);
    }
  }
  return entry.value;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256)
    penstock_gather(const GatherPiece* pieces, uint32_t count) {
  GatherPiece next = read_entry(pieces, warp(), count);
  for (uint32_t i = warp(); i < count; i += warps()) {
    const GatherPiece piece = next;
    next = read_entry(pieces, i + warps(), count);
    copy_piece(piece);
  }
}

// The same with checks of pieces. bad[i] becomes 1 when piece i fails its own, and *any_bad with
// it.
extern "C" __global__ void __launch_bounds__(256)
    penstock_gather_checked(const GatherPiece* pieces, uint32_t count,
                            const device::Constants* constants, uint8_t* bad, uint32_t* any_bad) {
  GatherPiece next = read_entry(pieces, warp(), count);
  for (uint32_t i = warp(); i < count; i += warps()) {
    const GatherPiece piece = next;
    next = read_entry(pieces, i + warps(), count);
    if (piece.checked == 0) {
      copy_piece(piece);
    } else if (!copy_checked(piece, *constants) && warp_lane() == 0) {
      bad[i] = 1;
      *any_bad = 1;
    }
  }
}

// Checks of what landed before, as above.
extern "C" __global__ void __launch_bounds__(256)
    penstock_check(const CheckBlock* blocks, uint32_t count, const device::Constants* constants,
                   uint8_t* bad, uint32_t* any_bad) {
  CheckBlock next = read_entry(blocks, warp(), count);
  for (uint32_t i = warp(); i < count; i += warps()) {
    const CheckBlock block = next;
    next = read_entry(blocks, i + warps(), count);
    const auto* const data = static_cast<const char*>(block.data);
    if (!device::copy_by_warp(*constants, data, nullptr, block.length, block.remainder) &&
        warp_lane() == 0) {
      bad[block.check] = 1;
      *any_bad = 1;
    }
  }
}

}  // namespace penstock::gpu

#if PENSTOCK_MAILBOX
#include "mailbox/serve.cuh"
#endif
