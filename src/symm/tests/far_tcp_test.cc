// Memory of other nodes as its callers see it: PEs that are threads of one process, over loopback,
// with cards of a simulated fabric and without.
#include "../far_tcp.h"

#include "locked_fabric.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <sys/socket.h>

namespace {

// What the calling thread has sent.
struct Sends {
  uint64_t calls = 0;
  uint64_t bytes = 0;
};
thread_local Sends sends;

}  // namespace

// In the C library's place: all of this program's small sends go by it.
extern "C" ssize_t send(int socket, const void* from, size_t bytes, int flags) {
  const ssize_t sent = ::sendto(socket, from, bytes, flags, nullptr, 0);
  ++sends.calls;
  if (sent > 0) sends.bytes += static_cast<uint64_t>(sent);
  return sent;
}

namespace penstock::symm {
namespace {

using test::LockedDevice;
using test::LockedFabric;

constexpr uint64_t kMemory = uint64_t{2} << 20;

enum class Cards : uint8_t { none, all, one_lacks };

std::string name_of(Cards cards) {
  if (cards == Cards::none) return "without_cards";
  return cards == Cards::all ? "with_cards" : "where_one_lacks_it";
}

// What one of them has.
struct FarPe {
  std::vector<std::byte> memory = std::vector<std::byte>(kMemory);
  std::vector<std::byte> own = std::vector<std::byte>(64 << 10);
  std::atomic<uint32_t> trouble{0};
  LockedDevice* device = nullptr;
  std::unique_ptr<FarTcp> far;
};

class FarPes {
 public:
  FarPes(Cards cards, uint64_t seed, bool needs_card = false) : fabric_(seed) {
    std::vector<FarListener> listeners;
    for (uint32_t pe = 0; pe < kPes; ++pe)
      listeners.push_back(std::move(*listen_for_pes(true, "")));
    std::vector<FarAddress> addresses;
    for (const FarListener& each : listeners) addresses.push_back(each.address);
    const auto has_card = [&](uint32_t pe) {
      return cards == Cards::all || (cards == Cards::one_lacks && pe == 0);
    };
    for (uint32_t pe = 0; pe < kPes; ++pe) {
      FarTcp::Options options;
      options.me = pe;
      options.segments = {MutableBytes(pes_[pe].memory), MutableBytes(pes_[pe].own)};
      options.listener = std::move(listeners[pe]);
      for (uint32_t other = 0; other < kPes; ++other) {
        options.pes.push_back(other == pe ? std::nullopt : std::optional(addresses[other]));
        options.lacks.push_back(has_card(other) ? FarLack::none : FarLack::no_device);
      }
      options.looks = 20;
      options.clock = &engine::system_clock();
      options.trouble = &pes_[pe].trouble;
      options.ended = [] { return std::vector<uint32_t>(); };
      options.takes_part = [](uint32_t) { return true; };
      options.lack = FarLack::no_device;
      options.why_no_card = "none here";
      options.needs_card = needs_card;
      options.pinned_bytes_max = UINT64_MAX;
      if (has_card(pe)) {
        auto device = std::make_unique<LockedDevice>(fabric_);
        pes_[pe].device = device.get();
        options.provider = std::move(device);
      }
      pes_[pe].far = std::move(*FarTcp::start(std::move(options)));
    }
  }
  ~FarPes() {
    // As processes do: at once.
    std::thread other([&] { pes_[1].far.reset(); });
    pes_[0].far.reset();
    other.join();
  }
  FarPe& operator[](uint32_t pe) { return pes_[pe]; }
  FarTcp& far(uint32_t pe) { return *pes_[pe].far; }
  LockedFabric& fabric() { return fabric_; }

  FarWay decided_way(uint32_t from, uint32_t to) {
    FarWay way = far(from).way(to);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!way.is_decided && std::chrono::steady_clock::now() < until) {
      far(from).progress();
      way = far(from).way(to);
    }
    return way;
  }
  // One word each way, which makes the connection.
  void connect() {
    EXPECT_TRUE(far(0).change(1, {Segment::data, 0}, {AtomicOp::add, 8, 1}).ok());
    EXPECT_TRUE(far(0).quiet().ok());
  }

  static constexpr uint32_t kPes = 2;

 private:
  LockedFabric fabric_;
  std::array<FarPe, kPes> pes_;
};

// Requests of one PE to the other, and what its memory must be then.
class Program {
 public:
  Program(FarPes& pes, uint32_t me, uint64_t seed)
      : far_(pes.far(me)), to_(1 - me), own_(pes[me].own), random_(seed), model_(kMemory) {}

  void run(int requests) {
    for (int i = 0; i < requests; ++i) make_one();
    quiet();
  }
  const std::vector<std::byte>& model() const { return model_; }

 private:
  uint64_t below(uint64_t bound) { return random_() % bound; }
  uint64_t some_length() {
    const uint64_t scale[] = {8, 300, 3000, 60'000, 500'000};
    return 1 + below(scale[below(5)]);
  }
  FarPlace place_for(uint64_t bytes) { return {Segment::memory, below(kMemory - bytes + 1)}; }
  auto in_model(FarPlace place) { return model_.begin() + static_cast<ptrdiff_t>(place.offset); }
  MutableBytes memory_for(uint64_t bytes) {
    if (below(2) == 0 && bytes + 64 < own_.size()) return MutableBytes(own_).subspan(64, bytes);
    private_.resize(bytes);
    return private_;
  }
  Bytes fresh(uint64_t bytes) {
    const MutableBytes at = memory_for(bytes);
    const uint64_t begin = below(251);
    for (uint64_t i = 0; i < bytes; ++i) at[i] = static_cast<std::byte>((begin + i * 5) % 251);
    return at;
  }

  void make_one() {
    switch (below(7)) {
      case 0:
      case 1: {
        const uint64_t bytes = some_length();
        const FarPlace to = place_for(bytes);
        const Bytes source = fresh(bytes);
        ASSERT_TRUE(far_.put(to_, to, source).ok());
        std::copy(source.begin(), source.end(), in_model(to));
        return;
      }
      case 2: {
        const uint64_t bytes = some_length();
        const FarPlace from = place_for(bytes);
        const MutableBytes dest = memory_for(bytes);
        FarAnswer answer;
        ASSERT_TRUE(far_.start_get(to_, dest, from, &answer).ok());
        ASSERT_TRUE(far_.finish(&answer).ok());
        EXPECT_TRUE(std::equal(dest.begin(), dest.end(), in_model(from)));
        return;
      }
      case 3: {
        const uint64_t bytes = some_length();
        const FarPlace from = place_for(bytes);
        std::vector<std::byte> dest(bytes);
        ASSERT_TRUE(far_.get_later(to_, dest, from).ok());
        quiet();
        EXPECT_TRUE(std::equal(dest.begin(), dest.end(), in_model(from)));
        return;
      }
      case 4:
        return change();
      case 5: {
        const uint64_t bytes = some_length();
        const FarPlace to = place_for(bytes);
        const FarPlace word = {Segment::memory, below(kMemory / 8) * 8};
        const Bytes source = fresh(bytes);
        ASSERT_TRUE(far_.put_signal(to_, to, source, word, {AtomicOp::set, 8, bytes}).ok());
        std::copy(source.begin(), source.end(), in_model(to));
        std::memcpy(&model_[word.offset], &bytes, sizeof bytes);
        return;
      }
      default:
        return quiet();
    }
  }
  void change() {
    const FarPlace word = {Segment::memory, below(kMemory / 8) * 8};
    uint64_t before = 0;
    std::memcpy(&before, &model_[word.offset], sizeof before);
    FarAnswer answer;
    ASSERT_TRUE(far_.start_change(to_, word, {AtomicOp::add, 8, 11}, &answer).ok());
    if (below(2) == 0) {
      ASSERT_TRUE(far_.finish(&answer).ok());
      EXPECT_EQ(answer.value, before);
    } else {
      // Something large behind what has not been answered.
      const std::vector<std::byte> source(5000, std::byte{7});
      ASSERT_TRUE(far_.put(to_, {Segment::memory, 0}, source).ok());
      ASSERT_TRUE(far_.finish(&answer).ok());
      EXPECT_EQ(answer.value, before);
      before += 11;
      std::memcpy(&model_[word.offset], &before, sizeof before);
      std::copy(source.begin(), source.end(), model_.begin());
      return;
    }
    before += 11;
    std::memcpy(&model_[word.offset], &before, sizeof before);
  }
  void quiet() { ASSERT_TRUE((below(2) == 0 ? far_.quiet() : far_.quiet(to_)).ok()); }

  FarTcp& far_;
  const uint32_t to_;
  std::vector<std::byte>& own_;
  std::mt19937_64 random_;
  std::vector<std::byte> model_;
  std::vector<std::byte> private_;
};

class FarProgramTest : public testing::TestWithParam<Cards> {};

TEST_P(FarProgramTest, does_to_the_others_memory_what_it_asks_for) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    FarPes pes(GetParam(), seed);
    Program of_0(pes, 0, seed * 2);
    Program of_1(pes, 1, seed * 2 + 1);
    std::thread other([&] { of_1.run(250); });
    of_0.run(250);
    other.join();
    EXPECT_TRUE(pes[1].memory == of_0.model());
    EXPECT_TRUE(pes[0].memory == of_1.model());
    const FarWay way = pes.decided_way(0, 1);
    EXPECT_EQ(way.is_rdma, GetParam() == Cards::all) << way.why;
    const bool was_used = pes.fabric().fabric.counts.packets_written != 0;
    EXPECT_EQ(was_used, GetParam() == Cards::all);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, FarProgramTest,
                         testing::Values(Cards::none, Cards::all, Cards::one_lacks),
                         [](const auto& one) { return name_of(one.param); });

TEST(FarQuietTest, asks_with_the_put_where_the_last_time_it_followed_one) {
  FarPes pes(Cards::none, 1);
  pes.connect();
  FarTcp& far = pes.far(0);
  const uint64_t word = 7;
  const auto put = [&] {
    sends = {};
    EXPECT_TRUE(far.put(1, {Segment::memory, 64}, std::as_bytes(std::span(&word, 1))).ok());
    return sends;
  };
  constexpr uint64_t kPut = sizeof(FarFrame) + sizeof word;
  put();
  ASSERT_TRUE(far.quiet().ok());
  for (int i = 0; i < 3; ++i) {
    const Sends with_question = put();
    EXPECT_EQ(with_question.calls, 1U);
    EXPECT_EQ(with_question.bytes, kPut + sizeof(FarFrame));
    ASSERT_TRUE(far.quiet().ok());
    EXPECT_EQ(sends.calls, 1U) << "the quiet had to ask by itself";
  }
  // A program that goes on to wait for something else wants no answers.
  put();
  far.progress();
  const Sends alone = put();
  EXPECT_EQ(alone.calls, 1U);
  EXPECT_EQ(alone.bytes, kPut);
  far.progress();
  EXPECT_EQ(put().bytes, kPut);
  ASSERT_TRUE(far.quiet().ok());
  EXPECT_EQ(sends.calls, 2U);
}

TEST(FarWayTest, says_why_it_is_no_better_one) {
  FarPes pes(Cards::one_lacks, 1);
  EXPECT_EQ(pes.decided_way(0, 1).why, "PE 1: it has no RDMA device that can be used");
  EXPECT_EQ(pes.decided_way(1, 0).why, "none here");
  FarPes refused(Cards::all, 2);
  {
    const std::lock_guard lock(refused.fabric().mutex);
    refused[1].device->device().on_connect = [] { return Status(Code::io_error); };
  }
  refused.connect();
  EXPECT_EQ(refused.decided_way(0, 1).why, "PE 1: its queue pair does not reach the other one");
  EXPECT_EQ(refused.decided_way(1, 0).why, "this PE: its queue pair does not reach the other one");
  EXPECT_TRUE(refused.far(0).quiet().ok());
}

TEST(FarWayTest, is_none_where_a_card_is_required_and_does_not_work) {
  FarPes pes(Cards::all, 3, true);
  {
    const std::lock_guard lock(pes.fabric().mutex);
    pes[1].device->device().on_connect = [] { return Status(Code::io_error); };
  }
  Status status;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (status.ok() && std::chrono::steady_clock::now() < until) {
    status = pes.far(0).change(1, {Segment::data, 0}, {AtomicOp::add, 8, 1});
    if (status.ok()) status = pes.far(0).quiet();
  }
  EXPECT_EQ(status.code(), Code::peer_gone);
}

// The queue pair goes in the middle of large puts and gets, which end; as do all that follow.
class BreakTest : public testing::TestWithParam<bool> {};

TEST_P(BreakTest, ends_large_ones_and_all_that_follow) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    FarPes pes(Cards::all, seed);
    pes.connect();
    ASSERT_TRUE(pes.decided_way(0, 1).is_rdma);
    std::vector<std::byte> bytes(kMemory, std::byte{3});
    std::atomic<bool> has_begun{false};
    std::thread breaker([&] {
      while (!has_begun) std::this_thread::yield();
      const std::lock_guard lock(pes.fabric().mutex);
      if (seed % 3 == 0) {
        pes[1].device->device().lose();
      } else {
        pes.fabric().fabric.faults.breaks = 3000;
      }
    });
    Status status;
    const auto begin = std::chrono::steady_clock::now();
    for (int turn = 0; status.ok(); ++turn) {
      ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
      FarAnswer answer;
      status =
          GetParam() ? pes.far(0).put(1, {}, bytes) : pes.far(0).start_get(1, bytes, {}, &answer);
      if (status.ok()) status = pes.far(0).finish(&answer);
      has_begun = true;
    }
    breaker.join();
    EXPECT_EQ(status.code(), Code::peer_gone);
    EXPECT_EQ(pes.far(0).put(1, {}, bytes).code(), Code::peer_gone);
    EXPECT_EQ(pes.far(0).change(1, {}, {AtomicOp::add, 8, 1}).code(), Code::peer_gone);
    EXPECT_EQ(pes.far(0).broken(), 1u);
    // The other one hears of it.
    while (!pes.far(1).broken() &&
           std::chrono::steady_clock::now() - begin < std::chrono::seconds(60))
      pes.far(1).progress();
    EXPECT_EQ(pes.far(1).broken(), 0u);
    const std::lock_guard lock(pes.fabric().mutex);
    pes.fabric().fabric.faults.breaks = 0;
  }
}

INSTANTIATE_TEST_SUITE_P(All, BreakTest, testing::Bool(), [](const auto& one) {
  return std::string(one.param ? "in_a_put" : "in_a_get");
});

}  // namespace
}  // namespace penstock::symm
