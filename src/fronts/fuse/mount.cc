#include "call.h"
#include "device.h"
#include "limits.h"
#include "lock_requests.h"
#include "mount_point.h"
#include "newer_requests.h"
#include "operations.h"
#include "session.h"
#include "virtual_directory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace penstock::fuse {
namespace {

// How often a busy mount is tried again; the kernel does not tell when the last file is closed.
constexpr std::chrono::milliseconds kBusyRetry{20};

class FileSystemChanges final : public ChangeSource {
 public:
  explicit FileSystemChanges(client::FileSystem& files) : files_(files) {}
  void add(client::Observer& observer) override { files_.add_observer(observer); }
  void remove(client::Observer& observer) override { files_.remove_observer(observer); }
  void watch(InodeId inode, client::Observer& observer) override { files_.watch(inode, observer); }
  void unwatch(InodeId inode, client::Observer& observer) override {
    files_.unwatch(inode, observer);
  }

 private:
  client::FileSystem& files_;
};

class RealMount final : public Mount {
 public:
  RealMount(client::FileSystem& files, agent::Agent* agent, MountConfig config)
      : config_(std::move(config)), agent_(agent), front_(files), changes_(files) {
    if (agent) virtual_directory_ = std::make_unique<VirtualDirectory>(*agent);
    front_.virtual_directory = virtual_directory_.get();
    front_.mount_point = config_.mount_point;
    front_.is_shared = files.is_shared();
    if (locks::Locking* const locking = files.locking(); locking != nullptr) {
      lock_requests_ = std::make_unique<LockRequests>(*locking);
      front_.locks = lock_requests_.get();
    }
    front_.cache_seconds = front_.is_shared ? 0 : static_cast<double>(config_.cache.count());
    options_ = config_.options;
    front_.options.set(options_);
  }
  ~RealMount() override { stop(); }

  Outcome<void> begin(DeadMount dead);
  StopOutcome stop() override;
  Outcome<void> change(const MountOptions& options) override;
  MountOptions options() const override {
    std::lock_guard lock(options_mutex_);
    return options_;
  }
  const std::string& path() const override { return config_.mount_point; }
  dev_t device() const override { return device_; }
  bool alive() const override {
    return !stopped_.load(std::memory_order_relaxed) && !session_->ended();
  }

 private:
  bool ours_is_mounted() const;
  void write_back() const;
  void set_read_ahead() const;
  bool unmount_until_deadline();

  const MountConfig config_;
  agent::Agent* const agent_;
  std::unique_ptr<VirtualDirectory> virtual_directory_;
  std::unique_ptr<LockRequests> lock_requests_;  // null: locks are the kernel's
  Front front_;
  FileSystemChanges changes_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<KernelCache> cache_;
  dev_t device_ = 0;
  mutable std::mutex options_mutex_;
  MountOptions options_;
  // Relaxed: orders nothing.
  std::atomic<bool> stopped_{false};
  StopOutcome outcome_ = StopOutcome::unmounted;
};

Outcome<void> RealMount::begin(DeadMount dead) {
  TRY_ASSIGN(UniqueFd device, mount_device(config_, dead));
  auto session =
      Session::make(std::move(device), operations(), &front_, {serve_newer_request, amend_reply});
  if (!session) {
    (void)unmount_once(config_.mount_point, true);
    return session.error();
  }
  session_ = std::move(*session);
  cache_ = std::make_unique<KernelCache>(changes_, *session_);
  front_.cache = cache_.get();
  const uint32_t threads = config_.threads == 0 ? kThreadsDefault : config_.threads;
  const Status started = session_->start(std::clamp(threads, 1u, kThreadsMax));
  struct stat root {};
  if (!started.ok() || ::stat(config_.mount_point.c_str(), &root) != 0) {
    const int error = started.ok() ? errno : started.to_errno();
    (void)unmount_once(config_.mount_point, true);
    return Failure{Status::from_errno(error),
                   fmt::format("{}: the mount does not answer: {}", config_.mount_point,
                               std::strerror(error))};
  }
  device_ = root.st_dev;
  set_read_ahead();
  if (agent_) agent_->add_mount(device_, session_->device());
  return {};
}

// The kernel reads 128 KiB ahead unless told otherwise, and telling it is for root.
void RealMount::set_read_ahead() const {
  const std::string path =
      fmt::format("/sys/class/bdi/{}:{}/read_ahead_kb", major(device_), minor(device_));
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return;
  const std::string text = fmt::format("{}\n", config_.read_ahead_bytes / kKiB);
  if (::write(file.get(), text.data(), text.size()) < 0) {
    log::debug("mount: {}: {}", path, std::strerror(errno));
  }
}

Outcome<void> RealMount::change(const MountOptions& options) {
  std::lock_guard lock(options_mutex_);
  if (options.allow_other != options_.allow_other) {
    return Failure{Code::not_supported, fmt::format("{}: allow_other cannot be changed while it is "
                                                    "mounted (unmount it and mount it again)",
                                                    config_.mount_point)};
  }
  if (options.like_3fs != options_.like_3fs) {
    return Failure{Code::not_supported,
                   fmt::format("{}: its type cannot be changed while it is mounted (unmount it and "
                               "mount it again)",
                               config_.mount_point)};
  }
  if (!ours_is_mounted()) {
    return Failure{Code::not_found, config_.mount_point + ": is not mounted any more"};
  }
  TRY(change_mount(config_, options));
  options_ = options;
  front_.options.set(options_);
  return {};
}

bool RealMount::ours_is_mounted() const {
  const std::vector<MountEntry> mounts = read_mounts();
  const MountEntry* const top = mount_at(mounts, config_.mount_point);
  return top != nullptr && top->device == device_;
}

// What programs have changed in mapped files.
void RealMount::write_back() const {
  const UniqueFd root(::open(config_.mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info {};
  if (root && ::fstat(root.get(), &info) == 0 && info.st_dev == device_) (void)::syncfs(root.get());
}

// True when the connection has ended.
bool RealMount::unmount_until_deadline() {
  const auto deadline = std::chrono::steady_clock::now() + config_.stop_deadline;
  while (ours_is_mounted()) {
    const Status status = unmount_once(config_.mount_point, false);
    if (status.ok()) break;
    if (status.code() != Code::in_use) {
      log::warning("unmount: {}: {}", config_.mount_point, std::strerror(status.to_errno()));
    }
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return false;
    if (session_->wait_ended(std::min(deadline, now + kBusyRetry))) return true;
  }
  return session_->wait_ended(deadline);
}

StopOutcome RealMount::stop() {
  if (stopped_.load(std::memory_order_relaxed)) return outcome_;
  if (agent_ && device_ != 0) agent_->remove_mount(device_);
  if (session_ && device_ != 0 && !session_->ended()) {
    write_back();
    if (!unmount_until_deadline()) {
      outcome_ = StopOutcome::detached;
      log::warning("unmount: {}: programs still use files there; they are cut off",
                   config_.mount_point);
      if (ours_is_mounted()) (void)unmount_once(config_.mount_point, true);
    }
  }
  // What this one was mounted on top of.
  if (device_ != 0) static_cast<void>(remove_dead_mounts(config_.mount_point, config_.source));
  stopped_.store(true, std::memory_order_relaxed);
  if (cache_) cache_->end_telling();
  if (session_) session_->end_workers();
  if (lock_requests_) lock_requests_->end();
  if (session_) session_->stop();
  cache_.reset();
  for (client::FileRef& file : front_.handles.take_all()) {
    if (lock_requests_) lock_requests_->closed(file);
    const Status status = front_.files.close_file(std::move(file));
    if (!status.ok()) log::warning("unmount: closing a file: {}", status.name());
  }
  return outcome_;
}

}  // namespace

Outcome<std::unique_ptr<Mount>> Mount::start(client::FileSystem& files, agent::Agent* agent,
                                             MountConfig config) {
  const DeadMount dead = make_room(config.mount_point, config.source);
  TRY_ASSIGN(config.mount_point, check_mount_point(config.mount_point, config.options, dead));
  auto mount = std::make_unique<RealMount>(files, agent, std::move(config));
  TRY(mount->begin(dead));
  if (dead != DeadMount::none) {
    log::info("{}: took the place of a mount whose process had died", mount->path());
  }
  return std::unique_ptr<Mount>(std::move(mount));
}

}  // namespace penstock::fuse
