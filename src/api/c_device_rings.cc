// penstock_device_ring.h.
#include "devices.h"
#include "handles.h"

#include <cerrno>
#include <cstring>

using namespace penstock;       // NOLINT: this file is the C border
using namespace penstock::api;  // NOLINT

namespace penstock::api {
namespace {

// 0, or the error of a call that cannot be made.
int check_ring(penstock_device_ring* ring, const char* what) {
  if (ring == nullptr) return fail_with(EINVAL, "device ring: a null pointer");
  return check_forked(from_handle(ring)->ring().rings().session().connection(), what);
}

// Whether what is there was made by a compiler that has read this version of penstock_device.h.
bool is_of_this_version(const void* view, size_t size) {
  if (size != sizeof(device::Ring)) return false;
  uint32_t version = 0;
  std::memcpy(&version, view, sizeof version);  // the first member, in all versions
  return version == device::kVersion;
}

}  // namespace
}  // namespace penstock::api

int penstock_device_ring_create(penstock_session* session, penstock_region* region,
                                uint32_t entries, penstock_device_ring** ring) {
  const int error = check_session(session, "create device ring");
  if (error != 0) return error;
  if (region == nullptr || ring == nullptr) {
    return fail_with(EINVAL, "create device ring: a null pointer");
  }
  Region& memory = *from_handle(region);
  if (!is_of_session(session, region) || !memory.device) {
    return fail_with(EINVAL, "create device ring: the region is not GPU memory of this session");
  }
  const Outcome<engine::DeviceMemory*> gpus = devices();
  if (!gpus) return fail(gpus.error());
  FileService* service = nullptr;
  const auto make_service = [&](DeviceRing& of) {
    auto files = std::make_unique<FileService>(session_of(session), of);
    service = files.get();
    return files;
  };
  const Outcome<DeviceRing*> made =
      from_handle(session)->device_rings.make(**gpus, memory, entries, make_service);
  if (!made) return fail(made.error());
  *ring = to_handle(service);
  return 0;
}

int penstock_device_ring_add_file(penstock_device_ring* ring, penstock_file file) {
  const int error = check_ring(ring, "add file");
  if (error != 0) return error;
  FileService& self = *from_handle(ring);
  if (self.ring().rings().session().files().access_of(file) == 0) {
    return fail_with(EBADF, "device ring: add file: the file is not open");
  }
  const Result<uint8_t> number = self.add_file(file);
  return number ? int{*number} : fail_with(EAGAIN, "device ring: add file: it has 256");
}

int penstock_device_ring_remove_file(penstock_device_ring* ring, int number) {
  const int error = check_ring(ring, "remove file");
  if (error != 0) return error;
  if (from_handle(ring)->remove_file(static_cast<uint32_t>(number))) return 0;
  return fail_with(EBADF, "device ring: remove file: no file has that number");
}

int penstock_device_ring_view(penstock_device_ring* ring, void* view, size_t size) {
  const int error = check_ring(ring, "view");
  if (error != 0) return error;
  if (view == nullptr || !is_of_this_version(view, size)) {
    return fail_with(EINVAL,
                     "device ring: view: no penstock::device::Ring, or its penstock_device.h is of "
                     "another version than the library");
  }
  const device::Ring made = from_handle(ring)->ring().view();
  std::memcpy(view, &made, sizeof made);
  return 0;
}

int penstock_device_ring_wake(penstock_device_ring* ring) {
  const int error = check_ring(ring, "wake");
  if (error != 0) return error;
  from_handle(ring)->ring().rings().announce();
  return 0;
}

int penstock_device_ring_get_stats(penstock_device_ring* ring, penstock_device_ring_stats* stats) {
  const int error = check_ring(ring, "stats");
  if (error != 0) return error;
  if (stats == nullptr) return fail_with(EINVAL, "device ring: stats: a null pointer");
  const DeviceRing& self = from_handle(ring)->ring();
  const FileServiceStats files = from_handle(ring)->stats();
  *stats = {self.requests(),
            files.addresses,
            files.copies,
            files.writes,
            self.again(),
            files.failed,
            self.rings().thread_nanoseconds()};
  return 0;
}

int penstock_device_ring_close(penstock_device_ring* ring) {
  const int error = check_ring(ring, "close");
  if (error != 0) return error;
  DeviceRing& self = from_handle(ring)->ring();
  self.rings().close(self);
  return 0;
}

int penstock_device_ring_destroy(penstock_device_ring* ring) {
  const int error = check_ring(ring, "destroy");
  if (error != 0) return error;
  DeviceRing& self = from_handle(ring)->ring();
  self.rings().destroy(self);
  return 0;
}
