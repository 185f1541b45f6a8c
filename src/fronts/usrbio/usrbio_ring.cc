// The calls of hf3fs_usrbio.h about rings and I/O.
#include "entry.h"
#include "hf3fs_usrbio.h"
#include "process.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>

namespace penstock::usrbio {

namespace {

struct RingArguments {
  const char* mount = nullptr;
  int64_t entries = 0;
  size_t size = 0;
  bool for_read = true;
  int io_depth = 0;
  int priority = 0;
  int timeout = 0;
  int numa = -1;
  uint64_t flags = 0;
};

constexpr uint64_t kKnownFlags = HF3FS_IOR_ALLOW_READ_UNCOMMITTED | HF3FS_IOR_FORBID_READ_HOLES;

bool is_possible(const RingArguments& arguments) {
  return is_mount_name(arguments.mount) && arguments.entries > 0 &&
         arguments.entries <= kEntriesMax && arguments.io_depth > INT_MIN &&
         arguments.io_depth <= arguments.entries && arguments.timeout >= 0 &&
         (arguments.flags & ~kKnownFlags) == 0;
}

int64_t entries_in(size_t size) {
  if (size < kRingHeaderBytes) return 0;
  const size_t entries = (size - kRingHeaderBytes) / kRingEntryBytes;
  return static_cast<int64_t>(std::min<size_t>(entries, INT_MAX));
}

// 0 or a positive errno.
int connect_ring(const RingArguments& arguments, RingHandle& handle) {
  Process& process = Process::instance();
  RingOptions options;
  options.entries = static_cast<uint32_t>(arguments.entries);
  options.for_read = arguments.for_read;
  options.io_depth = arguments.io_depth;
  options.timeout_ns = static_cast<uint64_t>(arguments.timeout) * 1'000'000;
  options.refuse_holes = (arguments.flags & HF3FS_IOR_FORBID_READ_HOLES) != 0;
  handle.entries = options.entries;
  handle.generation = front::fork_generation();
  // The second try is for an agent that came back since the session was last used.
  for (int tries = 0;; ++tries) {
    auto session = process.sessions().of_mount(arguments.mount);
    if (!session) return session.error();
    auto ring = Ring::create(**session, process.timer(), options);
    if (ring) {
      handle.ring = std::move(*ring);
      return 0;
    }
    if (ring.error() != ECONNRESET || tries > 0) return ring.error();
  }
}

int make_ring(hf3fs_ior* ior, const RingArguments& arguments) {
  if (ior == nullptr) return -EINVAL;
  std::memset(ior, 0, sizeof(*ior));
  if (!is_possible(arguments)) return -EINVAL;
  return guarded(-ENOMEM, [&] {
    auto handle = std::make_unique<RingHandle>();
    const int error = connect_ring(arguments, *handle);
    if (error != 0) return -error;
    const Uuid id = random_uuid();
    std::memcpy(ior->iov.id, id.data(), sizeof(ior->iov.id));
    std::strcpy(ior->iov.mount_point, arguments.mount);  // is_mount_name() has measured it
    ior->iov.size = arguments.size;
    ior->iov.numa = arguments.numa;
    std::strcpy(ior->mount_point, arguments.mount);
    ior->for_read = arguments.for_read;
    ior->io_depth = arguments.io_depth;
    ior->priority = arguments.priority;
    ior->timeout = arguments.timeout;
    ior->flags = arguments.flags;
    ior->iorh = handle.release();
    return 0;
  });
}

// The ring, or null for one that is not there or is the parent process's.
Ring* ring_of(const hf3fs_ior* ior) {
  if (ior == nullptr || ior->iorh == nullptr) return nullptr;
  const auto* handle = static_cast<const RingHandle*>(ior->iorh);
  if (handle->generation != front::fork_generation()) return nullptr;
  return handle->ring.get();
}

}  // namespace

}  // namespace penstock::usrbio

namespace usrbio = penstock::usrbio;

extern "C" {

USRBIO_EXPORT size_t hf3fs_ior_size(int entries) {
  if (entries <= 0) return 0;
  return usrbio::kRingHeaderBytes + static_cast<size_t>(entries) * usrbio::kRingEntryBytes;
}

USRBIO_EXPORT int hf3fs_iorcreate(struct hf3fs_ior* ior, const char* hf3fs_mount_point, int entries,
                                  bool for_read, int io_depth, int numa) {
  return hf3fs_iorcreate3(ior, hf3fs_mount_point, entries, for_read, io_depth, 0, 0, numa);
}

USRBIO_EXPORT int hf3fs_iorcreate2(struct hf3fs_ior* ior, const char* hf3fs_mount_point,
                                   int entries, bool for_read, int io_depth, int priority,
                                   int numa) {
  return hf3fs_iorcreate3(ior, hf3fs_mount_point, entries, for_read, io_depth, priority, 0, numa);
}

USRBIO_EXPORT int hf3fs_iorcreate3(struct hf3fs_ior* ior, const char* hf3fs_mount_point,
                                   int entries, bool for_read, int io_depth, int priority,
                                   int timeout, int numa) {
  return usrbio::make_ring(ior, {.mount = hf3fs_mount_point,
                                 .entries = entries,
                                 .size = hf3fs_ior_size(entries),
                                 .for_read = for_read,
                                 .io_depth = io_depth,
                                 .priority = priority,
                                 .timeout = timeout,
                                 .numa = numa});
}

USRBIO_EXPORT int hf3fs_iorcreate4(struct hf3fs_ior* ior, const char* hf3fs_mount_point,
                                   int entries, bool for_read, int io_depth, int timeout, int numa,
                                   uint64_t flags) {
  return usrbio::make_ring(ior, {.mount = hf3fs_mount_point,
                                 .entries = entries,
                                 .size = hf3fs_ior_size(entries),
                                 .for_read = for_read,
                                 .io_depth = io_depth,
                                 .timeout = timeout,
                                 .numa = numa,
                                 .flags = flags});
}

USRBIO_EXPORT int hf3fs_iorwrap(struct hf3fs_ior* ior, void* buf, const char* hf3fs_mount_point,
                                size_t size, bool for_read, int io_depth, int priority, int timeout,
                                uint64_t flags) {
  if (buf == nullptr) return -EINVAL;
  return usrbio::make_ring(ior, {.mount = hf3fs_mount_point,
                                 .entries = usrbio::entries_in(size),
                                 .size = size,
                                 .for_read = for_read,
                                 .io_depth = io_depth,
                                 .priority = priority,
                                 .timeout = timeout,
                                 .flags = flags});
}

USRBIO_EXPORT void hf3fs_iordestroy(struct hf3fs_ior* ior) {
  if (ior == nullptr || ior->iorh == nullptr) return;
  auto* handle = static_cast<usrbio::RingHandle*>(ior->iorh);
  ior->iorh = nullptr;
  // What a child has inherited belongs to its parent; it is left as it is.
  if (handle->generation != penstock::front::fork_generation()) return;
  delete handle;
}

USRBIO_EXPORT int hf3fs_io_entries(const struct hf3fs_ior* ior) {
  if (ior == nullptr || ior->iorh == nullptr) return 0;
  return static_cast<int>(static_cast<const usrbio::RingHandle*>(ior->iorh)->entries);
}

USRBIO_EXPORT int hf3fs_prep_io(const struct hf3fs_ior* ior, const struct hf3fs_iov* iov, bool read,
                                void* ptr, int fd, size_t off, uint64_t len, const void* userdata) {
  usrbio::Ring* ring = usrbio::ring_of(ior);
  if (ring == nullptr || iov == nullptr) return -EINVAL;
  return usrbio::guarded(-ENOMEM, [&] {
    usrbio::Process& process = usrbio::Process::instance();
    return ring->prepare(process.iovs(), process.files(), *iov, read, ptr, fd, off, len, userdata);
  });
}

USRBIO_EXPORT int hf3fs_submit_ios(const struct hf3fs_ior* ior) {
  usrbio::Ring* ring = usrbio::ring_of(ior);
  if (ring == nullptr) return -EINVAL;
  return usrbio::guarded(-ENOMEM, [&] { return ring->submit(); });
}

USRBIO_EXPORT int hf3fs_wait_for_ios(const struct hf3fs_ior* ior, struct hf3fs_cqe* cqes, int cqec,
                                     int min_results, const struct timespec* abs_timeout) {
  usrbio::Ring* ring = usrbio::ring_of(ior);
  if (ring == nullptr || cqes == nullptr || cqec <= 0) return -EINVAL;
  const uint32_t max = static_cast<uint32_t>(cqec);
  const uint32_t min = static_cast<uint32_t>(std::clamp(min_results, 0, cqec));
  return usrbio::guarded(-ENOMEM, [&] { return ring->wait(cqes, max, min, abs_timeout); });
}

}  // extern "C"
