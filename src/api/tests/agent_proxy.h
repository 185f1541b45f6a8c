// A socket before an agent's that passes everything on, until it is told to lose an answer.
#pragma once

#include <atomic>
#include <cstring>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <vector>

#include "penstock/wire.h"

namespace penstock::api {

// Serves one session at a time. When it has lost an answer the connection ends, and the next one
// is served as well.
class AgentProxy {
 public:
  AgentProxy(std::string path, std::string agent)
      : path_(std::move(path)), agent_(std::move(agent)) {
    listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const sockaddr_un address = address_of(path_);
    EXPECT_EQ(::bind(listener_.get(), as_sockaddr(address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_.get(), 5), 0);
    thread_ = std::thread([this] { run(); });
  }
  ~AgentProxy() {
    stop_ = true;
    thread_.join();
  }

  // The answer to the next rename, which the agent has made then.
  std::atomic<bool> loses_rename{false};
  // The rename itself, instead, which the agent never hears of.
  std::atomic<bool> loses_request{false};
  // Whoever comes from now on is turned away.
  std::atomic<bool> takes_nobody{false};

 private:
  struct Packet {
    std::vector<std::byte> bytes;
    std::vector<UniqueFd> fds;
  };

  static sockaddr_un address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    return address;
  }
  static const sockaddr* as_sockaddr(const sockaddr_un& address) {
    return reinterpret_cast<const sockaddr*>(&address);
  }

  void run() {
    while (!stop_) {
      pollfd ready{listener_.get(), POLLIN, 0};
      if (::poll(&ready, 1, 20) != 1) continue;
      const UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (takes_nobody) continue;
      const UniqueFd agent(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
      const sockaddr_un address = address_of(agent_);
      if (::connect(agent.get(), as_sockaddr(address), sizeof address) != 0) continue;
      lost_ = 0;
      while (!stop_ && pass(client.get(), agent.get())) {
      }
    }
  }
  // False when the connection is to end.
  bool pass(int client, int agent) {
    pollfd ready[2] = {{client, POLLIN, 0}, {agent, POLLIN, 0}};
    if (::poll(ready, 2, 20) <= 0) return true;
    Packet packet;
    if (ready[0].revents != 0) {
      if (!receive(client, &packet)) return false;
      const Result<wire::Request> request = wire::decode_request(packet.bytes);
      if (request && std::holds_alternative<wire::Rename>(request->body)) {
        if (loses_request.exchange(false)) return false;
        if (loses_rename.exchange(false)) lost_ = request->id;
      }
      if (!send(agent, packet)) return false;
    }
    if (ready[1].revents != 0) {
      if (!receive(agent, &packet)) return false;
      const Result<wire::Reply> reply = wire::decode_reply(packet.bytes);
      if (reply && reply->id == lost_) return false;
      if (!send(client, packet)) return false;
    }
    return true;
  }

  static bool receive(int socket, Packet* packet) {
    packet->bytes.resize(wire::kSessionMessageMax);
    packet->fds.clear();
    iovec data{packet->bytes.data(), packet->bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))];
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t length = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
    if (length <= 0) return false;
    packet->bytes.resize(static_cast<size_t>(length));
    const cmsghdr* const part = CMSG_FIRSTHDR(&header);
    const size_t count = part != nullptr ? (part->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      packet->fds.emplace_back(fd);
    }
    return true;
  }
  static bool send(int socket, const Packet& packet) {
    iovec data{const_cast<std::byte*>(packet.bytes.data()), packet.bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    if (!packet.fds.empty()) {
      header.msg_control = control;
      header.msg_controllen = CMSG_SPACE(packet.fds.size() * sizeof(int));
      cmsghdr* const part = CMSG_FIRSTHDR(&header);
      part->cmsg_level = SOL_SOCKET;
      part->cmsg_type = SCM_RIGHTS;
      part->cmsg_len = CMSG_LEN(packet.fds.size() * sizeof(int));
      for (size_t i = 0; i < packet.fds.size(); ++i) {
        const int fd = packet.fds[i].get();
        std::memcpy(CMSG_DATA(part) + i * sizeof fd, &fd, sizeof fd);
      }
    }
    return ::sendmsg(socket, &header, MSG_NOSIGNAL) >= 0;
  }

  const std::string path_;
  const std::string agent_;
  UniqueFd listener_;
  uint64_t lost_ = 0;  // the request whose answer is to be lost; none has the number 0
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace penstock::api
