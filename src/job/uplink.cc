#include "uplink.h"

#include <sys/epoll.h>

#include "penstock/job/limits.h"

namespace penstock::job {
namespace {

// Answers, with a share and a turn of each rank.
constexpr Accepts kFromAbove{limits::kMeetingBytesMax + limits::kRanksMax * 24 + 64, 0};

}  // namespace

Uplink::Uplink(Loop& loop, UniqueFd socket, const Above& above)
    : loop_(loop),
      size_(above.hello.size),
      name_(above.name),
      connection_(std::make_unique<Connection>(std::move(socket), kFromAbove)) {
  auto hello = std::make_shared<Content>();
  hello->bytes = encode(above.hello);
  connection_->queue({.kind = Kind::room, .rank = kAllRanks}, std::move(hello));
}

Uplink::~Uplink() {
  loop_.forget(token_);
}

Status Uplink::begin(Room* room) {
  room_ = room;
  TRY_ASSIGN(token_, loop_.watch(connection_->fd(), EPOLLIN, [this](uint32_t events) {
    if ((events & EPOLLOUT) != 0) flush();
    if ((events & ~EPOLLOUT) != 0) read();
  }));
  flush();
  return {};
}

void Uplink::joined(uint32_t rank) {
  send({.kind = Kind::joined, .rank = rank}, {});
}

void Uplink::bring(const Turn& turn, std::vector<std::byte> body) {
  if (!connection_) {
    return room_->fail(turn, {Code::peer_gone, "ranks of other nodes are cut off"});
  }
  send({.kind = Kind::bring, .rank = turn.rank, .serial = turn.serial}, std::move(body));
}

void Uplink::withdraw(const Turn& turn) {
  send({.kind = Kind::withdraw, .rank = turn.rank, .serial = turn.serial}, {});
}

void Uplink::ended(const EndedBody& ended) {
  send({.kind = Kind::ended, .rank = kAllRanks}, encode(ended));
}

void Uplink::send(FrameHeader header, std::vector<std::byte> body) {
  if (!connection_) return;
  auto content = std::make_shared<Content>();
  content->bytes = std::move(body);
  const bool idle = !connection_->has_unsent();
  connection_->queue(header, std::move(content));
  if (idle) flush();
}

void Uplink::flush() {
  if (!connection_) return;
  const Status status = connection_->send();
  loop_.change(token_, EPOLLIN | (status.code() == Code::busy ? EPOLLOUT : 0U));
}

void Uplink::read() {
  if (!connection_) return;
  std::vector<Frame> frames;
  const Status status = connection_->receive(&frames);
  for (const Frame& frame : frames) {
    if (!act(frame).ok()) return lose(name_ + " broke the protocol");
  }
  if (!status.ok()) lose(name_ + " has ended, or is not reached");
}

Status Uplink::act(const Frame& frame) {
  const FrameHeader& header = frame.header;
  const bool for_a_rank = header.rank < size_;
  switch (header.kind) {
    case Kind::welcome: {
      auto welcome = decode_welcome(frame.body);
      if (!welcome || welcome->node_of.size() != size_ || welcomed_) return Code::bad_message;
      welcomed_ = true;
      room_->welcome(std::move(welcome->node_of));
      return {};
    }
    case Kind::refused: {
      const auto why = decode_failed(frame.body);
      if (!why) return Code::bad_message;
      for (uint32_t rank = 0; rank < size_; ++rank) {
        if (header.rank == kAllRanks || header.rank == rank) room_->refuse(rank, *why);
      }
      return {};
    }
    case Kind::waiting: {
      const auto who = decode_failed(frame.body);
      if (!who) return Code::bad_message;
      room_->say_who_is_missing(who->text);
      return {};
    }
    case Kind::answer: {
      const auto answer = decode_answer(frame.body, size_);
      if (!answer) return Code::bad_message;
      room_->answer(answer->turns, answer->brought);
      return {};
    }
    case Kind::failed: {
      const auto why = decode_failed(frame.body);
      if (!why || !for_a_rank) return Code::bad_message;
      room_->fail({header.rank, header.serial}, *why);
      return {};
    }
    case Kind::ended: {
      const auto ended = decode_ended(frame.body, size_);
      if (!ended) return Code::bad_message;
      room_->hear(*ended);
      return {};
    }
    default:
      return {};  // of a later version
  }
}

void Uplink::lose(const std::string& why) {
  loop_.forget(token_);
  token_ = 0;
  connection_.reset();
  room_->cut_off(why);
}

}  // namespace penstock::job
