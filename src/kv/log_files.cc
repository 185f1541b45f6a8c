#include "log_files.h"

#include <atomic>

#include "penstock/base.h"

namespace penstock::kv {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

struct LogFileSystem::Log {
  std::string directory;
  std::unique_ptr<rocksdb::FSWritableFile> file;
  // Written by RocksDB's writer of the moment after an append, read by the thread that syncs; the
  // release pairs with the acquire there, though a thread that wants its commit synced has seen
  // that end anyway.
  std::atomic<uint64_t> appended{0};

  std::mutex mutex;  // of what follows, and held while the file is synced or closed
  uint64_t synced = 0;
  bool name_synced = false;
  bool closed = false;
};

class LogFileSystem::LogFile final : public rocksdb::FSWritableFileWrapper {
 public:
  explicit LogFile(std::shared_ptr<Log> log)
      : FSWritableFileWrapper(log->file.get()), log_(std::move(log)) {}

  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  IODebugContext* context) override {
    return appended(data, target()->Append(data, options, context));
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& verification,
                  IODebugContext* context) override {
    return appended(data, target()->Append(data, options, verification, context));
  }
  IOStatus Close(const IOOptions& options, IODebugContext* context) override {
    const std::lock_guard lock(log_->mutex);
    log_->closed = true;
    return target()->Close(options, context);
  }

 private:
  IOStatus appended(const rocksdb::Slice& data, IOStatus status) {
    if (status.ok()) log_->appended.fetch_add(data.size(), std::memory_order_release);
    return status;
  }
  const std::shared_ptr<Log> log_;
};

IOStatus LogFileSystem::NewWritableFile(const std::string& name,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSWritableFile>* result,
                                        IODebugContext* context) {
  if (!name.ends_with(".log")) return target()->NewWritableFile(name, options, result, context);
  auto log = std::make_shared<Log>();
  log->directory = name.substr(0, name.rfind('/'));
  IOStatus status = target()->NewWritableFile(name, options, &log->file, context);
  if (!status.ok()) return status;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(logs_, [](const std::weak_ptr<Log>& known) { return known.expired(); });
    logs_.push_back(log);
  }
  *result = std::make_unique<LogFile>(std::move(log));
  return status;
}

IOStatus LogFileSystem::sync_logs() {
  std::vector<std::shared_ptr<Log>> logs;
  {
    const std::lock_guard lock(mutex_);
    for (const std::weak_ptr<Log>& known : logs_) {
      if (std::shared_ptr<Log> log = known.lock()) logs.push_back(std::move(log));
    }
  }
  for (const std::shared_ptr<Log>& log : logs) {
    IOStatus status = sync_log(*log);
    if (!status.ok()) return status;
  }
  return IOStatus::OK();
}

IOStatus LogFileSystem::sync_log(Log& log) {
  const std::lock_guard lock(log.mutex);
  const uint64_t appended = log.appended.load(std::memory_order_acquire);
  ASSERT(appended >= log.synced);
  if (log.closed || appended == log.synced) return IOStatus::OK();
  IOStatus status = log.file->Sync(IOOptions(), nullptr);
  if (!status.ok()) return status;
  log.synced = appended;
  if (log.name_synced) return status;
  std::unique_ptr<rocksdb::FSDirectory> directory;
  status = target()->NewDirectory(log.directory, IOOptions(), &directory, nullptr);
  if (status.ok()) {
    status = directory->FsyncWithDirOptions(IOOptions(), nullptr, rocksdb::DirFsyncOptions());
  }
  log.name_synced = status.ok();
  return status;
}

}  // namespace penstock::kv
