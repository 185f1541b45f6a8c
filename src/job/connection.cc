#include "connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>

namespace penstock::job {
namespace {

constexpr size_t kDescriptorsAtOnce = 253;  // SCM_MAX_FD of the kernel
constexpr size_t kReceiveBytes = 64 * kKiB;
// Frames that one call reads, so that one peer keeps no other waiting for long.
constexpr int kReceivesMax = 16;

}  // namespace

void Connection::queue(FrameHeader header, std::shared_ptr<const Content> content,
                       bool with_descriptors) {
  ASSERT(!content || content->bytes.size() <= UINT32_MAX);
  header.body_bytes = content ? static_cast<uint32_t>(content->bytes.size()) : 0;
  header.descriptors =
      with_descriptors && content ? static_cast<uint32_t>(content->descriptors.size()) : 0;
  unsent_.push_back({header, std::move(content), 0, 0});
}

size_t Connection::unsent_bytes() const {
  size_t bytes = 0;
  for (const Unsent& frame : unsent_) bytes += sizeof frame.header + frame.header.body_bytes;
  return bytes;
}

Status Connection::send() {
  while (!unsent_.empty()) {
    Unsent& frame = unsent_.front();
    TRY(send_part(frame));
    if (frame.sent == sizeof frame.header + frame.header.body_bytes) {
      ASSERT(frame.descriptors_sent == frame.header.descriptors);
      unsent_.pop_front();
    }
  }
  return {};
}

Status Connection::send_part(Unsent& frame) {
  std::array<iovec, 2> parts{};
  const size_t head = std::min(frame.sent, sizeof frame.header);
  parts[0] = {reinterpret_cast<std::byte*>(&frame.header) + head, sizeof frame.header - head};
  const size_t body = frame.sent - head;
  if (frame.header.body_bytes > 0) {
    // Never written through.
    parts[1] = {const_cast<std::byte*>(frame.content->bytes.data()) + body,
                frame.header.body_bytes - body};
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kDescriptorsAtOnce * sizeof(int))> control{};
  const size_t waiting = frame.header.descriptors - frame.descriptors_sent;
  const size_t now = std::min(waiting, kDescriptorsAtOnce);
  if (now > 0) {
    // Each batch goes with a byte, the last one with all the rest.
    if (waiting > now) {
      auto& part = parts[0].iov_len > 0 ? parts[0] : parts[1];
      part.iov_len = 1;
      if (&part == parts.data()) parts[1].iov_len = 0;
    }
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(now * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(now * sizeof(int));
    for (size_t i = 0; i < now; ++i) {
      const int fd = frame.content->descriptors[frame.descriptors_sent + i].get();
      std::memcpy(CMSG_DATA(rights) + i * sizeof fd, &fd, sizeof fd);
    }
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0 && errno == EAGAIN) return Code::busy;
  if (sent < 0 && (errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM)) {
    return Code::conflict;
  }
  if (sent < 0) return {Code::peer_gone, static_cast<uint32_t>(errno)};
  ASSERT(sent > 0);
  frame.sent += static_cast<size_t>(sent);
  frame.descriptors_sent += now;
  ASSERT(frame.sent <= sizeof frame.header + frame.header.body_bytes);
  return {};
}

Status Connection::receive(std::vector<Frame>* frames) {
  std::array<std::byte, kReceiveBytes> buffer;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kDescriptorsAtOnce * sizeof(int))> control;
  for (int turn = 0; turn < kReceivesMax; ++turn) {
    // After descriptors were lost those of the next frame must not be taken for this one's.
    iovec part{buffer.data(), lost_ ? std::min(buffer.size(), bytes_wanted()) : buffer.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return {};
    if (got < 0) return {Code::peer_gone, static_cast<uint32_t>(errno)};
    for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
      if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
      for (size_t from = CMSG_LEN(0); from + sizeof(int) <= at->cmsg_len; from += sizeof(int)) {
        int fd = -1;
        std::memcpy(&fd, reinterpret_cast<const std::byte*>(at) + from, sizeof fd);
        descriptors_.emplace_back(fd);
      }
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0) lost_ = true;
    if (got == 0) return Code::peer_gone;
    if (descriptors_.size() > accepts_.descriptors) return Code::bad_message;
    TRY(take(Bytes(buffer).first(static_cast<size_t>(got)), frames));
  }
  return {};
}

size_t Connection::bytes_wanted() const {
  if (header_bytes_ < sizeof coming_.header) return sizeof coming_.header - header_bytes_;
  return coming_.header.body_bytes - coming_.body.size();
}

Status Connection::take(Bytes bytes, std::vector<Frame>* frames) {
  while (!bytes.empty()) {
    FrameHeader& header = coming_.header;
    if (header_bytes_ < sizeof header) {
      const size_t part = std::min(bytes.size(), sizeof header - header_bytes_);
      std::memcpy(reinterpret_cast<std::byte*>(&header) + header_bytes_, bytes.data(), part);
      header_bytes_ += part;
      bytes = bytes.subspan(part);
      if (header_bytes_ < sizeof header) return {};
      if (header.body_bytes > accepts_.body_bytes || header.descriptors > accepts_.descriptors ||
          header.reserved != 0) {
        return Code::bad_message;
      }
      coming_.body.clear();
    } else {
      // Grows with what comes, not with what a header promises.
      const size_t part = std::min(bytes.size(), header.body_bytes - coming_.body.size());
      coming_.body.insert(coming_.body.end(), bytes.begin(),
                          bytes.begin() + static_cast<ptrdiff_t>(part));
      bytes = bytes.subspan(part);
    }
    if (coming_.body.size() == header.body_bytes) TRY(finish_frame(frames));
  }
  return {};
}

Status Connection::finish_frame(std::vector<Frame>* frames) {
  ASSERT(header_bytes_ == sizeof coming_.header &&
         coming_.body.size() == coming_.header.body_bytes);
  const size_t wanted = coming_.header.descriptors;
  if (descriptors_.size() < wanted && !lost_) return Code::bad_message;
  coming_.descriptors_lost = descriptors_.size() < wanted;
  if (coming_.descriptors_lost) lost_ = false;
  for (size_t i = 0; i < wanted && !descriptors_.empty(); ++i) {
    coming_.descriptors.push_back(std::move(descriptors_.front()));
    descriptors_.pop_front();
  }
  frames->push_back(std::move(coming_));
  coming_ = Frame{};
  header_bytes_ = 0;
  return {};
}

}  // namespace penstock::job
