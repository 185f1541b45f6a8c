#include "penstock/front/sessions.h"

#include <cerrno>
#include <cstring>
#include <memory>

namespace penstock::front {

Sessions::~Sessions() {
  for (uint32_t i = 0; i < count_; ++i) {
    const std::unique_ptr<Session> session(sessions_[i].load(std::memory_order_relaxed));
    penstock_close(session->handle);
  }
}

Result<Session*, int> Sessions::of_mount(const std::string& mount) {
  const auto numbers = mount_numbers(mount);
  if (!numbers) {
    log::warning("{}: {}: {}", front_, mount, std::string_view(::strerror(numbers.error())));
    return Unexpected(int{numbers.error()});
  }
  return find_or_connect(*numbers, mount);
}

Result<Session*, int> Sessions::of_mount(const MountNumbers& mount) {
  return find_or_connect(mount, {});
}

bool Sessions::knows(const MountNumbers& mount) {
  const std::lock_guard lock(mutex_);
  return find_known(mount) != nullptr;
}

Session* Sessions::find_known(const MountNumbers& mount) {
  if (mount.unique == 0) return nullptr;
  return find_with([&](const Session& session) { return session.mount_number == mount.unique; });
}

Session* Sessions::find_with(const std::function<bool(const Session&)>& is_it) {
  for (uint32_t i = 0; i < count_; ++i) {
    Session* const session = sessions_[i].load(std::memory_order_relaxed);
    if (is_it(*session)) return session;
  }
  return nullptr;
}

Result<Session*, int> Sessions::find_or_connect(const MountNumbers& mount,
                                                const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (Session* const known = find_known(mount)) return known;
  const std::vector<MountEntry> mounts = read_mounts();
  const MountEntry* entry = mount_of_device(mounts, mount.device);
  if (entry == nullptr || !is_our_type(entry->type)) {
    log::warning("{}: {}: not in a Penstock mount (see 'penstock status')", front_,
                 path.empty() ? "descriptor" : path);
    return Unexpected(int{ENOENT});
  }
  // An agent that came back has mounted anew: its rings, files and memory are those of before.
  Session* const same =
      find_with([&](const Session& session) { return session.source == entry->source; });
  if (same != nullptr) {
    same->device = mount.device;
    same->mount_number = mount.unique;
    return same;
  }
  if (count_ == limits::kSessionsMax) return Unexpected(int{EMFILE});
  auto session = std::make_unique<Session>();
  session->source = entry->source;
  session->device = mount.device;
  session->mount_number = mount.unique;
  session->index = static_cast<uint16_t>(count_);
  const std::string& where = path.empty() ? entry->point : path;
  const int result = penstock_connect(where.c_str(), &session->handle);
  if (result < 0) {
    log::warning("{}: {}", front_, penstock_last_error());
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

}  // namespace penstock::front
