#include "rank_hostile.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>
#include <unistd.h>

namespace penstock::job {
namespace {

int connection_of_the_job() {
  return std::atoi(std::getenv("PENSTOCK_JOB_FD"));
}

}  // namespace

void send_raw(const std::string& bytes) {
  (void)!::send(connection_of_the_job(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

void send_frame(const FrameHeader& header) {
  send_raw({reinterpret_cast<const char*>(&header), sizeof header});
}

void send_bring(uint32_t rank, const std::vector<uint32_t>& ranks) {
  const auto body = encode_bring("all", ranks, {});
  send_frame({.body_bytes = static_cast<uint32_t>(body.size()),
              .kind = Kind::bring,
              .rank = rank,
              .serial = 1000});
  send_raw({reinterpret_cast<const char*>(body.data()), body.size()});
}

void flood_descriptors() {
  constexpr size_t kAtOnce = 200;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kAtOnce * sizeof(int))> control{};
  char byte = 0;
  for (int turn = 0; turn < 1000; ++turn) {
    iovec part{&byte, 1};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(kAtOnce * sizeof(int));
    for (size_t i = 0; i < kAtOnce; ++i) {
      const int fd = STDOUT_FILENO;
      std::memcpy(CMSG_DATA(rights) + i * sizeof fd, &fd, sizeof fd);
    }
    if (::sendmsg(connection_of_the_job(), &message, MSG_NOSIGNAL) < 0) return;
  }
}

}  // namespace penstock::job
