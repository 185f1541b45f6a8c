#include "session_socket.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace penstock::session_server {
namespace {

// All supplementary groups of the process that connected, as they were then.
Result<std::vector<uint32_t>> groups_of(int socket) {
  std::vector<uint32_t> groups(64);
  while (true) {
    socklen_t bytes = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    static_assert(sizeof(gid_t) == sizeof(uint32_t));
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes) == 0) {
      groups.resize(bytes / sizeof(gid_t));
      return groups;
    }
    // The kernel says how many there are.
    if (errno != ERANGE || bytes <= groups.size() * sizeof(gid_t)) return Status::from_errno(errno);
    groups.resize(bytes / sizeof(gid_t));
  }
}

std::vector<resources::ForeignFd> take_descriptors(
    msghdr& header, const std::shared_ptr<resources::Account>& sender) {
  std::vector<resources::ForeignFd> descriptors;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      descriptors.emplace_back(fd, sender);
    }
  }
  return descriptors;
}

}  // namespace

Result<sessions::Peer> peer_of(int socket) {
  ucred who{};
  socklen_t length = sizeof who;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) {
    return Status::from_errno(errno);
  }
  sessions::Peer peer;
  peer.pid = who.pid;
  peer.credentials.uid = who.uid;
  peer.credentials.gid = who.gid;
  TRY_ASSIGN(peer.credentials.groups, groups_of(socket));
  return peer;
}

Result<UniqueFd> watch_process(int32_t pid) {
  if (pid <= 0 || pid == ::getpid()) return UniqueFd();
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process && errno == ESRCH) return Code::peer_gone;
  return process;
}

Result<Datagram> receive(int socket, const std::shared_ptr<resources::Account>& sender) {
  // One byte more than a message may have, so that a longer one is seen to be longer.
  thread_local const auto buffer = std::make_unique<std::byte[]>(wire::kSessionMessageMax + 1);
  iovec data{buffer.get(), wire::kSessionMessageMax + 1};
  alignas(cmsghdr) char control[CMSG_SPACE(wire::kSessionDescriptorsMax * sizeof(int))];
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t length = -1;
  do {
    length = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  if (length < 0) return errno == EAGAIN ? Code::busy : Code::peer_gone;
  Datagram datagram;
  datagram.descriptors = take_descriptors(header, sender);
  // An empty datagram looks like the end of the connection, and is nothing we send.
  if (length == 0) return Code::peer_gone;
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return Code::bad_message;
  ASSERT(datagram.descriptors.size() <= wire::kSessionDescriptorsMax);
  datagram.bytes = Bytes(buffer.get(), static_cast<size_t>(length));
  return datagram;
}

Status try_send(int socket, const sessions::ReplyPacket& reply) {
  iovec data{const_cast<char*>(reply.bytes.data()), reply.bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(wire::kReplyDescriptorsMax * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (reply.descriptor >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof reply.descriptor);
    std::memcpy(CMSG_DATA(part), &reply.descriptor, sizeof reply.descriptor);
  }
  while (::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EAGAIN) return Code::busy;
    if (errno != EINTR) return Status::from_errno(errno);
  }
  return Code::ok;
}

}  // namespace penstock::session_server
