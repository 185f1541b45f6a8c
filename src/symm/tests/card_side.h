// A PE with its card of a simulated fabric.
#pragma once

#include "far_model.h"

#include "penstock/testing_verbs.h"

namespace penstock::symm::test {

using penstock::test::SimDevice;
using penstock::test::SimFabric;

inline constexpr uint64_t kOwnBytes = 40'000;
inline constexpr uint64_t kPartBytes = 16 << 10;

class HandClock final : public engine::Clock {
 public:
  engine::Time now() const override { return now_; }
  engine::WallTime wall() const override { return {}; }
  void pass(engine::Duration time) { now_ += time; }

 private:
  engine::Time now_{std::chrono::hours(1)};
};

struct Limits {
  uint64_t pinned_bytes = UINT64_MAX;
  bool joins = true;
};

// A PE with its card.
struct CardSide : FarSide {
  CardSide(SimFabric& fabric, const engine::Clock& clock, const Limits& bounds = {})
      : FarSide(kOwnBytes) {
    auto made = std::make_unique<SimDevice>(fabric);
    device = made.get();
    if (!bounds.joins) device->on_connect = [] { return Status(Code::io_error); };
    auto opened = FarCard::open({.provider = std::move(made),
                                 .segments = {MutableBytes(heap), MutableBytes(data)},
                                 .pinned_bytes_max = bounds.pinned_bytes,
                                 .clock = &clock,
                                 .part_bytes = kPartBytes});
    EXPECT_TRUE(opened);
    card = std::move(*opened);
    made_pair = std::make_unique<FarPair>(*card, stream, 0);
    pair = made_pair.get();
  }
  ~CardSide() { end(Code::closed); }

  // As FarTcp does it.
  void end(Status status) {
    stream.end(status);
    pair->end(status);
  }
  Status turn() {
    card->poll();
    (void)card->take_touched();
    TRY(pair->take_in());
    pair->pump();
    return pair->is_broken() ? pair->why() : Status();
  }
  // What of the stream goes by the connection.
  uint64_t unsent() const {
    const uint64_t end = std::min(stream.queued(), pair->moved_at());
    return end > stream.sent() ? end - stream.sent() : 0;
  }
  // Some bytes of it to the other side.
  Status carry(CardSide& to, Wire& wire) {
    const uint64_t bytes = std::min(unsent(), 1 + wire.below(wire.below(3) == 0 ? 60'000 : 200));
    if (bytes == 0) return {};
    iovec out[1];
    EXPECT_EQ(stream.unsent(out, 1), 1u);
    const uint64_t some = std::min<uint64_t>(bytes, out[0].iov_len);
    const auto* const from = static_cast<const std::byte*>(out[0].iov_base);
    const std::vector<std::byte> sent(from, from + some);
    stream.sent(some);
    TRY(Wire::put_in(to, sent));
    return to.pair->hear_all();
  }

  SimDevice* device = nullptr;
  std::unique_ptr<FarCard> card;
  std::unique_ptr<FarPair> made_pair;
};

}  // namespace penstock::symm::test
