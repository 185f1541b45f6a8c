#include "part_hostile.h"

#include "task.h"

#include <cstdio>
#include <sys/socket.h>
#include <unistd.h>

#include "penstock/job.h"

namespace penstock::job {
namespace {

bool read_all(int fd, MutableBytes to) {
  while (!to.empty()) {
    const ssize_t got = ::read(fd, to.data(), to.size());
    if (got <= 0) return false;
    to = to.subspan(static_cast<size_t>(got));
  }
  return true;
}

bool read_frame(int fd, Frame* frame) {
  if (!read_all(fd, std::as_writable_bytes(std::span(&frame->header, 1)))) return false;
  frame->body.resize(frame->header.body_bytes);
  return read_all(fd, frame->body);
}

void send_bytes(int fd, Bytes bytes) {
  (void)!::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

void send_one(int fd, Kind kind, Bytes body = {}, uint64_t serial = 0) {
  const FrameHeader header{
      .body_bytes = static_cast<uint32_t>(body.size()), .kind = kind, .serial = serial};
  send_bytes(fd, std::as_bytes(std::span(&header, 1)));
  send_bytes(fd, body);
}

}  // namespace

int pose_as_part(const std::string& how) {
  Frame frame;
  if (!read_frame(STDIN_FILENO, &frame)) return 2;
  const auto task = decode_task(frame.body);
  if (!task) return 2;
  const auto connect = [&] {
    auto socket = connect_to(task->addresses, task->port,
                             std::chrono::steady_clock::now() + std::chrono::seconds(10), "it");
    return socket ? std::move(*socket) : UniqueFd();
  };
  Hello hello{task->node, task->size, task->secret};
  if (how == "wrong-secret") hello.secret[0] ^= std::byte{1};
  if (how == "no-such-host") hello.rank = 7;
  const UniqueFd control = connect();
  send_one(control.get(), Kind::part, encode(hello));
  const UniqueFd room = connect();
  ::usleep(200'000);  // so that it was taken for a part
  if (how == "garbage") send_bytes(control.get(), std::vector<std::byte>(100, std::byte{'x'}));
  if (how == "early-done") send_one(control.get(), Kind::done);
  if (how == "input-word") send_one(control.get(), Kind::took, encode_number(3));
  if (how == "other-stream") send_one(control.get(), Kind::output, encode_number(3), 9);
  if (how == "too-long") {
    const FrameHeader header{.body_bytes = 1U << 30, .kind = Kind::output, .serial = 1};
    send_bytes(control.get(), std::as_bytes(std::span(&header, 1)));
  }
  if (how == "others-end") {
    send_one(room.get(), Kind::room, encode(hello));
    send_one(control.get(), Kind::ready);
    while (read_frame(control.get(), &frame) && frame.header.kind != Kind::start) {
    }
    send_one(control.get(), Kind::ended, encode(EndedBody{{{0, How::exited, 5, "a lie"}}, {}}));
  }
  // Until the launcher has closed it.
  while (read_frame(control.get(), &frame)) {
  }
  return 3;
}

}  // namespace penstock::job
