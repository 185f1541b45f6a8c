// A session spoken by hand: what a hostile application may send.
#pragma once

#include <chrono>
#include <cstring>
#include <gtest/gtest.h>
#include <poll.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "penstock/agent.h"
#include "penstock/ring.h"
#include "penstock/testing.h"
#include "penstock/wire.h"

namespace penstock::agent {

using test::ScratchDirectory;
using test::SharedMemory;

class RawSession {
 public:
  explicit RawSession(UniqueFd socket, bool greet = true) : socket_(std::move(socket)) {
    if (!greet) return;
    EXPECT_EQ(ask(wire::Hello{}).status, Code::ok);
  }

  int socket() const { return socket_.get(); }
  void hang_up() { socket_.reset(); }

  bool send_bytes(Bytes bytes, const std::vector<int>& fds = {}) {
    iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    if (!fds.empty()) {
      header.msg_control = control;
      header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* part = CMSG_FIRSTHDR(&header);
      part->cmsg_level = SOL_SOCKET;
      part->cmsg_type = SCM_RIGHTS;
      part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
    }
    return ::sendmsg(socket_.get(), &header, MSG_NOSIGNAL) >= 0;
  }
  bool send(wire::RequestBody body, const std::vector<int>& fds = {}) {
    const Result<std::string> bytes = wire::encode(wire::Request{++last_id_, std::move(body)});
    return bytes && send_bytes(std::as_bytes(std::span(*bytes)), fds);
  }
  // peer_gone when the agent ended the session. A descriptor that comes along is `given` then.
  wire::Reply receive() {
    std::vector<std::byte> buffer(wire::kSessionMessageMax);
    pollfd ready{socket_.get(), POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(patience.count())) != 1)
      return {0, Code::timed_out, "no reply", {}};
    iovec data{buffer.data(), buffer.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t length = ::recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC);
    if (length <= 0) return {0, Code::peer_gone, "", {}};
    given.reset();
    if (const cmsghdr* part = CMSG_FIRSTHDR(&header)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
      given.reset(fd);
    }
    Result<wire::Reply> reply =
        wire::decode_reply(Bytes(buffer.data(), static_cast<size_t>(length)));
    return reply ? std::move(*reply) : wire::Reply{0, reply.error(), "", {}};
  }
  wire::Reply ask(wire::RequestBody body, const std::vector<int>& fds = {}) {
    if (!send(std::move(body), fds)) return {0, Code::peer_gone, "", {}};
    return receive();
  }
  bool is_ended() {
    wire::Reply reply = receive();
    while (reply.status != Code::peer_gone && reply.status != Code::timed_out) reply = receive();
    return reply.status == Code::peer_gone;
  }

  UniqueFd given;
  std::chrono::milliseconds patience{10'000};  // with the agent

 private:
  UniqueFd socket_;
  uint64_t last_id_ = 0;
};

// A ring that this side writes as it likes.
class RawRing {
 public:
  RawRing(RawSession& session, uint32_t id, uint32_t entries = 8, uint32_t lanes = 1)
      : memory_(align_up(ring::Geometry{entries, lanes}.total_bytes(), 4096), F_SEAL_SHRINK),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    layout = ring::Memory::format(memory_.bytes(), {entries, lanes});
    lane = ring::AppLane(layout, 0);
    lane.announce();
    created = session.ask(wire::CreateRing{id, memory_.size()}, {memory_.fd(), wake_.get()});
  }

  void submit(const ring::Submission& entry) {
    lane.push(entry);
    if (lane.publish()) ::eventfd_write(wake_.get(), 1);
  }
  void wake_agent() { ::eventfd_write(wake_.get(), 1); }
  // The result of the next completion, or -ETIME.
  int64_t next() {
    const std::atomic<bool> stop{false};
    const uint64_t deadline =
        static_cast<uint64_t>(engine::system_clock().now().time_since_epoch().count()) +
        static_cast<uint64_t>(std::chrono::nanoseconds(patience).count());
    while (lane.ready() == 0) {
      if (!lane.sleep(1, deadline, stop)) return -ETIME;
    }
    EXPECT_EQ(lane.take(&completion, 1), 1u);
    return completion.result;
  }
  int64_t run(const ring::Submission& entry) {
    submit(entry);
    return next();
  }

  ring::Memory layout;
  ring::AppLane lane;
  ring::Completion completion{};
  wire::Reply created;
  std::chrono::milliseconds patience{10'000};
  const SharedMemory& memory() const { return memory_; }

 private:
  SharedMemory memory_;
  UniqueFd wake_;
};

}  // namespace penstock::agent
