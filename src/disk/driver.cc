#include "thread_disk.h"
#include "uring_disk.h"

#include <cerrno>
#include <sys/stat.h>

namespace penstock::disk {
namespace {

class UringDriver final : public DiskDriver {
 public:
  explicit UringDriver(std::unique_ptr<UringDisk> disk) : disk_(std::move(disk)) {}
  engine::Parker& parker() override { return *disk_; }
  engine::Disk& attach(engine::Loop& loop) override {
    disk_->set_loop(loop);
    loop.add(*disk_);
    return *disk_;
  }

 private:
  std::unique_ptr<UringDisk> disk_;
};

class ThreadDriver final : public DiskDriver {
 public:
  ThreadDriver(const DiskConfig& config, std::string reason)
      : disk_(config.root, config.thread_count, std::move(reason)) {}
  engine::Parker& parker() override { return disk_.parker(); }
  engine::Disk& attach(engine::Loop& loop) override {
    disk_.set_loop(loop);
    loop.add(disk_);
    return disk_;
  }

 private:
  ThreadDisk disk_;
};

}  // namespace

Outcome<std::unique_ptr<DiskDriver>> DiskDriver::create(const DiskConfig& config) {
  struct stat info {};
  if (::stat(config.root.c_str(), &info) != 0) {
    const Status status = Status::from_errno(errno);
    return Failure{status, fmt::format("disk: {}: {}", config.root, status.name())};
  }
  if (!S_ISDIR(info.st_mode)) {
    return Failure{Code::not_directory, fmt::format("disk: {}: not a directory", config.root)};
  }
  std::string reason = config.force_threads ? "threads were asked for" : why_no_uring();
  if (reason.empty()) {
    TRY_ASSIGN(auto disk, UringDisk::create(config.root));
    return std::unique_ptr<DiskDriver>(std::make_unique<UringDriver>(std::move(disk)));
  }
  if (!config.force_threads) log::warning("disk: no io_uring: {}; threads serve", reason);
  return std::unique_ptr<DiskDriver>(std::make_unique<ThreadDriver>(config, std::move(reason)));
}

}  // namespace penstock::disk
