// What symmetric memory needs of a GPU beside engine::DeviceMemory: addresses in which the memory
// of several processes stands in order, and kernels of a library of ours on the program's own
// streams.
#pragma once

#include <memory>
#include <span>

#include "penstock/engine.h"

namespace penstock::gpu {

// Addresses that the device, and its process, keep for memory of this and of other processes. Given
// back with it: then nothing may use them any more. One thread at a time.
class Window {
 public:
  virtual ~Window() = default;
  virtual std::byte* begin() const = 0;
  // Offsets and lengths are multiples of it: how much is mapped at once.
  virtual uint64_t granule() const = 0;
  // Makes memory of the device at an offset, with zeros in it. The descriptor is for map() in other
  // processes.
  virtual Outcome<UniqueFd> allocate(uint64_t offset, uint64_t length) = 0;
  // Memory that another process, of this or of another device, has allocated. not_supported: this
  // device does not reach that one's memory.
  virtual Outcome<void> map(uint64_t offset, uint64_t length, int descriptor) = 0;
  // Maps the program's own memory, which begins at `memory` and was made of one piece that may be
  // exported (cuMemCreate, with descriptors), at an offset, too. As allocate() otherwise.
  virtual Outcome<UniqueFd> adopt(uint64_t offset, uint64_t length, const void* memory) = 0;
  // Takes away what begins at this offset. Nothing may use it any more.
  virtual void unmap(uint64_t offset) = 0;
};

struct Launch {
  uint32_t kernel;  // its place among the names that load_kernels() was given
  uint32_t blocks = 1;
  uint32_t threads = 1;
  std::span<void*> arguments;  // addresses of each, as the kernel declares them
  engine::DeviceStream stream = nullptr;
};

// A launch that is made again and again, with the same arguments: what the driver can do before is
// done. Thread safe. Launches of the same one run one after the other, whatever their streams.
class PreparedLaunch {
 public:
  virtual ~PreparedLaunch() = default;
  // As SymmetricDevice::launch(), for less than half of its cost to the host. not_supported: the
  // stream is being captured.
  virtual Status launch(engine::DeviceStream stream) = 0;
};

// Elements with a distance on either side, in bytes from the begin of one to that of the next: no
// less than an element has.
struct StridedCopy {
  void* to;
  const void* from;
  uint64_t to_step;
  uint64_t from_step;
  uint64_t element_bytes;
  uint64_t count;
};

// One device. Thread safe.
class SymmetricDevice {
 public:
  virtual ~SymmetricDevice() = default;
  virtual engine::DeviceId id() const = 0;
  virtual uint64_t memory_bytes() const = 0;  // all that it has
  virtual Outcome<std::unique_ptr<Window>> reserve(uint64_t bytes) = 0;
  // Kernels, as nvcc made them (a fat binary that lives as long as the process): launch() finds
  // them by name. Several times, if there are several binaries: their places go on. Simulated
  // devices look at the names alone.
  virtual Outcome<void> load_kernels(const void* image, std::span<const char* const> names) = 0;
  // A stream of this library, which waits for none of the program's own: kernels of the program may
  // be waiting for what it does. Its kernels go before the program's that have not begun.
  virtual engine::DeviceStream own_stream() const = 0;
  // Behind what the stream has to do already; may be captured.
  virtual Status launch(const Launch& launch) = 0;
  // Its stream is the one that is synchronized for it. Lives no longer than the device.
  virtual Outcome<std::unique_ptr<PreparedLaunch>> prepare(const Launch& launch) = 0;
  // Copies between the host's and the device's memory, or between devices, behind what the stream
  // has to do already.
  virtual Status copy(void* to, const void* from, uint64_t bytes, engine::DeviceStream stream) = 0;
  virtual Status copy_strided(const StridedCopy& copy, engine::DeviceStream stream) = 0;
  virtual Status fill_zeros(void* to, uint64_t bytes, engine::DeviceStream stream) = 0;
  // An aligned word of the device or of host_words() is given the value, at once, when the stream
  // has done what it was given before: who looks at it learns of that sooner than synchronize()
  // does. not_supported: this device cannot.
  virtual Status store(uint32_t* word, uint32_t value, engine::DeviceStream stream) = 0;
  virtual Status store(uint64_t* word, uint64_t value, engine::DeviceStream stream) = 0;
  // Returns when the stream has done what it was given.
  virtual Status synchronize(engine::DeviceStream stream) = 0;
  // The same for all streams of this process on the device, the program's own among them.
  virtual Status synchronize_all() = 0;
  // Whether what the stream is given now becomes a graph, which is done later.
  virtual bool is_capturing(engine::DeviceStream stream) const = 0;
  // Whether kernels reach this process's memory at this address: copies reach it all.
  virtual bool reaches(const void* address) const = 0;
  // Whether the driver has made it or was told of it. All other memory is pageable: what a copy is
  // to read there is taken when the call returns, and what it writes is there then.
  virtual bool knows(const void* address) const = 0;
  // Whether the driver knows it until the host gives it back. Memory of a pool it forgets when the
  // host tells a stream to give it back, which may come to that much later.
  virtual bool stays(const void* address) const = 0;
  // Whether it is memory of the program's context (cudaMalloc, managed memory), so that copies wait
  // as long as a call of the program shuts others out of that, whatever context they are made in.
  virtual bool is_programs(const void* address) const = 0;
  // That no other stream of this process has, ever. Asking for that of a stream that is being
  // captured fails, and ends the capture; 0 then.
  virtual uint64_t number_of(engine::DeviceStream stream) const = 0;
  // Memory of the device, and of no context. no_memory.
  virtual Result<void*> allocate(uint64_t bytes) = 0;
  // Nothing uses it any more.
  virtual void release(void* memory) = 0;
  // Host memory with zeros that the device reaches at the same address; stays as long as the
  // process.
  virtual Outcome<MutableBytes> host_words(uint64_t bytes) = 0;
};

// The device that is current in the calling thread, as the program's own runtime has chosen it; the
// first one where none is.
Outcome<engine::DeviceId> current_device();
// Whether the program, or a library of it, has chosen one for the calling thread.
bool has_current_device();
// As cudaSetDevice(): from here on it is current in the calling thread, for the program, too.
// invalid_argument: this process sees no such device.
Result<void, Failure> make_current(engine::DeviceId device);
Outcome<std::unique_ptr<SymmetricDevice>> open_symmetric_device(engine::DeviceId device);
// The same in a context apart: no call that the program makes holds up calls here, however long it
// waits for its kernels (docs/decisions/0081). Memory of the device and pinned memory is the same,
// streams are not. Copies go beside the program's kernels, but an odd last byte below 64 KiB, and
// one or two alone; kernels take turns with the program's, of 2 ms. The first one of a process
// takes some 150 ms, and some 500 MiB of the device's memory for as long as there is one.
Outcome<std::unique_ptr<SymmetricDevice>> open_device_apart(engine::DeviceId device);

// What stands behind these in a test. Thread safe.
class SymmetricDevices {
 public:
  virtual ~SymmetricDevices() = default;
  virtual Outcome<engine::DeviceId> current() = 0;
  virtual bool has_current() = 0;
  virtual Result<void, Failure> make_current(engine::DeviceId device) = 0;
  virtual Outcome<std::unique_ptr<SymmetricDevice>> open(engine::DeviceId device) = 0;
  virtual Outcome<std::unique_ptr<SymmetricDevice>> open_apart(engine::DeviceId device) = 0;
};
// For tests, as replace_devices(): it outlives what was opened of it; null: the real ones again.
void replace_symmetric_devices(SymmetricDevices* devices);

// Code that the program has loaded by the driver itself: a CUmodule or a CUlibrary.
struct LoadedCode {
  enum class Kind { module, library };
  Kind kind;
  void* handle;
};
// Where a variable of it is, in device memory, on this device. not_found: it has none of that name.
Outcome<MutableBytes> variable_of(const LoadedCode& code, const char* name,
                                  engine::DeviceId device);

}  // namespace penstock::gpu
