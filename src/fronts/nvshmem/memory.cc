// The symmetric heap in the GPUs. Every call that takes or gives memory is made by all PEs, and
// returns when all have come.
#include "calls.h"
#include "limits.h"
#include "units.h"

namespace front = penstock::nvshmem;
using penstock::Status;

namespace {

// What this PE has put is there, too: memory may be given to somebody else next.
void meet(const char* call) {
  penstock::symm::Group& all = front::group(call);
  front::quiet(call);
  if (const Status met = all.barrier(all.world()); !met.ok()) front::fault_status(call, met);
}

void tell_exhausted(const char* call, uint64_t bytes, const std::string& why) {
  penstock::log::warning(
      "{}: PE {}: no room for {} bytes on the symmetric heap: {} are free in one piece, and {} "
      "(NVSHMEM_SYMMETRIC_SIZE, NVSHMEM_MAX_MEMORY_PER_GPU)",
      call, front::group(call).me(), bytes, front::on_device(call).heap->largest_free(), why);
}

// Whether it has room for it now, on all PEs. They come together in it.
bool grow(const char* call, const front::OnDevice& there, size_t bytes) {
  meet(call);  // for as long as it takes, which growing does not wait
  const auto grown = there.heap->grow(bytes);
  if (grown) {
    front::tell_reach(call, there);
    return true;
  }
  if (grown.error().status.code() == penstock::Code::peer_gone)
    front::fault_status(call, grown.error().status);
  tell_exhausted(call, bytes, grown.error().message);
  return false;
}

// All PEs get the same place, or none: what is free depends on the calls alone.
void* allocate(const char* call, size_t bytes, size_t alignment) {
  front::OnDevice& there = front::on_device(call);
  if (bytes == 0) return nullptr;
  auto place = there.heap->allocate(bytes, alignment);
  if (!place && grow(call, there, bytes)) place = there.heap->allocate(bytes, alignment);
  meet(call);
  return place ? there.heap->address(*place) : nullptr;
}

// What CUDA's own allocations are aligned to.
constexpr size_t kAlignment = 512;

}  // namespace

NVSHMEM_DEFINE void* nvshmem_malloc(size_t size) {
  return allocate("nvshmem_malloc", size, kAlignment);
}

NVSHMEM_DEFINE void* nvshmem_calloc(size_t count, size_t size) {
  const char* const call = "nvshmem_calloc";
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return nullptr;
  void* const memory = allocate(call, bytes, kAlignment);
  if (memory == nullptr) return nullptr;
  penstock::gpu::SymmetricDevice& device = *front::on_device(call).device;
  Status done = device.fill_zeros(memory, bytes, nullptr);
  if (done.ok()) done = device.synchronize(nullptr);
  if (!done.ok()) front::fault_status(call, done);
  meet(call);
  return memory;
}

// Heaps stand at multiples of what the driver maps at once, wherever it finds room for them.
NVSHMEM_DEFINE void* nvshmem_align(size_t alignment, size_t size) {
  const char* const call = "nvshmem_align";
  const bool is_power = alignment != 0 && (alignment & (alignment - 1)) == 0;
  if (!is_power || alignment > front::limits::kAlignmentMax) {
    penstock::log::warning("{}: alignment {}: not a power of two of at most {}", call, alignment,
                           front::limits::kAlignmentMax);
    return nullptr;
  }
  return allocate(call, size, alignment);
}

NVSHMEM_DEFINE void nvshmem_free(void* pointer) {
  const char* const call = "nvshmem_free";
  front::OnDevice& there = front::on_device(call);
  // Others may still be putting into it.
  meet(call);
  if (pointer == nullptr) return;
  if (!there.heap->release(there.heap->offset(pointer))) {
    front::fault(call,
                 fmt::format("address {}: nothing of nvshmem_malloc() begins there", pointer));
  }
}

NVSHMEM_DEFINE void* nvshmem_ptr(const void* dest, int pe) {
  const char* const call = "nvshmem_ptr";
  front::group(call);
  return front::on_device(call).heap->at(dest, 1, static_cast<uint32_t>(pe));
}

// As NVSHMEM where there is no multicast memory.
NVSHMEM_DEFINE void* nvshmemx_mc_ptr(nvshmem_team_t /*team*/, const void* /*pointer*/) {
  front::group("nvshmemx_mc_ptr");
  return nullptr;
}
