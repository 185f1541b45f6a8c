// What a launcher hears of its parts on other nodes.
#include "spread_launching.h"

#include <cerrno>
#include <cstring>
#include <sys/epoll.h>

#include "penstock/job/limits.h"

namespace penstock::job {
namespace {

constexpr Accepts kFromParts{256 * kKiB, 0};
constexpr const char* kBroke = "its part there broke the protocol";

}  // namespace

void SpreadLaunching::take_part(uint32_t node, std::unique_ptr<Connection> control,
                                std::vector<Frame> frames) {
  Node& at = nodes_[node];
  if (at.state != State::reaching) return;
  const auto token = loop_.watch(control->fd(), EPOLLIN, [this, node](uint32_t events) {
    if ((events & EPOLLOUT) != 0) flush(node);
    if ((events & ~EPOLLOUT) != 0) read(node);
  });
  if (!token) return lose(node, "no descriptor is left here (ulimit -n)");
  at.token = *token;
  at.control = std::move(control);
  at.control->accept_from_now_on(kFromParts);
  at.state = State::came;
  reached(node);
  take_all(node, frames, {});
}

void SpreadLaunching::read(uint32_t node) {
  Node& at = nodes_[node];
  if (!at.control) return;
  std::vector<Frame> frames;
  const Status status = at.control->receive(&frames);
  take_all(node, frames, status);
}

void SpreadLaunching::take_all(uint32_t node, const std::vector<Frame>& frames, Status status) {
  for (const Frame& frame : frames) {
    if (!nodes_[node].control) return;
    const Status acted = act(node, frame);
    if (!acted.ok()) return lose(node, kBroke);
  }
  if (status.ok() || !nodes_[node].control) return;
  if (finishing_) return close(node);
  if (status.code() == Code::bad_message) return lose(node, kBroke);
  const auto error = static_cast<int>(status.detail());
  if (error != 0 && error != ECONNRESET && error != EPIPE) {
    return lose(node, fmt::format("it is not reached any more ({})", std::strerror(error)));
  }
  close(node);
  lose_soon(node, kPartHasEnded);
}

Status SpreadLaunching::act(uint32_t node, const Frame& frame) {
  Node& at = nodes_[node];
  switch (frame.header.kind) {
    case Kind::ready:
      if (at.state != State::came) return Code::bad_message;
      at.state = State::ready;
      ++ready_;
      start_if_ready();
      return {};
    case Kind::cannot: {
      auto why = decode_failed(frame.body);
      if (!why) return Code::bad_message;
      give_up({why->code, fmt::format("{}: {}", options_.nodes[node].host, why->text)});
      return {};
    }
    case Kind::output:
      return take_output(node, frame);
    case Kind::took:
    case Kind::closed:
      return node == 0 ? take_input_word(frame) : Status(Code::bad_message);
    case Kind::ended:
      return take_ended(node, frame);
    case Kind::done:
      if (at.state != State::ready || !started_) return Code::bad_message;
      at.state = State::done;
      ++over_;
      return {};
    default:
      return {};  // of a later version
  }
}

Status SpreadLaunching::take_output(uint32_t node, const Frame& frame) {
  const uint64_t serial = frame.header.serial;
  if (serial == 0 || serial >= kStreams) return Code::bad_message;
  const auto stream = static_cast<Stream>(serial);
  size_t& owed = nodes_[node].owed[serial];
  owed += frame.body.size();
  if (owed > kFromParts.body_bytes) return Code::bad_message;
  if (shut_[serial]) return {};
  Sink& sink = sink_of(stream);
  sink.write({reinterpret_cast<const char*>(frame.body.data()), frame.body.size()});
  if (sink.is_broken()) {
    shut(stream);
  } else if (sink.has_room()) {
    send(node, Kind::took, encode_number(static_cast<uint32_t>(std::exchange(owed, 0))), serial);
  }
  return {};
}

void SpreadLaunching::give_back(Stream stream) {
  const auto serial = static_cast<uint64_t>(stream);
  if (sink_of(stream).is_broken()) return shut(stream);
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    size_t& owed = nodes_[node].owed[serial];
    if (owed == 0) continue;
    send(node, Kind::took, encode_number(static_cast<uint32_t>(std::exchange(owed, 0))), serial);
  }
}

// So that ranks hear what they would if they wrote there themselves.
void SpreadLaunching::shut(Stream stream) {
  const auto serial = static_cast<uint64_t>(stream);
  if (std::exchange(shut_[serial], true)) return;
  for (uint32_t node = 0; node < nodes_.size(); ++node) send(node, Kind::closed, {}, serial);
}

Status SpreadLaunching::take_input_word(const Frame& frame) {
  if (frame.header.serial != static_cast<uint64_t>(Stream::input) || !input_) {
    return Code::bad_message;
  }
  if (frame.header.kind == Kind::closed) {
    input_->stop();
    return {};
  }
  const auto bytes = decode_number(frame.body);
  if (!bytes) return Code::bad_message;
  input_->took(*bytes);
  return {};
}

Status SpreadLaunching::take_ended(uint32_t node, const Frame& frame) {
  const auto ended = decode_ended(frame.body, options_.size);
  if (!ended || !started_) return Code::bad_message;
  for (const End& end : ended->ends) {
    const uint32_t first = nodes_[node].first;
    if (end.rank < first || end.rank - first >= options_.nodes[node].ranks) {
      return Code::bad_message;
    }
    ending_.failed(end, ", on " + options_.nodes[node].host);
  }
  return {};
}

}  // namespace penstock::job
