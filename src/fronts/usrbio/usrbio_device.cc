// The calls of hf3fs_usrbio.h about GPU memory.
#include "entry.h"
#include "hf3fs_usrbio.h"
#include "process.h"

#include <algorithm>
#include <cerrno>

namespace penstock::usrbio {

namespace {

// What all calls that fill an iov have in common; safe to destroy after a failure.
struct DeviceArguments {
  const char* mount = nullptr;
  size_t size = 0;
  size_t block_size = 0;
};

bool begin(hf3fs_iov* iov, const DeviceArguments& arguments) {
  if (iov == nullptr) return false;
  iov->base = nullptr;
  iov->iovh = nullptr;
  return is_mount_name(arguments.mount) && arguments.size > 0 && arguments.block_size == 0;
}

int gpu_of(const hf3fs_iov* iov) {
  if (iov == nullptr || iov->base == nullptr) return -1;
  return Process::instance().iovs().gpu_of(*iov);
}

}  // namespace

}  // namespace penstock::usrbio

namespace usrbio = penstock::usrbio;

extern "C" {

USRBIO_EXPORT bool hf3fs_gdr_available(void) {
  return hf3fs_gdr_device_count() > 0;
}

USRBIO_EXPORT int hf3fs_gdr_device_count(void) {
  return usrbio::guarded(0, [] { return std::max(0, penstock_gpu_count()); });
}

USRBIO_EXPORT int hf3fs_iovcreate_device(struct hf3fs_iov* iov, const char* hf3fs_mount_point,
                                         size_t size, size_t block_size, int device_id) {
  if (!usrbio::begin(iov, {hf3fs_mount_point, size, block_size})) return -EINVAL;
  return usrbio::guarded(-ENOMEM, [&] {
    return usrbio::Process::instance().iovs().create_device(*iov, hf3fs_mount_point, size,
                                                            device_id);
  });
}

USRBIO_EXPORT int hf3fs_iovopen_device(struct hf3fs_iov* iov, const uint8_t id[16],
                                       const char* hf3fs_mount_point, size_t size,
                                       size_t block_size, int device_id) {
  if (!usrbio::begin(iov, {hf3fs_mount_point, size, block_size}) || id == nullptr) return -EINVAL;
  return usrbio::guarded(-ENOMEM, [&] {
    return usrbio::Process::instance().iovs().open_device(*iov, usrbio::uuid_of(id),
                                                          hf3fs_mount_point, size, device_id);
  });
}

USRBIO_EXPORT int hf3fs_iovwrap_device(struct hf3fs_iov* iov, void* device_ptr,
                                       const uint8_t id[16], const char* hf3fs_mount_point,
                                       size_t size, size_t block_size, int device_id) {
  if (!usrbio::begin(iov, {hf3fs_mount_point, size, block_size})) return -EINVAL;
  if (device_ptr == nullptr || id == nullptr) return -EINVAL;
  return usrbio::guarded(-ENOMEM, [&] {
    return usrbio::Process::instance().iovs().wrap_device(*iov, device_ptr, usrbio::uuid_of(id),
                                                          hf3fs_mount_point, size, device_id);
  });
}

USRBIO_EXPORT int hf3fs_iovsync(const struct hf3fs_iov* iov, int direction) {
  if (iov == nullptr || iov->base == nullptr) return -EINVAL;
  return usrbio::guarded(-ENOMEM,
                         [&] { return usrbio::Process::instance().iovs().sync(*iov, direction); });
}

USRBIO_EXPORT enum hf3fs_mem_type hf3fs_iov_mem_type(const struct hf3fs_iov* iov) {
  return usrbio::gpu_of(iov) < 0 ? HF3FS_MEM_HOST : HF3FS_MEM_DEVICE;
}

USRBIO_EXPORT int hf3fs_iov_device_id(const struct hf3fs_iov* iov) {
  return usrbio::gpu_of(iov);
}

}  // extern "C"
