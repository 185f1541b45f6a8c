// The calls of hf3fs_usrbio.h about mounts, memory and files. None lets an exception out: callers
// are C programs.
#include "entry.h"
#include "hf3fs_usrbio.h"
#include "process.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/falloc.h>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>

#include "penstock/front.h"

namespace penstock::usrbio {

namespace {

// The struct as it is after a failure: safe to destroy.
void clear(hf3fs_iov& iov) {
  iov.base = nullptr;
  iov.iovh = nullptr;
}

int punch(int fd, size_t start, size_t end) {
  if (start >= end || end > static_cast<size_t>(INT64_MAX)) return EINVAL;
  for (;;) {
    if (::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(start),
                    static_cast<off_t>(end - start)) == 0) {
      return 0;
    }
    if (errno != EINTR) return errno;
  }
}

}  // namespace

}  // namespace penstock::usrbio

namespace usrbio = penstock::usrbio;

extern "C" {

USRBIO_EXPORT bool hf3fs_is_hf3fs(int fd) {
  return usrbio::guarded(false,
                         [&] { return penstock::front::mount_of_descriptor(fd).has_value(); });
}

USRBIO_EXPORT int hf3fs_extract_mount_point(char* hf3fs_mount_point, int size, const char* path) {
  return usrbio::guarded(-1, [&] {
    if (path == nullptr) return -1;
    const std::optional<std::string> mount = penstock::front::mount_point_of(path);
    if (!mount) return -1;
    const int needed = static_cast<int>(mount->size()) + 1;
    if (hf3fs_mount_point != nullptr && size >= needed) {
      std::memcpy(hf3fs_mount_point, mount->c_str(), static_cast<size_t>(needed));
    }
    return needed;
  });
}

USRBIO_EXPORT int hf3fs_iovcreate(struct hf3fs_iov* iov, const char* hf3fs_mount_point, size_t size,
                                  size_t block_size, int numa) {
  if (iov == nullptr) return -EINVAL;
  usrbio::clear(*iov);
  if (!usrbio::is_mount_name(hf3fs_mount_point) || size == 0) return -EINVAL;
  return usrbio::guarded(-ENOMEM, [&] {
    return usrbio::Process::instance().iovs().create(*iov, hf3fs_mount_point, size, block_size,
                                                     numa);
  });
}

USRBIO_EXPORT int hf3fs_iovopen(struct hf3fs_iov* iov, const uint8_t id[16],
                                const char* hf3fs_mount_point, size_t size, size_t block_size,
                                int numa) {
  if (iov == nullptr) return -EINVAL;
  usrbio::clear(*iov);
  if (id == nullptr || !usrbio::is_mount_name(hf3fs_mount_point) || size == 0) return -EINVAL;
  return usrbio::guarded(-ENOMEM, [&] {
    return usrbio::Process::instance().iovs().open(*iov, usrbio::uuid_of(id), hf3fs_mount_point,
                                                   size, block_size, numa);
  });
}

USRBIO_EXPORT void hf3fs_iovunlink(struct hf3fs_iov* iov) {
  if (iov == nullptr || iov->iovh == nullptr) return;
  usrbio::Process::instance().iovs().unlink(*iov);
}

USRBIO_EXPORT void hf3fs_iovdestroy(struct hf3fs_iov* iov) {
  if (iov == nullptr || iov->iovh == nullptr) return;
  usrbio::guarded(0, [&] {
    usrbio::Process::instance().iovs().destroy(*iov);
    return 0;
  });
}

USRBIO_EXPORT int hf3fs_iovwrap(struct hf3fs_iov* iov, void* base, const uint8_t id[16],
                                const char* hf3fs_mount_point, size_t size, size_t block_size,
                                int numa) {
  if (iov == nullptr) return -EINVAL;
  usrbio::clear(*iov);
  if (base == nullptr || id == nullptr || !usrbio::is_mount_name(hf3fs_mount_point) || size == 0) {
    return -EINVAL;
  }
  return usrbio::guarded(-ENOMEM, [&] {
    usrbio::prefer_numa_node(base, size, numa);
    usrbio::Process::instance().iovs().wrap(*iov, base, usrbio::uuid_of(id), hf3fs_mount_point,
                                            size, block_size, numa);
    return 0;
  });
}

USRBIO_EXPORT int hf3fs_reg_fd(int fd, uint64_t /*flags*/) {
  return usrbio::guarded(ENOMEM, [&] {
    const int error = usrbio::Process::instance().files().add(fd);
    return error != 0 ? error : -fd;
  });
}

USRBIO_EXPORT void hf3fs_dereg_fd(int fd) {
  usrbio::guarded(0, [&] {
    usrbio::Process::instance().files().remove(fd);
    return 0;
  });
}

USRBIO_EXPORT int hf3fs_hardlink(const char* target, const char* link_name) {
  if (target == nullptr || link_name == nullptr) return EINVAL;
  return ::linkat(AT_FDCWD, target, AT_FDCWD, link_name, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

USRBIO_EXPORT int hf3fs_punchhole(int fd, int n, const size_t* start, const size_t* end,
                                  size_t flags) {
  if (n < 0 || (n > 0 && (start == nullptr || end == nullptr)) || flags != 0) return EINVAL;
  if (!hf3fs_is_hf3fs(fd)) return EBADF;
  for (int i = 0; i < n; ++i) {
    const int error = usrbio::punch(fd, start[i], end[i]);
    if (error != 0) return error;
  }
  return 0;
}

}  // extern "C"
