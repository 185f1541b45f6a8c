#include "penstock/local/local_source.h"

#include "limits.h"
#include "local_file.h"
#include "windows.h"

namespace penstock::local {

LocalSource::LocalSource(engine::Loop& loop, engine::DeviceMemory& devices, LocalOptions options)
    : loop_(loop), parker_(loop.clock()), files_(limits::kLocalFilesMax) {
  windows_ = std::make_unique<Windows>(loop, devices, options.pinned_bytes_max,
                                       [this] { parker_.unpark(); });
  engine::WorkerOptions io_threads{.name = "penstock-io",
                                   .what = "a thread for reads and writes",
                                   .count_max = options.threads,
                                   .start = engine::WorkerOptions::Start::on_demand};
  threads_ = std::make_unique<engine::WorkerPool>(std::move(io_threads), [this](ListNode& item) {
    auto& io = static_cast<route::HostIo&>(item);
    LocalFile& file = at(io.file);
    const Status status = io.write ? file.write(io) : file.read(io);
    loop_.complete_remote(io, status);
  });
}

LocalSource::~LocalSource() {
  close();
  for (const auto& file : files_) delete file.load(std::memory_order_relaxed);
}

void LocalSource::close() {
  threads_.reset();
  windows_.reset();
}

Outcome<uint32_t> LocalSource::add(int fd) {
  TRY_ASSIGN(std::unique_ptr<LocalFile> file, LocalFile::open(fd));
  const std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < files_.size(); ++i) {
    const uint32_t id = next_file_++ % limits::kLocalFilesMax;
    if (files_[id].load(std::memory_order_relaxed) != nullptr) continue;
    files_[id].store(file.release(), std::memory_order_release);
    return id;
  }
  return Failure{Code::busy, fmt::format("there are {} files already", files_.size())};
}

void LocalSource::remove(uint32_t file) {
  ASSERT(file < files_.size());
  {
    const std::lock_guard lock(mutex_);
    removed_.push_back(file);
    has_removed_.store(true, std::memory_order_relaxed);
  }
  rouse();
}

bool LocalSource::poll() {
  const bool worked = windows_->poll();
  if (!has_removed_.load(std::memory_order_relaxed)) return worked;
  const std::lock_guard lock(mutex_);
  for (const uint32_t file : removed_) {
    windows_->forget(file);
    delete files_[file].exchange(nullptr, std::memory_order_relaxed);
  }
  removed_.clear();
  has_removed_.store(false, std::memory_order_relaxed);
  return true;
}

LocalFile& LocalSource::at(uint32_t file) const {
  ASSERT(file < files_.size());
  LocalFile* const found = files_[file].load(std::memory_order_acquire);
  ASSERT(found != nullptr);
  return *found;
}

void LocalSource::run(route::HostIo& io) {
  LocalFile& file = at(io.file);
  io.route = engine::Route::none;
  io.status = io.write ? file.write(io) : file.read(io);
}

bool LocalSource::read_now(route::HostIo& io) {
  io.route = engine::Route::none;
  return at(io.file).read_now(io);
}

HeldPages LocalSource::hold(uint32_t file, uint64_t offset, uint64_t length) {
  return windows_->hold(at(file), file, offset, length);
}

bool LocalSource::note_read(uint32_t file, uint64_t offset, uint64_t length) {
  return windows_->note_read(file, offset, length);
}

void LocalSource::submit(route::HostIo& io) {
  io.route = engine::Route::none;
  io.transferred = 0;
  if (!io.write) (void)note_read(io.file, io.offset, io.memory.length);
  // Copying a little costs less than waking a thread for it.
  const bool is_small = !io.write && io.memory.length <= limits::kReadNowBytesMax;
  if (is_small && at(io.file).read_now(io)) return loop_.complete(io, Code::ok);
  const Status status = threads_->submit(io);
  if (!status.ok()) loop_.complete(io, status);
}

void LocalSource::cancel(route::HostIo& io) {
  if (threads_->withdraw(io)) loop_.complete(io, Code::cancelled);
}

bool LocalSource::find(uint32_t file, uint64_t offset, uint64_t length, route::Resident* resident) {
  return windows_->find(at(file), file, offset, length, resident);
}

bool LocalSource::still_there(const route::Resident& resident) {
  return windows_->still_there(resident);
}

void LocalSource::release(const route::Resident& resident) {
  windows_->release(resident);
}

}  // namespace penstock::local
