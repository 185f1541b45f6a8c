#include "device_far.h"

#include "limits.h"

#include <algorithm>
#include <sys/prctl.h>

namespace penstock::symm {
namespace {

AskedGeometry geometry() {
  return *AskedGeometry::make(DeviceFar::kEntries);
}

}  // namespace

uint64_t DeviceFar::host_bytes() {
  return geometry().host_bytes() + kStagingBytes;
}

Outcome<std::unique_ptr<DeviceFar>> DeviceFar::make(Group& group,
                                                    std::unique_ptr<ProxyDevice> device,
                                                    MutableBytes host, ProxyOptions options) {
  ASSERT(host.size() >= host_bytes());
  TRY_ASSIGN(auto mail, GroupMail::make(group));
  options.staging = host.subspan(geometry().host_bytes(), kStagingBytes);
  return std::unique_ptr<DeviceFar>(new DeviceFar(*group.waits().clock, std::move(mail),
                                                  std::move(device), geometry(),
                                                  host.first(geometry().host_bytes()), options));
}

DeviceFar::DeviceFar(const engine::Clock& clock, std::unique_ptr<GroupMail> mail,
                     std::unique_ptr<ProxyDevice> device, AskedGeometry geometry, MutableBytes host,
                     const ProxyOptions& options)
    : clock_(clock),
      trouble_(options.trouble),
      device_(std::move(device)),
      mail_(std::move(mail)),
      queue_(host, geometry, options.pes),
      proxy_(options, queue_, *device_, *mail_) {}

DeviceFar::~DeviceFar() {
  is_stopping_.store(true, std::memory_order_release);
  if (thread_.joinable()) thread_.join();
}

Outcome<void> DeviceFar::start() {
  const std::lock_guard lock(mutex_);
  auto thread = start_thread("the thread for far GPUs", [this] { run(); });
  has_ended_ = !thread;
  TRY(thread);
  thread_ = std::move(*thread);
  return {};
}

void DeviceFar::set_adopted(const std::map<uint64_t, uint64_t>& adopted) {
  std::unique_lock lock(mutex_);
  if (has_ended_) return proxy_.set_adopted(adopted);
  adopted_ = adopted;
  is_handing_.store(true, std::memory_order_relaxed);
  taken_.wait(lock, [&] { return !is_handing_.load(std::memory_order_relaxed) || has_ended_; });
}

// Between turns, each of which waits for its copies. Changes that kernels have still to make may be
// in what is taken away; those that come later are not, so that no flood of them is waited for.
void DeviceFar::take_adopted() {
  if (!is_handing_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  if (adopted_) {
    proxy_.set_adopted(*adopted_);
    adopted_.reset();
    changes_before_ = proxy_.changes();
  }
  if (!proxy_.have_made(changes_before_)) return;
  is_handing_.store(false, std::memory_order_relaxed);
  taken_.notify_all();
}

void DeviceFar::run() {
  work();
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
  taken_.notify_all();
}

// Polls as long as there is something to do, then sleeps, longer and longer: neither GPUs nor puts
// of other PEs can wake it.
void DeviceFar::work() {
  ::prctl(PR_SET_TIMERSLACK, 1000);
  engine::Time worked_at = clock_.now();
  engine::Time stop_at = engine::kNever;
  while (true) {
    take_adopted();
    const Result<bool> worked = proxy_.turn();
    if (!worked) {
      log::error("far GPUs are reached no more: {}", worked.error().name());
      __atomic_store_n(trouble_, 1, __ATOMIC_RELEASE);
      return;
    }
    const engine::Time now = clock_.now();
    if (is_stopping_.load(std::memory_order_acquire)) {
      if (stop_at == engine::kNever) stop_at = now + limits::kFarClose;
      if (!proxy_.is_owing() || now >= stop_at) return;
    }
    if (*worked) {
      worked_at = now;
    } else if (now - worked_at >= limits::kFarProxySpin) {
      std::this_thread::sleep_for(
          std::clamp<engine::Duration>((now - worked_at) / limits::kFarProxySleepPart,
                                       limits::kFarProxySleepMin, limits::kFarProxySleepMax));
    }
  }
}

}  // namespace penstock::symm
