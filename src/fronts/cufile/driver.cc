#include "driver.h"

#include "batch.h"
#include "errors.h"
#include "limits.h"
#include "stream_operations.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/gpu.h"

namespace penstock::cufile {

namespace {

// Why there is no GPU, as CUDA would say it. People hear of it once: programs may try again and
// again.
CUfileError_t without_devices(const Failure& failure) {
  static std::atomic<bool> told{false};
  if (!told.exchange(true)) log::error("cufile: {}", failure.message);
  switch (failure.status.code()) {
    case Code::not_found:
      return result(CU_FILE_CUDA_DRIVER_ERROR, CUDA_ERROR_NO_DEVICE);
    case Code::not_supported:
      return result(CU_FILE_PLATFORM_NOT_SUPPORTED);
    case Code::no_memory:
      return result(CU_FILE_CUDA_DRIVER_ERROR, CUDA_ERROR_OUT_OF_MEMORY);
    case Code::closed:
      return result(CU_FILE_DRIVER_NOT_INITIALIZED);
    default:
      return result(CU_FILE_CUDA_DRIVER_ERROR, CUDA_ERROR_UNKNOWN);
  }
}

uint64_t memory_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(::getpagesize()) : 0;
}

}  // namespace

OpenDriver::OpenDriver(engine::DeviceMemory& devices, const Parameters& parameters)
    : devices_(devices),
      may_go_by_kernel_(parameters.get(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE)),
      buffers_(devices,
               parameters.get(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB) * kKiB),
      files_(limits::kFilesMax),
      batches_(limits::kBatchesMax) {}

OpenDriver::~OpenDriver() = default;

void OpenDriver::cancel() {
  batches_.for_each([](Batch& batch, void*) { batch.cancel(); });
}

Result<std::unique_ptr<OpenDriver>, CUfileError_t> OpenDriver::open(const Parameters& parameters) {
  const Outcome<engine::DeviceMemory*> devices = gpu::devices();
  if (!devices) return Unexpected(without_devices(devices.error()));
  std::unique_ptr<OpenDriver> made(new OpenDriver(**devices, parameters));
  local::LocalOptions options;
  options.threads = static_cast<uint32_t>(parameters.get(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS));
  options.pinned_bytes_max =
      std::min(memory_bytes() / limits::kPinnedShare, limits::kPinnedBytesMax);
  Outcome<std::unique_ptr<LocalBackend>> local = LocalBackend::start(**devices, options);
  if (!local) return Unexpected(without_devices(local.error()));
  made->local_ = std::move(*local);
  return made;
}

Result<std::unique_ptr<File>, CUfileOpError> OpenDriver::make_file(int fd) {
  struct stat facts {};
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fstat(fd, &facts) != 0) return Unexpected(CU_FILE_INVALID_VALUE);
  if (!S_ISREG(facts.st_mode) && !S_ISBLK(facts.st_mode)) {
    return Unexpected(CU_FILE_INVALID_FILE_TYPE);
  }
  // Such a descriptor writes at the end, whatever the offset is.
  if ((flags & O_APPEND) != 0) return Unexpected(CU_FILE_INVALID_FILE_OPEN_FLAG);
  if ((flags & O_PATH) != 0) return Unexpected(CU_FILE_INVALID_FILE_OPEN_FLAG);
  auto file = std::make_unique<File>();
  file->number = fd;
  file->device = facts.st_dev;
  file->inode = facts.st_ino;
  file->readable = (flags & O_ACCMODE) != O_WRONLY;
  file->writable = (flags & O_ACCMODE) != O_RDONLY;
  return file;
}

// The session with the agent of the mount that the device is, if it is one.
MountBackend* OpenDriver::mount_of(dev_t device) {
  const auto known = mounts_.find(device);
  if (known != mounts_.end()) return known->second.get();
  const std::optional<std::string> mount_point = front::mount_point_of(device);
  if (!mount_point) return nullptr;
  const Result<front::Session*, int> session = sessions_.of_mount(front::MountNumbers{device});
  Outcome<std::unique_ptr<MountBackend>> made =
      session ? MountBackend::start(**session)
              : Failure{Status::from_errno(session.error()), penstock_last_error()};
  if (!made) {
    log::warning("cufile: {}: its files go by the kernel: {}", *mount_point, made.error().message);
  }
  std::unique_ptr<MountBackend>& mount = mounts_[device];
  if (made) mount = std::move(*made);
  return mount.get();
}

// With the lock held.
CUfileOpError OpenDriver::add_to_backend(File& file) {
  Outcome<uint32_t> id = 0;
  if (MountBackend* const mount = mount_of(file.device)) {
    file.backend = mount;
    id = mount->add(file.number);
  } else if (mounts_.contains(file.device) && !may_go_by_kernel_) {
    return CU_FILE_IO_NOT_SUPPORTED;
  } else {
    file.backend = local_.get();
    id = local_->add(file.number);
  }
  if (id) {
    file.id = *id;
    return CU_FILE_SUCCESS;
  }
  file.backend = nullptr;
  log::error("cufile: register a file: {}", id.error().message);
  return id.error().status == Code::invalid_argument ? CU_FILE_INVALID_FILE_TYPE
                                                     : CU_FILE_GETNEWFD_FAILED;
}

CUfileOpError OpenDriver::register_file(int fd, CUfileHandle_t* handle) {
  Result<std::unique_ptr<File>, CUfileOpError> file = make_file(fd);
  if (!file) return file.error();
  const std::lock_guard lock(mutex_);
  const auto known = numbers_.find(fd);
  if (known != numbers_.end()) {
    // The handle may be another file's by now.
    const auto before = files_.find(known->second);
    const bool is_same =
        before && before->device == (*file)->device && before->inode == (*file)->inode;
    if (is_same) return CU_FILE_HANDLE_ALREADY_REGISTERED;
  }
  const CUfileOpError added = add_to_backend(**file);
  if (added != CU_FILE_SUCCESS) return added;
  void* const made = files_.add(std::move(*file));
  if (made == nullptr) return CU_FILE_INTERNAL_ERROR;
  numbers_[fd] = made;
  *handle = made;
  return CU_FILE_SUCCESS;
}

CUfileError_t OpenDriver::prepare_stream(File& file, const void* base) {
  const Result<engine::DeviceSpan> span = devices_.find(base, 1);
  if (!span) return result(CU_FILE_SUCCESS);
  const std::pair<const Backend*, uint32_t> pair(file.backend, span->device.value);
  {
    const std::lock_guard lock(prepared_mutex_);
    if (prepared_.contains(pair)) return result(CU_FILE_SUCCESS);
  }
  const CUfileError_t prepared = file.backend == local_.get() ? prepare_local(span->device)
                                                              : prepare_mount(file, span->device);
  if (prepared.err != CU_FILE_SUCCESS) return prepared;
  const std::lock_guard lock(prepared_mutex_);
  prepared_.insert(pair);
  return result(CU_FILE_SUCCESS);
}

// A file of the library's own has a block for certain.
CUfileError_t OpenDriver::prepare_local(engine::DeviceId device) {
  const UniqueFd fd(::memfd_create("penstock-cufile", MFD_CLOEXEC));
  if (!fd || ::ftruncate(fd.get(), limits::kBlockBytes) != 0) {
    return result(CU_FILE_GETNEWFD_FAILED);
  }
  const Outcome<uint32_t> id = local_->add(fd.get());
  if (!id) return result(CU_FILE_GETNEWFD_FAILED);
  File file;
  file.backend = local_.get();
  file.id = *id;
  Status status;
  const CUfileError_t read = read_scratch(file, device, &status);
  if (read.err == CU_FILE_SUCCESS && !status.ok()) return result(CU_FILE_CUDA_DRIVER_ERROR);
  return read;
}

// The session makes what it needs when memory becomes known to it, also when the program's file is
// empty or may not be read. What is wrong with the session is for the operation to say.
CUfileError_t OpenDriver::prepare_mount(File& file, engine::DeviceId device) {
  Status ignored;
  return read_scratch(file, device, &ignored);
}

// Reads a block into memory of the GPU, as a read of the program's would.
CUfileError_t OpenDriver::read_scratch(File& file, engine::DeviceId device, Status* status) {
  const Outcome<engine::DeviceSpan> scratch = devices_.allocate(device, limits::kBlockBytes);
  if (!scratch) return without_devices(scratch.error());
  Operation operation;
  operation.file = &file;
  operation.memory = {scratch->data, scratch->length, true,
                      *scratch,      scratch->data,   scratch->length};
  file.backend->run(operation);
  *status = operation.status;
  const Status released = devices_.release(*scratch);
  return result(released.ok() ? CU_FILE_SUCCESS : CU_FILE_CUDA_DRIVER_ERROR);
}

Driver& Driver::instance() {
  static Driver* const driver = new Driver;
  return *driver;
}

Driver::Driver() {
  // Threads and the GPU stay with the parent, and a mutex may be held by one of its threads.
  front::on_fork({.in_child = [] {
    Driver& self = instance();
    const auto is_free = [](std::mutex& mutex) {
      const std::unique_lock lock(mutex, std::try_to_lock);
      return lock.owns_lock();
    };
    const bool is_unused = self.open_.load(std::memory_order_relaxed) == nullptr &&
                           std::ranges::all_of(self.users_, [](const Users& users) {
                             return users.count.load(std::memory_order_relaxed) == 0;
                           });
    if (is_unused && is_free(self.mutex_) && is_free(self.parameters_mutex_)) return;
    self.forked_.store(true, std::memory_order_relaxed);
  }});
}

CUfileError_t Driver::open_locked() {
  if (open_.load(std::memory_order_relaxed) != nullptr) return result(CU_FILE_SUCCESS);
  const Parameters parameters = with_parameters([](Parameters& all, bool) {
    all.start();
    return all;
  });
  Result<std::unique_ptr<OpenDriver>, CUfileError_t> made = OpenDriver::open(parameters);
  // What was staged stays so for the next time.
  if (!made) return made.error();
  with_parameters([](Parameters& all, bool) { all.clear_staged(); });
  const auto level = static_cast<int>(parameters.get(CUFILE_PARAM_PROFILE_STATS));
  if (level > 0) {
    statistics_.set_level(level);
    statistics_.start();
  }
  open_.store(made->release(), std::memory_order_seq_cst);
  return result(CU_FILE_SUCCESS);
}

CUfileError_t Driver::open() {
  if (forked()) return result(CU_FILE_DRIVER_NOT_INITIALIZED);
  const std::lock_guard lock(mutex_);
  const CUfileError_t opened = open_locked();
  if (opened.err == CU_FILE_SUCCESS) ++count_;
  return opened;
}

CUfileError_t Driver::close() {
  if (forked()) return result(CU_FILE_DRIVER_NOT_INITIALIZED);
  const std::lock_guard lock(mutex_);
  if (count_ == 0) return result(CU_FILE_DRIVER_NOT_INITIALIZED);
  if (--count_ > 0) return result(CU_FILE_SUCCESS);
  const std::unique_ptr<OpenDriver> closing(open_.exchange(nullptr, std::memory_order_seq_cst));
  closing->cancel();
  StreamOperations::instance().remove_all_streams();
  for (Users& users : users_) {
    for (uint64_t left = users.count.load(); left > 0; left = users.count.load()) {
      users.count.wait(left);
    }
  }
  return result(CU_FILE_SUCCESS);
}

void Driver::leave(Users& users) {
  const uint64_t before = users.count.fetch_sub(1, std::memory_order_seq_cst);
  if (before == 1 && open_.load(std::memory_order_seq_cst) == nullptr) users.count.notify_all();
}

Driver::Users& Driver::users_of_thread() {
  static std::atomic<uint32_t> threads{0};
  static thread_local const uint32_t number = threads.fetch_add(1, std::memory_order_relaxed);
  return users_[number % users_.size()];
}

Result<Driver::Use, CUfileError_t> Driver::try_enter() {
  // A thread that enters while the driver closes does not count itself: the closing thread waits
  // until all counts are 0.
  if (open_.load(std::memory_order_seq_cst) != nullptr) {
    Users& users = users_of_thread();
    users.count.fetch_add(1, std::memory_order_seq_cst);
    OpenDriver* const opened = open_.load(std::memory_order_seq_cst);
    if (opened != nullptr) return Use(users, *opened);
    leave(users);
  }
  return Unexpected(result(CU_FILE_DRIVER_NOT_INITIALIZED));
}

Result<Driver::Use, CUfileError_t> Driver::enter_open() {
  if (forked()) return Unexpected(result(CU_FILE_DRIVER_NOT_INITIALIZED));
  return try_enter();
}

Result<Driver::Use, CUfileError_t> Driver::enter() {
  Result<Use, CUfileError_t> entered = enter_open();
  while (!entered && !forked()) {
    {
      const std::lock_guard lock(mutex_);
      const CUfileError_t opened = open_locked();
      if (opened.err != CU_FILE_SUCCESS) return Unexpected(CUfileError_t(opened));
      if (count_ == 0) count_ = 1;
    }
    entered = enter_open();
  }
  return entered;
}

}  // namespace penstock::cufile
