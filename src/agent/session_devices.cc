// GPU memory that a session shows to other processes of its user.
#include "limits.h"
#include "session.h"

#include <fmt/format.h>

namespace penstock::agent {

Session::Answer Session::on(const wire::PublishDevice& m, ForeignFd fd) {
  if (m.handle.descriptor && !is_named_file(fd.get())) {
    return Failure{Code::invalid_argument, "publish: the descriptor is not one of GPU memory"};
  }
  const Status added = node_.handles.add(publisher(), m.id, {m.handle, std::move(fd)});
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

Session::Answer Session::on(const wire::WithdrawDevice& m) {
  const Status removed = node_.handles.remove(publisher(), m.id);
  if (!removed.ok()) return failure_of("unpublish", removed);
  return wire::ReplyBody{};
}

Session::Answer Session::on(const wire::OpenDevice& m, Given* given) {
  auto found = node_.handles.find(peer_.credentials.uid, m.id);
  if (!found) {
    return Failure{found.error(), found.error() == Code::access_denied
                                      ? "open GPU memory: another user has published this id"
                                      : "open GPU memory: nobody has published this id (or its "
                                        "publisher has ended)"};
  }
  if ((*found)->handle.descriptor) given->fd = (*found)->fd.get();
  given->keeper = *found;
  return wire::ReplyBody{(*found)->handle};
}

}  // namespace penstock::agent
