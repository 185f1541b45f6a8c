// The device memory seam: the memory of GPUs, and the lanes that move bytes to and from it.
//
// Bytes in device memory have addresses that no processor may follow; they move by copy operations
// only. What a process can do with its GPUs is in DeviceMemory (one per process, thread safe); what
// a loop has in flight is in its CopyLanes.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "penstock/engine/loop.h"
#include "penstock/engine/memory.h"

namespace penstock::engine {

// The index of a GPU as this process sees it: CUDA's device ordinal.
using DeviceId = Id<struct DeviceIdTag, uint32_t>;

struct DeviceFacts {
  std::string name;
  std::string pci_address;  // "0000:17:00.0"
  uint64_t memory_bytes = 0;
  uint32_t multiprocessors = 0;
  int32_t numa_node = -1;       // -1: not known
  uint64_t peers = 0;           // bit i: can copy to and from the memory of device i directly
  std::array<char, 16> uuid{};  // the same in every process; zeros: not known
  std::string no_dma_buf = {};  // why export_dma_buf() cannot be had of it; empty: it can
};

// Device memory that was found behind an address. It names one allocation: memory that is freed and
// allocated again at the same address is another one.
struct DeviceSpan {
  DeviceId device;
  std::byte* data = nullptr;
  uint64_t length = 0;
  uint64_t allocation = 0;
};

// One side of each piece is host memory that was pinned, or device memory of a peer; the other side
// is memory of the operation's device. Any address, any length.
struct alignas(16) CopyPiece {
  const std::byte* source = nullptr;
  std::byte* destination = nullptr;
  uint64_t length = 0;
  // When 1, the piece, of kCheckBytesMax at most, must have this CRC-32C as the device got it. All
  // pieces of an operation are checked, or none.
  uint32_t crc32c = 0;
  uint32_t checked = 0;
};
static_assert(sizeof(CopyPiece) == 32, "devices read it nearly as it is");

// After the pieces have landed, [data, data + length) of device memory must have this CRC-32C.
struct BlockCheck {
  const std::byte* data = nullptr;
  uint32_t length = 0;  // up to kCheckBytesMax
  uint32_t crc32c = 0;
};

enum class CopyDirection : uint8_t { to_device, from_device, device_to_device };

// What moves the bytes. A copy engine is best from about 64 KiB a piece, and other kernels cannot
// hold it up; a kernel is best for many small pieces, and waits when other kernels fill the GPU.
enum class CopyMeans : uint8_t { copy_engine, kernel };

// Copies all pieces, then makes all checks. Pieces must not overlap; their order is not stated.
// Ends with
//   corrupt           a check failed; first_bad is the index of the first one, or of its piece
//   invalid_argument  the device memory is not (or no longer) allocated, or of another device
//   peer_gone         the device was lost, or its context broken by the fault of a kernel:
//                     nothing will work on it any more in this process
//   anything else     the driver would not take it, for want of memory, say; others go on
// After an error the destination's bytes are undefined, and no engine writes to them any more.
struct CopyOp : Op {
  DeviceId device;
  CopyDirection direction = CopyDirection::to_device;
  CopyMeans means = CopyMeans::copy_engine;
  std::span<const CopyPiece> pieces;  // at most kCopyPiecesMax; stay until completion, as do checks
  std::span<const BlockCheck> checks;  // none when the pieces are checked themselves
  // The allocation that the device's side of every piece lies in; 0: the caller knows that it
  // lives.
  uint64_t allocation = 0;
  uint32_t first_bad = 0;  // out

  // For the implementation, which queues without allocating.
  struct {
    uint64_t ticket = 0;
    Time due{};
  } progress;
};

inline constexpr uint32_t kCopyPiecesMax = 1024;      // of one operation
inline constexpr uint32_t kCopyChecksMax = 16384;     // of one operation: 64 MiB in blocks
inline constexpr uint32_t kCheckBytesMax = 4096;      // of one check
inline constexpr uint32_t kDevicesMax = 64;           // a set of devices is a word
inline constexpr size_t kDeviceHandleBytesMax = 128;  // of an exported allocation, beside its fd

// A loop's copies. Owner thread of the loop; nothing in flight when destroyed. Operations of one
// loop may overtake each other.
class CopyLanes : public Poller {
 public:
  virtual void submit(CopyOp& op) = 0;
  // True while something is in flight. Then poll() must be called to see it complete: nothing wakes
  // a sleeping loop.
  virtual bool busy() const = 0;
  // When poll() will probably find something, if nothing is submitted meanwhile; a time that has
  // passed when it may be any moment. Only while busy.
  virtual Time next_look() const = 0;
  // When one of the engines at work will probably have nothing left to do: a sooner look keeps
  // them busy. Not before next_look().
  virtual Time latest_look() const = 0;
};

// Small copies to a device, one after the other, without a call of its driver: a kernel lingers
// there as long as more of them come. One thread at a time.
class CopyMailbox {
 public:
  virtual ~CopyMailbox() = default;
  // Where the bytes for `destination`, 1 to kMailboxBytesMax, may be put; until send().
  virtual MutableBytes space_for(const DeviceSpan& destination) = 0;
  // Copies bytes from there, or from pinned memory that is_mailable(), and returns when they have
  // landed. Ends as a CopyOp, or with busy when kernels fill the device: then nothing was copied,
  // nor will be.
  virtual Status send(const DeviceSpan& destination, const std::byte* source) = 0;
};
inline constexpr uint32_t kMailboxBytesMax = 64 * 1024;
inline constexpr uint32_t kMailboxUnit = 16;  // what it copies at once, between aligned addresses
inline bool is_mailable(const DeviceSpan& destination, const std::byte* source) {
  return (destination.data - source) % kMailboxUnit == 0;
}

// What copies to a device cost: bytes a second, and seconds for each copy beside its bytes.
struct CopyCosts {
  double engine_bytes_per_second = 55e9;
  double engine_seconds_per_copy = 4.5e-6;
  double gather_bytes_per_second = 48e9;
};

// A stream of work that the program itself gives to a device, as its driver names it (CUstream);
// null: the default one.
using DeviceStream = void*;

// A point in such a stream where it stops until something has happened on the host.
class StreamGate {
 public:
  // Not while the gate stands in a stream.
  virtual ~StreamGate() = default;
  // Puts the gate behind what was given to the stream so far. When the stream comes to it,
  // `reached` is called, and nothing behind it begins before open(). `reached` runs in a thread of
  // the driver's and may neither block nor call anything of devices. Stands in one stream at a
  // time. not_supported for a stream that records its work instead of doing it; after an error
  // `reached` is not called. In a thread that may use the stream.
  virtual Status enqueue(DeviceStream stream, void (*reached)(void* context), void* context) = 0;
  // Once for each time that it was reached. What the calling thread has written to host memory is
  // there for what follows in the stream. Any thread.
  virtual void open() = 0;
};

// An allocation's handle for other processes of this node.
struct DeviceHandle {
  UniqueFd fd;  // travels beside the bytes; none for handles that are bytes alone
  std::vector<std::byte> bytes;
  DeviceSpan span;  // as the exporting process sees it
};

// Device memory as the kernel's dma-buf, which other devices of the machine reach without this
// one's driver: network cards, for one.
struct DmaBuf {
  UniqueFd fd;
  uint64_t offset = 0;  // of the span in it, bytes
};

// All may block for as long as the driver does; none may be called from a loop that others wait
// for, but find(). Thread safe. Failures say which call on what, and what to do.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  virtual const std::vector<DeviceFacts>& devices() const = 0;

  // The device of memory [address, address + length): not_found when it is no device's;
  // invalid_argument when the range is not within one allocation; anything else when it cannot be
  // told, as after a fault on a device.
  virtual Result<DeviceSpan> find(const void* address, uint64_t length) = 0;

  // Memory of this process, page aligned, shareable by handle; no_memory when the GPU is full.
  virtual Outcome<DeviceSpan> allocate(DeviceId device, uint64_t length) = 0;
  virtual Status release(const DeviceSpan& span) = 0;  // nothing may be in flight on it

  // not_supported for memory whose allocator makes no handles (CUDA's stream-ordered pools).
  virtual Outcome<DeviceHandle> export_handle(const DeviceSpan& span) = 0;
  // Maps another process's memory; release() unmaps it.
  virtual Outcome<DeviceSpan> import_handle(const DeviceHandle& handle) = 0;

  // The pages behind it stay as long as the descriptor, or what another driver has made of it, also
  // when the memory is released meanwhile. not_supported, with what to do: driver, kernel or device
  // cannot.
  virtual Outcome<DmaBuf> export_dma_buf(const DeviceSpan& span) = 0;
  // What network cards have written by a dma-buf of the device's memory, and said so before this
  // call, is there for its copies and kernels when it returns. Takes microseconds, and mostly
  // nothing.
  virtual Status settle_writes(DeviceId device) = 0;

  // Makes host memory reachable for all devices: page aligned and mapped until unpin(). The pages
  // stay where they are until then. Uses a device that is in use, and only where there is none the
  // first one: callers have memory on theirs before.
  virtual Outcome<void> pin(MutableBytes memory, bool read_only) = 0;
  virtual void unpin(MutableBytes memory) = 0;  // no copy may be in flight on it

  virtual Outcome<std::unique_ptr<StreamGate>> make_gate() = 0;
  // Returns when the device's default streams have done what they were given: a program's plain
  // copy from memory that is not pinned, for one, may return before its bytes have arrived.
  virtual Status settle(DeviceId device) = 0;

  // As measured on this machine at the first call, which takes some milliseconds; what could not be
  // measured is as on a machine that its makers have seen.
  virtual CopyCosts costs(DeviceId device) = 0;

  // `loop` outlives the lanes; the caller adds them to it.
  virtual std::unique_ptr<CopyLanes> make_lanes(Loop& loop) = 0;
  // For one thread at a time, and not for memory of peers.
  virtual Outcome<std::unique_ptr<CopyMailbox>> make_mailbox(DeviceId device) = 0;
};

}  // namespace penstock::engine
