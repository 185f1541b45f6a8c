// penstock.h: GPU memory.
#include "devices.h"
#include "handles.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>

using namespace penstock;       // NOLINT: this file is the C border
using namespace penstock::api;  // NOLINT

namespace penstock::api {
namespace {

static_assert(sizeof(penstock_device_handle::bytes) == engine::kDeviceHandleBytesMax);
static_assert(PENSTOCK_ROUTE_DEVICE_PEER == static_cast<int>(engine::Route::device_peer));
static_assert(PENSTOCK_ROUTE_DEVICE_CACHE == static_cast<int>(engine::Route::device_cache));
static_assert(PENSTOCK_ROUTE_DEVICE_GATHER == static_cast<int>(engine::Route::device_gather));
static_assert(PENSTOCK_ROUTE_DEVICE_SLOTS == static_cast<int>(engine::Route::device_slots));
static_assert(PENSTOCK_ROUTE_DEVICE_NETWORK == static_cast<int>(engine::Route::device_network));

// Adds a region for memory that was found, allocated or imported. Memory that is `owned` goes back
// when that fails.
int add_region(penstock_session* session, engine::DeviceMemory& devices,
               const engine::DeviceSpan& span, bool owned, penstock_region** region) {
  Outcome<Region*> made =
      session_of(session).transfers().add_region(devices, span, owned ? &devices : nullptr);
  if (made) {
    *region = to_handle(*made);
    return 0;
  }
  if (owned) {
    const Status released = devices.release(span);
    if (!released.ok()) log::error("release GPU memory: {}", released.name());
  }
  return fail(made.error());
}

wire::DeviceMemoryId memory_id(const unsigned char id[16]) {
  wire::DeviceMemoryId out;
  std::copy(id, id + out.size(), out.begin());
  return out;
}

std::array<uint8_t, 16> uuid_of(const engine::DeviceFacts& facts) {
  std::array<uint8_t, 16> out{};
  std::copy(facts.uuid.begin(), facts.uuid.end(), out.begin());
  return out;
}

bool sees_gpu(const engine::DeviceMemory& devices, const std::array<uint8_t, 16>& uuid) {
  const auto& all = devices.devices();
  return uuid == std::array<uint8_t, 16>{} ||
         std::any_of(all.begin(), all.end(),
                     [&](const engine::DeviceFacts& facts) { return uuid_of(facts) == uuid; });
}

// 0, or the error of a call about a region without GPU memory, or of the process that was forked.
int check_device_region(const penstock_region* region, const char* what) {
  if (region == nullptr) return fail(EINVAL, fmt::format("{}: no region", what));
  if (!from_handle(region)->device) {
    return fail(EINVAL, fmt::format("{}: host memory is shared by its own descriptor", what));
  }
  return check_forked(from_handle(region)->table->connection(), what);
}

}  // namespace

int export_span(const engine::DeviceSpan& span, penstock_device_handle* handle) {
  const Outcome<engine::DeviceMemory*> gpus = devices();
  if (!gpus) return fail(gpus.error());
  Outcome<engine::DeviceHandle> made = (*gpus)->export_handle(span);
  if (!made) return fail(made.error());
  *handle = {};
  handle->fd = made->fd.release();
  handle->length = static_cast<uint32_t>(made->bytes.size());
  std::memcpy(handle->bytes, made->bytes.data(), made->bytes.size());
  return 0;
}

}  // namespace penstock::api

int penstock_region_register_device(penstock_session* session, void* address, size_t size,
                                    penstock_region** region) {
  const int error = check_session(session, "region register");
  if (error != 0) return error;
  if (region == nullptr || address == nullptr || size == 0) {
    return fail_with(EINVAL, "region register: size 0 or a null pointer");
  }
  const Outcome<engine::DeviceMemory*> gpus = devices();
  if (!gpus) return fail(gpus.error());
  const Result<engine::DeviceSpan> span = (*gpus)->find(address, size);
  if (!span) return fail(find_failure("region register", span.error()));
  return add_region(session, **gpus, *span, false, region);
}

int penstock_region_create_device(penstock_session* session, int gpu, size_t size,
                                  penstock_region** region) {
  const int error = check_session(session, "region create");
  if (error != 0) return error;
  if (region == nullptr || size == 0 || gpu < 0) {
    return fail_with(EINVAL, "region create: size 0, no such GPU, or no place for the result");
  }
  const Outcome<engine::DeviceMemory*> gpus = devices();
  if (!gpus) return fail(gpus.error());
  const Outcome<engine::DeviceSpan> span =
      (*gpus)->allocate(engine::DeviceId(static_cast<uint32_t>(gpu)), size);
  if (!span) return fail(span.error());
  return add_region(session, **gpus, *span, true, region);
}

int penstock_region_gpu(const penstock_region* region) {
  if (region == nullptr || !from_handle(region)->device) return -1;
  return static_cast<int>(from_handle(region)->device->device.value);
}

int penstock_gpu_count(void) {
  const Outcome<engine::DeviceMemory*> gpus = devices();
  return gpus ? static_cast<int>((*gpus)->devices().size()) : fail(gpus.error());
}

int penstock_region_settle(const penstock_region* region) {
  if (region == nullptr) return fail_with(EINVAL, "settle: no region");
  if (!from_handle(region)->device) return 0;
  const Outcome<engine::DeviceMemory*> gpus = devices();
  if (!gpus) return fail(gpus.error());
  const engine::DeviceId gpu = from_handle(region)->device->device;
  const Status settled = (*gpus)->settle(gpu);
  if (settled.ok()) return 0;
  return fail({settled,
               fmt::format("GPU {}: wait for its default streams: {}", gpu.value, settled.name())});
}

int penstock_region_export(const penstock_region* region, penstock_device_handle* handle) {
  const int error = check_device_region(region, "export");
  if (error != 0) return error;
  if (handle == nullptr) return fail_with(EINVAL, "export: no place for the handle");
  return export_span(*from_handle(region)->device, handle);
}

int penstock_region_import(penstock_session* session, const penstock_device_handle* handle,
                           penstock_region** region) {
  const int error = check_session(session, "import");
  if (error != 0) return error;
  if (region == nullptr || handle == nullptr || handle->length > sizeof handle->bytes) {
    return fail_with(EINVAL, "import: a null pointer, or not a handle");
  }
  const Outcome<engine::DeviceMemory*> gpus = devices();
  if (!gpus) return fail(gpus.error());
  engine::DeviceHandle imported;
  if (handle->fd >= 0) imported.fd.reset(::fcntl(handle->fd, F_DUPFD_CLOEXEC, 0));
  imported.bytes.resize(handle->length);
  std::memcpy(imported.bytes.data(), handle->bytes, handle->length);
  const Outcome<engine::DeviceSpan> span = (*gpus)->import_handle(imported);
  if (!span) return fail(span.error());
  return add_region(session, **gpus, *span, true, region);
}

int penstock_region_publish(penstock_region* region, const unsigned char id[16]) {
  const int error = check_device_region(region, "publish");
  if (error != 0) return error;
  if (id == nullptr) return fail_with(EINVAL, "publish: no id");
  const Outcome<engine::DeviceMemory*> gpus = devices();
  if (!gpus) return fail(gpus.error());
  Region& memory = *from_handle(region);
  Outcome<engine::DeviceHandle> handle = (*gpus)->export_handle(*memory.device);
  if (!handle) return fail(handle.error());
  const Outcome<void> published = memory.table->publish(
      memory, memory_id(id), uuid_of((*gpus)->devices()[memory.device->device.value]),
      std::move(*handle));
  return published ? 0 : fail(published.error());
}

int penstock_region_unpublish(penstock_region* region) {
  const int error = check_device_region(region, "unpublish");
  if (error != 0) return error;
  Region& memory = *from_handle(region);
  const Outcome<void> unpublished = memory.table->unpublish(memory);
  return unpublished ? 0 : fail(unpublished.error());
}

int penstock_region_open(penstock_session* session, const unsigned char id[16],
                         penstock_region** region) {
  const int error = check_session(session, "open GPU memory");
  if (error != 0) return error;
  if (id == nullptr || region == nullptr)
    return fail_with(EINVAL, "open GPU memory: a null pointer");
  const Outcome<engine::DeviceMemory*> gpus = devices();
  if (!gpus) return fail(gpus.error());
  const Outcome<PublishedMemory> found =
      session_of(session).regions().open_published(memory_id(id));
  if (!found) return fail(found.error());
  if (!sees_gpu(**gpus, found->gpu)) {
    return fail_with(ENODEV,
                     "open GPU memory: it is on a GPU that this process does not see (look at "
                     "CUDA_VISIBLE_DEVICES)");
  }
  const Outcome<engine::DeviceSpan> span = (*gpus)->import_handle(found->handle);
  if (!span) return fail(span.error());
  if (span->length == found->size) return add_region(session, **gpus, *span, true, region);
  const Status released = (*gpus)->release(*span);
  if (!released.ok()) log::error("release GPU memory: {}", released.name());
  return fail_with(EPROTO, "open GPU memory: its size is not the one that was published");
}
