#include "session.h"

#include "mount_table.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <sys/stat.h>

namespace penstock::usrbio {

Result<Session*, int> Sessions::of_mount(const std::string& mount) {
  struct stat status {};
  if (::stat(mount.c_str(), &status) != 0) {
    const int error = errno;
    log::warning("usrbio: {}: {}", mount, std::string_view(::strerror(error)));
    return Unexpected(int{error});
  }
  return find_or_connect(status.st_dev, mount);
}

Result<Session*, int> Sessions::of_device(dev_t device) {
  return find_or_connect(device, {});
}

bool Sessions::knows(dev_t device) {
  const std::lock_guard lock(mutex_);
  return find_with([&](const Session& session) { return session.device == device; }) != nullptr;
}

Session* Sessions::find_with(const std::function<bool(const Session&)>& is_it) {
  for (uint32_t i = 0; i < count_; ++i) {
    Session* const session = sessions_[i].load(std::memory_order_relaxed);
    if (is_it(*session)) return session;
  }
  return nullptr;
}

Result<Session*, int> Sessions::find_or_connect(dev_t device, const std::string& mount) {
  const std::lock_guard lock(mutex_);
  Session* const known =
      find_with([&](const Session& session) { return session.device == device; });
  if (known != nullptr) return known;
  const std::vector<MountEntry> mounts = read_mounts();
  const MountEntry* entry = mount_of_device(mounts, device);
  if (entry == nullptr || !is_our_type(entry->type)) {
    log::warning("usrbio: {}: not in a Penstock mount (see 'penstock status')",
                 mount.empty() ? "descriptor" : mount);
    return Unexpected(int{ENOENT});
  }
  // An agent that came back has mounted anew: its rings, files and memory are those of before.
  Session* const same =
      find_with([&](const Session& session) { return session.source == entry->source; });
  if (same != nullptr) {
    same->device = device;
    return same;
  }
  if (count_ == kSessionsMax) return Unexpected(int{EMFILE});
  auto session = std::make_unique<Session>();
  session->source = entry->source;
  session->device = device;
  session->index = static_cast<uint16_t>(count_);
  const std::string& where = mount.empty() ? entry->point : mount;
  const int result = penstock_connect(where.c_str(), &session->handle);
  if (result < 0) {
    log::warning("usrbio: {}", penstock_last_error());
    return Unexpected(int{-result});
  }
  sessions_[count_].store(session.get(), std::memory_order_release);
  ++count_;
  return session.release();
}

void Sessions::forget_all() {
  for (uint32_t i = 0; i < count_; ++i) sessions_[i].store(nullptr, std::memory_order_relaxed);
  count_ = 0;
}

}  // namespace penstock::usrbio
