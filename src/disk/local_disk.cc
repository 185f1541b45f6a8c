#include "local_disk.h"

#include "direct_probe.h"
#include "directory.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::disk {

using engine::DiskFile;
using engine::DiskOp;
using engine::DiskOpKind;

namespace {

constexpr uint64_t kTransferMax = kGiB;

// A device that says "again" this often in a row is not going to do it.
constexpr uint32_t kRetriesMax = 1000;

Failure open_failure(const std::string& path, Status status) {
  std::string advice;
  if (status.code() == Code::busy || status.detail() == EMFILE) {
    advice = " (raise the limit of open files: ulimit -n)";
  }
  return {status, fmt::format("open: {}: {}{}", path, status.name(), advice)};
}

}  // namespace

LocalDisk::LocalDisk(const std::string& root) {
  DirectProbe probe = probe_direct(root);
  facts_.direct = probe.works;
  facts_.direct_reason = std::move(probe.reason);
  facts_.alignment = probe.alignment;
  facts_.route = probe.works ? engine::Route::disk_direct : engine::Route::disk_page_cache;
}

LocalDisk::~LocalDisk() {
  for (const File& file : files_) {
    if (file.fd >= 0) ::close(file.fd);
  }
}

LocalDisk::File* LocalDisk::find(DiskFile file) {
  if (file.value >= files_.size() || files_[file.value].fd < 0) return nullptr;
  return &files_[file.value];
}

Outcome<DiskFile> LocalDisk::open(const std::string& path, engine::DiskOpenOptions options) {
  File file;
  file.direct = options.direct && facts_.direct;
  file.read_only = options.read_only;
  const int flags =
      (options.read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY | (file.direct ? O_DIRECT : 0);
  UniqueFd fd(::open(path.c_str(), flags));
  if (!fd && errno == ENOENT && options.create) {
    fd = UniqueFd(::open(path.c_str(), flags | O_CREAT, 0666));
    if (fd) {
      if (const Status status = sync_parent(path); !status.ok()) return open_failure(path, status);
    }
  }
  struct stat info {};
  if (!fd) {
    // With O_DIRECT a directory is an invalid argument.
    const Status status = last_error();
    const bool directory = ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
    return open_failure(path, directory ? Status(Code::is_directory) : status);
  }
  if (::fstat(fd.get(), &info) != 0) return open_failure(path, last_error());
  if (S_ISDIR(info.st_mode)) return open_failure(path, Code::is_directory);
  if (!S_ISREG(info.st_mode)) return open_failure(path, Code::invalid_argument);
  // Reads are not worth a timestamp in the inode; only its owner may say so.
  (void)::fcntl(fd.get(), F_SETFL, O_NOATIME | (file.direct ? O_DIRECT : 0));

  const auto slot =
      std::find_if(files_.begin(), files_.end(), [](const File& f) { return f.fd < 0; });
  const auto index = static_cast<uint32_t>(slot - files_.begin());
  if (slot == files_.end()) files_.emplace_back();
  file.fd = fd.release();
  files_[index] = file;
  on_open(index);
  return DiskFile(index);
}

void LocalDisk::close(DiskFile file) {
  File* open_file = find(file);
  ASSERT(open_file != nullptr && open_file->in_flight == 0);
  on_close(file.value);
  ::close(open_file->fd);
  *open_file = File();
}

Result<uint64_t> LocalDisk::size(DiskFile file) {
  const File* open_file = find(file);
  if (open_file == nullptr) return Code::bad_handle;
  struct stat info {};
  if (::fstat(open_file->fd, &info) != 0) return last_error();
  return static_cast<uint64_t>(info.st_size);
}

Status LocalDisk::check(const DiskOp& op, const File* file) const {
  if (file == nullptr) return Code::bad_handle;
  if (op.kind == DiskOpKind::sync) return Code::ok;
  const bool transfers = op.kind == DiskOpKind::read || op.kind == DiskOpKind::write;
  const uint64_t length = transfers ? op.memory.length : op.length;
  if (!range_within(op.offset, length, INT64_MAX)) return Code::invalid_argument;
  if (file->read_only && op.kind != DiskOpKind::read) return Code::access_denied;
  if (file->direct && !is_aligned(op.offset | length, facts_.alignment)) {
    return Code::invalid_argument;
  }
  if (!transfers) return length == 0 ? Code::invalid_argument : Code::ok;
  if (length > kTransferMax || op.memory.kind != engine::MemoryKind::host) {
    return Code::invalid_argument;
  }
  if (file->direct && !is_aligned(op.memory.data, facts_.alignment)) return Code::invalid_argument;
  return Code::ok;
}

Status LocalDisk::make_directory(const std::string& path) {
  return disk::make_directory(path);
}
Result<std::vector<std::string>> LocalDisk::list(const std::string& path) {
  return list_directory(path);
}
Status LocalDisk::remove(const std::string& path) {
  return remove_file(path);
}
Result<std::string> LocalDisk::read_file(const std::string& path) {
  return read_small_file(path);
}
Status LocalDisk::replace_file(const std::string& path, const std::string& content) {
  return disk::replace_file(path, content);
}
Result<std::unique_ptr<engine::DirectoryLock>> LocalDisk::lock_directory(const std::string& path) {
  return disk::lock_directory(path);
}
Result<engine::DiskSpace> LocalDisk::space(const std::string& path) {
  return space_of(path);
}

Progress advance(DiskOp& op, int64_t result, bool direct, uint64_t alignment, uint32_t& retries) {
  // This process cancels nothing: the kernel does, when the thread that submitted ends.
  if (result == -EAGAIN || result == -EINTR || result == -ECANCELED) {
    if (++retries <= kRetriesMax) return Progress::again;
  }
  if (result < 0) {
    op.status = Status::from_errno(static_cast<int>(-result));
    return Progress::failed;
  }
  retries = 0;
  op.status = Code::ok;
  if (op.kind != DiskOpKind::read && op.kind != DiskOpKind::write) return Progress::done;
  op.progress.done += static_cast<uint64_t>(result);
  op.transferred = op.progress.done;
  if (op.progress.done >= op.memory.length) return Progress::done;
  if (op.kind == DiskOpKind::read) {
    // Past the end nothing comes. A direct read can only stop at an unaligned offset at the end.
    if (result == 0 || (direct && !is_aligned(op.progress.done, alignment))) return Progress::done;
    return Progress::again;
  }
  if (result == 0 || (direct && !is_aligned(op.progress.done, alignment))) {
    op.status = Status(Code::io_error);
    return Progress::failed;
  }
  return Progress::again;
}

}  // namespace penstock::disk
