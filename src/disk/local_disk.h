// What both backends share: the table of open files, the checks of an operation, and the blocking
// part of the interface.
#pragma once

#include <string>
#include <vector>

#include "penstock/disk.h"

namespace penstock::disk {

class LocalDisk : public engine::Disk {
 public:
  const engine::DiskFacts& facts() const override { return facts_; }

  Outcome<engine::DiskFile> open(const std::string& path, engine::DiskOpenOptions options) final;
  void close(engine::DiskFile file) final;
  Result<uint64_t> size(engine::DiskFile file) final;
  Status make_directory(const std::string& path) final;
  Result<std::vector<std::string>> list(const std::string& path) final;
  Status remove(const std::string& path) final;
  Result<std::string> read_file(const std::string& path) final;
  Status replace_file(const std::string& path, const std::string& content) final;
  Result<std::unique_ptr<engine::DirectoryLock>> lock_directory(const std::string& path) final;
  Result<engine::DiskSpace> space(const std::string& path) final;

 protected:
  struct File {
    int fd = -1;
    bool direct = false;
    bool read_only = false;
    bool registered = false;  // its index is also that of the ring's file table
    uint32_t in_flight = 0;   // where the backend counts it
  };

  explicit LocalDisk(const std::string& root);
  ~LocalDisk() override;

  // Null for an id that is not open.
  File* find(engine::DiskFile file);
  // What can be refused without asking the kernel. `file` is what find() gave.
  Status check(const engine::DiskOp& op, const File* file) const;

  // For a backend that keeps its own table.
  virtual void on_open(uint32_t) {}
  virtual void on_close(uint32_t) {}

  engine::DiskFacts facts_;
  std::vector<File> files_;  // by DiskFile
};

// How a transfer goes on after the kernel moved `result` bytes, or ended with -errno.
enum class Progress { done, again, failed };
// Advances op.progress.done and sets op.transferred and op.status; the end for anything but
// `again`, which asks for the rest of the operation once more. `retries` counts how often in a row.
Progress advance(engine::DiskOp& op, int64_t result, bool direct, uint64_t alignment,
                 uint32_t& retries);

}  // namespace penstock::disk
