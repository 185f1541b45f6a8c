#include "device_memory.h"

#include <fmt/format.h>

namespace penstock::sessions {

Answer DeviceMemory::publish(const wire::PublishDevice& m, resources::ForeignFd fd) const {
  if (m.handle.descriptor && !resources::is_named_file(fd.get())) {
    return Failure{Code::invalid_argument, "publish: the descriptor is not one of GPU memory"};
  }
  const Status added = context_.node.handles.add(publisher(), m.id, {m.handle, std::move(fd)});
  if (added == Code::already_exists) {
    return Failure{added, "publish: this user has published memory under this id already"};
  }
  if (added == Code::busy) {
    return Failure{added,
                   fmt::format("publish: a session may have {} pieces of GPU memory published, a "
                               "user {}, all together {} (unpublish or release some)",
                               limits::kPublishedPerSessionMax, limits::kPublishedPerUserMax,
                               limits::kPublishedMax)};
  }
  return wire::ReplyBody{};
}

Answer DeviceMemory::withdraw(const wire::WithdrawDevice& m) const {
  const Status removed = context_.node.handles.remove(publisher(), m.id);
  if (!removed.ok()) return failure_of("unpublish", removed);
  return wire::ReplyBody{};
}

Answer DeviceMemory::open(const wire::OpenDevice& m, Given* given) const {
  auto found = context_.node.handles.find(context_.credentials().uid, m.id);
  if (!found) {
    return Failure{found.error(), found.error() == Code::access_denied
                                      ? "open GPU memory: another user has published this id"
                                      : "open GPU memory: no process has published this id (or its "
                                        "publisher has ended)"};
  }
  if ((*found)->handle.descriptor) given->fd = (*found)->fd.get();
  ASSERT(!(*found)->handle.descriptor || given->fd >= 0);
  given->keeper = *found;
  return wire::ReplyBody{(*found)->handle};
}

void DeviceMemory::withdraw_all() const {
  context_.node.handles.remove_all(context_.id);
}

}  // namespace penstock::sessions
