#include "penstock/route/local_source.h"

#include "io_threads.h"
#include "limits.h"
#include "local_file.h"

namespace penstock::route {

LocalSource::LocalSource(engine::Loop& loop, LocalOptions options)
    : loop_(loop), parker_(loop.clock()), files_(limits::kLocalFilesMax) {
  threads_ = std::make_unique<IoThreads>(options.threads, [this](HostIo& io) {
    LocalFile& file = at(io.file);
    const Status status = io.write ? file.write(io) : file.read(io);
    loop_.complete_remote(io, status);
  });
}

LocalSource::~LocalSource() {
  threads_.reset();
  for (const auto& file : files_) delete file.load(std::memory_order_relaxed);
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
  const std::lock_guard lock(mutex_);
  delete files_[file].exchange(nullptr, std::memory_order_relaxed);
}

LocalFile& LocalSource::at(uint32_t file) const {
  ASSERT(file < files_.size());
  LocalFile* const found = files_[file].load(std::memory_order_acquire);
  ASSERT(found != nullptr);
  return *found;
}

void LocalSource::run(HostIo& io) {
  LocalFile& file = at(io.file);
  io.route = engine::Route::none;
  io.status = io.write ? file.write(io) : file.read(io);
}

void LocalSource::submit(HostIo& io) {
  io.route = engine::Route::none;
  io.transferred = 0;
  // Copying a little costs less than waking a thread for it.
  const bool is_small = !io.write && io.memory.length <= limits::kReadNowBytesMax;
  if (is_small && at(io.file).read_now(io)) return loop_.complete(io, Code::ok);
  threads_->submit(io);
}

void LocalSource::cancel(HostIo& io) {
  if (threads_->withdraw(io)) loop_.complete(io, Code::cancelled);
}

bool LocalSource::find(uint32_t, uint64_t, uint64_t, Resident*) {
  return false;
}

bool LocalSource::still_there(const Resident&) {
  return false;
}

void LocalSource::release(const Resident&) {}

}  // namespace penstock::route
