// Foreign messages to both sides of a connection. Each of the other side's acts is two bytes, which
// choose it and what it is about: messages of every kind with numbers that were seen or not, writes
// and reads through keys that were seen, raw bytes, and time. Whatever comes, the sides keep their
// own rules (assertions), every call ends, and nothing is written outside of what is exposed.
#include "fuzz.h"
#include "tests/raw_peer.h"

#include <cstdlib>

namespace penstock::fuzz {
namespace {

using namespace verbs;
using engine::Access;
using engine::CallOp;
using engine::IncomingCall;
using engine::Op;
using engine::TransferOp;

void check(bool holds) {
  if (!holds) std::abort();
}

// Moves bytes through what the peer exposed, and answers.
class Mover final : public engine::Service {
 public:
  void on_call(IncomingCall& call) override {
    if (call.exposure_count == 0 || call.exposure_length(0) > 4096) {
      return call.reply(Code::ok, call.request);
    }
    auto* const move = new Move;
    move->bytes.resize(call.exposure_length(0));
    move->call = &call;
    move->local = {move->bytes.data(), move->bytes.size(), engine::kNoBuffer, {}};
    move->completion = [](Op& op) {
      const std::unique_ptr<Move> done(static_cast<Move*>(&op));
      done->call->reply(done->status, {});
    };
    if (call.exposure_access(0) == Access::place) {
      call.place(*move);
    } else {
      call.fetch(*move);
    }
  }

 private:
  struct Move final : TransferOp {
    std::vector<std::byte> bytes;
  };
};

// One call of the honest side, made again whenever it has ended.
struct Caller {
  explicit Caller(Nodes& owner) : nodes(owner), memory(4 * kPart, std::byte{1}) {
    op.owner = this;
    op.completion = [](Op& done) { done.owner_as<Caller>().busy = false; };
  }
  // Of four parts the second may be written to, and the third read.
  void start() {
    if (busy) return;
    busy = true;
    op.to = kService;
    op.exposures[0] = {{memory.data() + kPart, kPart, engine::kNoBuffer, {}}, Access::place};
    op.exposures[1] = {{memory.data() + 2 * kPart, kPart, engine::kNoBuffer, {}}, Access::fetch};
    op.exposure_count = 2;
    op.deadline = nodes.clock.now() + std::chrono::milliseconds(20);
    nodes.near->call(op);
  }
  static constexpr size_t kPart = 256;
  Nodes& nodes;
  std::vector<std::byte> memory;
  CallOp op;
  bool busy = false;
};

void act(RawPeer& peer, Nodes& nodes, uint8_t what, uint8_t which) {
  Message message;
  Message seen;
  if (!peer.received.empty()) seen = peer.received[which % peer.received.size()];
  const uint64_t number = which < 200 && seen.header.call != 0 ? seen.header.call : which + 1u;
  message.header.taken = static_cast<uint32_t>(which < 250 ? peer.received.size() : which);
  message.header.call = number;
  switch (what % 10) {
    case 0:
      message.header.kind = MessageKind::request;
      message.header.exposures = which % 3;
      for (Span& span : message.spans)
        span = {0x1000, which + 1u, which, which % 2 == 0 ? Access::place : Access::fetch};
      return peer.send(message);
    case 1:
      message.header.kind = MessageKind::response;
      return peer.send(message);
    case 2:
      message.header.kind = MessageKind::abandon;
      return peer.send(message);
    case 3:
      message.header.kind = MessageKind::released;
      return peer.send(message);
    case 4:
      message.header.kind = which % 2 == 0 ? MessageKind::ping : MessageKind::credit;
      message.header.call = 0;
      return peer.send(message);
    case 5:
      if (seen.header.exposures != 0) peer.write(seen.spans[which % seen.header.exposures], which);
      return;
    case 6: {
      const std::array<uint8_t, 40> raw{1, which, which};
      return peer.send(std::as_bytes(std::span(raw)));
    }
    case 7:
      nodes.clock.advance(std::chrono::milliseconds(which));
      return;
    default:
      return peer.turns(which % 32);
  }
}

void play(const uint8_t* data, size_t size) {
  log::set_level(log::Level::off);
  Nodes nodes(data[0]);
  RawPeer peer(nodes);
  Mover service;
  Caller caller(nodes);
  nodes.near->serve({kNear, kService.service}, service);
  if (data[1] % 2 == 0) {
    nodes.to_far.instead = &peer;
  } else {
    check(peer.call_on(*nodes.near).ok());
    nodes.to_far.other = nullptr;
  }
  for (size_t i = 2; i + 1 < size; i += 2) {
    caller.start();
    act(peer, nodes, data[i], data[i + 1]);
    peer.turns(2);
    // Once it has been asked, it is no more: the next attempt is refused.
    if (nodes.near->counts().links_lost != 0) {
      nodes.to_far.instead = nullptr;
      nodes.to_far.other = nullptr;
    }
  }
  for (int i = 0; i < 1000 && caller.busy; ++i) {
    nodes.clock.advance(std::chrono::milliseconds(10));
    peer.turns(4);
  }
  check(!caller.busy);
  for (size_t part : {0u, 2u, 3u}) {
    for (size_t i = 0; i < Caller::kPart; ++i) {
      check(caller.memory[part * Caller::kPart + i] == std::byte{1});
    }
  }
  nodes.near->withdraw({kNear, kService.service});
  for (int i = 0; i < 100; ++i) peer.turns(4);
  nodes.close();
}

}  // namespace

std::vector<std::string> seeds() {
  using Text = std::string;
  return {
      Text({0, 0, 8, 20, 5, 0, 1, 0, 8, 20, 5, 0, 8, 20}),   // a write, its response, a late write
      Text({1, 0, 8, 20, 7, 30, 8, 20, 3, 0, 8, 20, 1, 0}),  // late: released, then answered
      Text({2, 1, 0, 0, 8, 20, 0, 1, 8, 20, 2, 1, 8, 20}),   // calls on the honest side
      Text({3, 1, 0, 2, 8, 9, 2, 2, 4, 0, 8, 20, 6, 1, 8, 8})};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size >= 2 && size <= 400) penstock::fuzz::play(data, size);
  return 0;
}
