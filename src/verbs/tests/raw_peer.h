// A side of a connection that is played message by message.
#pragma once

#include "nodes.h"

#include <cstring>
#include <vector>

namespace penstock::verbs {

class RawPeer final : public Introducer {
 public:
  explicit RawPeer(Nodes& nodes) : nodes_(nodes), memory_(kBuffers * size_t{kBytes}) {
    id_ = *device_.register_memory(memory_, true);
    pair_ = *device_.create_queue_pair();
    // As many as honest receivers have, and as senders need.
    for (uint32_t i = 0; i < kReceives; ++i) receive(i);
  }
  ~RawPeer() override {
    device_.break_queue_pair(pair_);
    device_.destroy_queue_pair(pair_);
    device_.deregister_memory(id_);
  }

  // As a server: in place of the far node.
  void introduce(Introduction& introduction) override {
    join(introduction.ours);
    introduction.theirs = offer();
    nodes_.loop.complete(introduction, Code::ok);
  }
  // As a caller.
  Status call_on(VerbsNet& net) {
    TRY_ASSIGN(const Offer theirs, net.accept({kFar}, kService.service, offer()));
    join(theirs);
    return Code::ok;
  }

  void send(Bytes bytes) {
    ASSERT(bytes.size() <= kBytes);
    const MutableBytes to = buffer(kReceives + next_++ % kSends);
    std::memcpy(to.data(), bytes.data(), bytes.size());
    (void)device_.post(pair_, {.verb = Verb::send, .local = to.first(bytes.size()), .memory = id_});
  }
  void send(const Message& message) {
    std::array<std::byte, limits::kMessageBytesMax> bytes;
    send(Bytes(bytes).first(encode(message, bytes)));
  }
  void write(const Span& span, uint8_t value) {
    const MutableBytes from = buffer(kReceives + next_++ % kSends).first(16);
    std::memset(from.data(), value, from.size());
    (void)device_.post(pair_, {.verb = Verb::write,
                               .local = from,
                               .memory = id_,
                               .remote_address = span.address,
                               .key = span.key});
  }
  // Turns until nothing happens; messages that came are kept, in a form that lasts.
  void turns(int count = 400) {
    for (; count > 0; --count) {
      nodes_.turn();
      std::array<Completion, 16> completions;
      const size_t got = device_.poll(completions);
      for (size_t i = 0; i < got; ++i) {
        if (!completions[i].is_receive) continue;
        const auto index = static_cast<uint32_t>(completions[i].id);
        if (const auto message = decode(buffer(index).first(completions[i].length))) {
          received.push_back(*message);
          received.back().bytes = {};
        }
        receive(index);
      }
    }
  }

  std::vector<Message> received;
  uint32_t credits = limits::kCredits;  // that it offers

 private:
  static constexpr uint32_t kBytes = 2048;
  static constexpr uint32_t kReceives = 64;
  static constexpr uint32_t kSends = 64;
  static constexpr uint32_t kBuffers = kReceives + kSends;

  Offer offer() const { return {device_.endpoint(pair_), credits}; }
  void join(const Offer& theirs) { (void)device_.connect(pair_, theirs.endpoint); }
  void receive(uint32_t index) {
    (void)device_.post_receive(index, buffer(index).first(limits::kMessageBytesMax), id_);
  }
  MutableBytes buffer(uint32_t index) {
    return MutableBytes(memory_).subspan(size_t{index} * kBytes, kBytes);
  }

  Nodes& nodes_;
  test::SimDevice device_{nodes_.fabric};
  std::vector<std::byte> memory_;
  MemoryId id_;
  QueuePairId pair_;
  uint32_t next_ = 0;
};

}  // namespace penstock::verbs
