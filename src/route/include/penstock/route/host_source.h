// Where a mover gets file bytes from and brings them to: host memory, on behalf of device memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "penstock/engine.h"

namespace penstock::route {

// One read or write between a file and host memory that devices reach, or what reach() has named.
struct HostIo : engine::Op {
  bool write = false;
  bool durable = false;  // writes
  uint32_t file = 0;     // a handle of the source
  uint64_t offset = 0;   // in the file, bytes
  engine::MemoryRef memory;
  std::shared_ptr<void> keeper;  // as reach() gave it; else null
  // Reads of whole blocks, whose bytes will be verified where they are going: the source need not
  // verify them, if it tells their checksums instead. Behind the memory is room for those, or in
  // host memory at `checksum_place`, at a page, where the memory is a GPU's.
  bool wants_checksums = false;
  std::byte* checksum_place = nullptr;
  engine::Time deadline = engine::kNever;     // the source ends it then, or soon after
  uint64_t transferred = 0;                   // out; less than asked only at the end of the file
  engine::Route route = engine::Route::none;  // out
  // Out, if they were wanted: the CRC-32C of each block that was read in full; null: not known, and
  // verified.
  const uint32_t* checksums = nullptr;
};

// GPU memory that the source reaches, and what it keeps of it for as long as an operation names it.
struct Reached {
  engine::MemoryRef memory;
  std::shared_ptr<void> keeper;
};

// Bytes of a file that lie in memory already. They may be replaced at any time: after a copy the
// mover asks still_there(), and throws the copy away if they were.
struct Resident {
  const std::byte* data = nullptr;
  uint64_t length = 0;     // until what follows lies elsewhere, or is not there
  bool ends_file = false;  // the file ends behind these bytes
  // The CRC-32C of the file's blocks of kBlockBytes from the one that `data` lies in; null: not
  // known.
  const uint32_t* checksums = nullptr;
  // False: only devices may touch these bytes, and they cannot be verified, as their checksums are
  // not known.
  bool host_may_read = true;
  engine::Route route = engine::Route::device_cache;  // what a copy from here is called
  uint64_t ticket[4] = {0, 0, 0, 0};                  // the source's
};

inline constexpr uint64_t kBlockBytes = 4096;

// For the thread that drives its loop, but for sleep() and rouse().
class HostSource : public engine::Poller {
 public:
  // The operation completes in a later turn of the loop. Any number may be submitted; the source
  // keeps what it cannot start yet.
  virtual void submit(HostIo& io) = 0;
  // Asks for an early end. A source whose operations end soon by themselves need not hear it.
  virtual void cancel(HostIo& io) { (void)io; }
  // What a submitted operation may name in place of host memory, so that the bytes go between the
  // file and this GPU memory with nothing in between; none: it has no way there. Such an operation
  // may fail for that reason alone, and is made again by way of host memory then; so may a write of
  // which nobody knows what became: it brings the same bytes to the same place.
  virtual std::optional<Reached> reach(uint32_t file, const engine::DeviceSpan& memory) {
    (void)file;
    (void)memory;
    return std::nullopt;
  }
  // What lies in memory from `offset` on, in pinned memory only, and how far, up to `length` bytes
  // or a little more; false when nothing does. What was found stays mapped and pinned, whatever
  // bytes come to lie there, until release().
  virtual bool find(uint32_t file, uint64_t offset, uint64_t length, Resident* resident) = 0;
  // Starts to bring into the processor's cache what find() will look at.
  virtual void prefetch(uint32_t file, uint64_t offset) {
    (void)file;
    (void)offset;
  }
  virtual bool still_there(const Resident& resident) = 0;
  virtual void release(const Resident& resident) = 0;

  // Sleeps until poll() has something to do, rouse() or the deadline. One thread at a time, while
  // others may drive the loop.
  virtual void sleep(engine::Time deadline) = 0;
  // Ends a sleep, or the next one. Any thread.
  virtual void rouse() = 0;
  // The last call but for the destructor, with nothing in progress: when it returns, no thread of
  // the source's touches the loop any more, which may call rouse() for it until then.
  virtual void close() {}
};

}  // namespace penstock::route
