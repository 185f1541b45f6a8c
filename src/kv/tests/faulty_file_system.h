// RocksDB's view of a disk that fills up or fails.
#pragma once

#include <atomic>
#include <memory>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <string>

namespace penstock::kv {

// A file system whose writes and syncs fail on demand.
struct Faults {
  std::atomic<bool> full{false};
  std::atomic<bool> sync_fails{false};
};

class FaultyFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FaultyFile(std::unique_ptr<rocksdb::FSWritableFile>&& file, Faults& faults)
      : FSWritableFileOwnerWrapper(std::move(file)), faults_(faults) {}
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* context) override {
    if (!faults_.full) return target()->Append(data, options, context);
    // Half of it still fits, as on a real disk.
    (void)target()->Append(rocksdb::Slice(data.data(), data.size() / 2), options, context).ok();
    return rocksdb::IOStatus::NoSpace("disk full");
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo&,
                           rocksdb::IODebugContext* context) override {
    return Append(data, options, context);
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* context) override {
    if (faults_.sync_fails) return rocksdb::IOStatus::IOError("sync failed");
    return target()->Sync(options, context);
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* context) override {
    return Sync(options, context);
  }

 private:
  Faults& faults_;
};

class FaultyFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit FaultyFileSystem(Faults& faults)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), faults_(faults) {}
  const char* Name() const override { return "faulty"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* context) override {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    const rocksdb::IOStatus status = target()->NewWritableFile(name, options, &file, context);
    if (status.ok()) *result = std::make_unique<FaultyFile>(std::move(file), faults_);
    return status;
  }

 private:
  Faults& faults_;
};

}  // namespace penstock::kv
