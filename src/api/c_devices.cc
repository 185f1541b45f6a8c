// penstock.h: GPU memory.
#include "devices.h"
#include "error.h"
#include "handles.h"

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

// Adds a region for memory that was found, allocated or imported. Memory that is `owned` goes back
// when that fails.
int add_region(penstock_session* session, engine::DeviceMemory& devices,
               const engine::DeviceSpan& span, bool owned, penstock_region** region) {
  Outcome<Region*> made =
      from_handle(session)->add_device_region(devices, span, owned ? &devices : nullptr);
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

}  // namespace
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
  if (!span) {
    return fail_with(EINVAL, span.error() == Code::not_found
                                 ? "region register: the address is not one of GPU memory"
                                 : "region register: the range leaves its allocation");
  }
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

int penstock_region_export(const penstock_region* region, penstock_device_handle* handle) {
  if (region == nullptr || handle == nullptr) return fail_with(EINVAL, "export: a null pointer");
  if (!from_handle(region)->device) {
    return fail_with(EINVAL, "export: host memory is shared by its own descriptor");
  }
  const Outcome<engine::DeviceMemory*> gpus = devices();
  if (!gpus) return fail(gpus.error());
  Outcome<engine::DeviceHandle> made = (*gpus)->export_handle(*from_handle(region)->device);
  if (!made) return fail(made.error());
  *handle = {};
  handle->fd = made->fd.release();
  handle->length = static_cast<uint32_t>(made->bytes.size());
  std::memcpy(handle->bytes, made->bytes.data(), made->bytes.size());
  return 0;
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
