// The logs that RocksDB has open, so that they can be synced past it.
//
// Where a record found no room in a log, RocksDB does not sync that log any more, though all
// records before the torn one are whole; built with its assertions, as Debian does, it ends the
// process instead when that log was never synced before.
#pragma once

#include <memory>
#include <mutex>
#include <rocksdb/file_system.h>
#include <string>
#include <vector>

namespace penstock::kv {

class LogFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit LogFileSystem(std::shared_ptr<rocksdb::FileSystem> below)
      : FileSystemWrapper(std::move(below)) {}
  const char* Name() const override { return "penstock-logs"; }

  // What was written to logs before the call is on stable storage when it returns, except in logs
  // that are closed: RocksDB closes those whose content is in tables on stable storage.
  // Thread safe.
  rocksdb::IOStatus sync_logs();

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* context) override;

 private:
  struct Log;
  class LogFile;

  rocksdb::IOStatus sync_log(Log& log);

  std::mutex mutex_;
  std::vector<std::weak_ptr<Log>> logs_;
};

}  // namespace penstock::kv
