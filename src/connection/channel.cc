#include "channel.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "penstock/connection/limits.h"

namespace penstock::connection {

Outcome<UniqueFd> connect_to(const std::string& path) {
  // Addresses hold 107 bytes: a longer path is reached through its directory's descriptor.
  UniqueFd directory;
  std::string name = path;
  if (name.size() >= sizeof(sockaddr_un::sun_path)) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return Failure{Code::name_too_long, path + ": too long a name"};
    directory.reset(::open(path.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    name = fmt::format("/proc/self/fd/{}{}", directory.get(), path.substr(slash));
    if (name.size() >= sizeof(sockaddr_un::sun_path)) {
      return Failure{Code::name_too_long, path + ": too long a name"};
    }
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.c_str(), name.size() + 1);
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (socket &&
      ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    return socket;
  }
  const int error = errno;
  if (error == ECONNREFUSED || error == ENOENT) {
    return Failure{Code::peer_gone, fmt::format("connect: {}: no agent is running there", path)};
  }
  return Failure{Status::from_errno(error),
                 fmt::format("connect: {}: {}", path, std::strerror(error))};
}

void bound_sends(int socket) {
  const timeval limit{limits::kSendTimeoutSeconds, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

Status send_request(int socket, const wire::Request& request, const std::vector<int>& descriptors) {
  Result<std::string> bytes = wire::encode(request);
  if (!bytes) return bytes.error();
  ASSERT(descriptors.size() <= wire::kSessionDescriptorsMax);
  iovec data{bytes->data(), bytes->size()};
  alignas(cmsghdr) char control[CMSG_SPACE(wire::kSessionDescriptorsMax * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size() * sizeof(int));
  }
  while (::sendmsg(socket, &header, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return Code::timed_out;
    return errno == EBADF ? Code::bad_handle : Code::peer_gone;
  }
  return Code::ok;
}

Result<wire::Reply> receive_reply(int socket, int flags, UniqueFd* given) {
  thread_local const auto buffer = std::make_unique<std::byte[]>(wire::kSessionMessageMax);
  iovec data{buffer.get(), wire::kSessionMessageMax};
  alignas(cmsghdr) char control[CMSG_SPACE(wire::kReplyDescriptorsMax * sizeof(int))];
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t length = -1;
  do {
    length = ::recvmsg(socket, &header, flags | MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  if (length < 0 && errno == EAGAIN) return Code::busy;
  UniqueFd descriptor;
  const cmsghdr* part = length >= 0 ? CMSG_FIRSTHDR(&header) : nullptr;
  // The kernel has closed what there was no room for.
  if (part != nullptr && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS &&
      part->cmsg_len >= CMSG_LEN(sizeof(int))) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
    descriptor.reset(fd);
  }
  if (length <= 0) return Code::peer_gone;
  TRY_ASSIGN(wire::Reply reply,
             wire::decode_reply(Bytes(buffer.get(), static_cast<size_t>(length))));
  if (wire::descriptors_of(reply.body) != (descriptor ? 1u : 0u)) return Code::bad_message;
  if (given != nullptr) *given = std::move(descriptor);
  return reply;
}

Result<wire::Agreement> greeting_of(const wire::Reply& reply) {
  ASSERT(reply.status.ok());
  const auto* const welcome = std::get_if<wire::Welcome>(&reply.body);
  if (welcome == nullptr) return Code::bad_message;
  return wire::agreed(wire::kProtocol, welcome->agreement());
}

Result<wire::Reply> exchange(int socket, const wire::Request& request,
                             const std::vector<int>& descriptors, int timeout_ms) {
  TRY(send_request(socket, request, descriptors));
  pollfd ready{socket, POLLIN, 0};
  int count = 0;
  do {
    count = ::poll(&ready, 1, timeout_ms);
  } while (count < 0 && errno == EINTR);
  if (count == 0) return Code::timed_out;
  TRY_ASSIGN(wire::Reply reply, receive_reply(socket, 0, nullptr));
  if (reply.id != request.id) return Code::bad_message;
  return reply;
}

}  // namespace penstock::connection
