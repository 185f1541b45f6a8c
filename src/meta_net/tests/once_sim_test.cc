// Nothing happens twice, over a network that loses, delays and repeats; and nothing is known of
// what was under way when the service began anew.
#include "over_net.h"

#include <gtest/gtest.h>
#include <set>

namespace penstock::meta_net {
namespace {

struct Told {
  int made = 0;
  int taken = 0;  // already there, though they were the first
  int unknown = 0;
  int other = 0;
};

class OnceSim {
 public:
  explicit OnceSim(uint64_t seed) : world_(seed) {
    world_.set_time_limit(std::chrono::hours(2));
    meta_ = meta::open_meta(*kv_, world_.clock());
    host_ = std::make_unique<SimHost>(world_, *meta_);
    host_->network.faults.drop_permille = 80;
    host_->network.faults.duplicate_permille = 150;
    host_->network.faults.delay_max = std::chrono::milliseconds(300);
    remote_ = RemoteMeta::make(host_->asking());
  }
  ~OnceSim() { remote_ = nullptr; }

  // Each thread makes files of its own, replaces them, and takes them away.
  Told run(int threads, int files) {
    Told told;
    std::vector<engine::Thread> running;
    for (int thread = 0; thread < threads; ++thread) {
      running.emplace_back("caller", [&, thread] {
        for (int i = 0; i < files; ++i) {
          use(std::to_string(thread) + "." + std::to_string(i), told);
        }
      });
    }
    for (engine::Thread& thread : running) thread.join();
    return told;
  }
  void restart() {
    host_->stop();
    meta_ = meta::open_meta(*kv_, world_.clock());
    host_->start(*meta_);
  }

  void use(const std::string& name, Told& told) {
    count(remote_->create({}, meta::kRootInode, name, 0644, true), Code::already_exists, told);
    const std::string other = name + "'";
    const Status renamed =
        remote_->rename({}, meta::kRootInode, name, meta::kRootInode, other, {}, nullptr);
    count(renamed.ok() ? Result<int>(0) : Result<int>(renamed), Code::not_found, told);
    const Status removed = remote_->unlink({}, meta::kRootInode, other, nullptr);
    count(removed.ok() ? Result<int>(0) : Result<int>(removed), Code::not_found, told);
  }
  template <class T>
  static void count(const Result<T>& result, Code if_twice, Told& told) {
    if (result) {
      ++told.made;
    } else if (result.error() == if_twice) {
      ++told.taken;
    } else if (result.error() == Code::may_have_happened) {
      ++told.unknown;
    } else {
      ++told.other;
      ADD_FAILURE() << "it ended with " << result.error().name();
    }
  }

  sim::SimWorld world_;
  sim::SimKvImage image_{world_};
  std::unique_ptr<engine::Kv> kv_ = std::make_unique<sim::SimKv>(image_);
  std::unique_ptr<meta::Meta> meta_;
  std::unique_ptr<SimHost> host_;
  std::unique_ptr<RemoteMeta> remote_;
};

TEST(MetaOnceSim, nothing_happens_twice_over_a_bad_network) {
  const sim::SeedRange seeds = sim::seed_range(20);
  uint64_t repeated = 0;
  uint64_t tries = 0;
  uint64_t calls = 0;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    OnceSim sim(seed);
    constexpr int kThreads = 4;
    constexpr int kFiles = 25;
    const Told told = sim.run(kThreads, kFiles);
    EXPECT_EQ(told.made, 3 * kThreads * kFiles);
    EXPECT_EQ(told.taken, 0);
    EXPECT_EQ(told.unknown, 0);
    EXPECT_EQ(told.other, 0);
    EXPECT_EQ(sim.meta_->orphans(SIZE_MAX)->size(), size_t{kThreads * kFiles});
    repeated += sim.host_->service().figures().repeated;
    tries += sim.remote_->figures().tries;
    calls += sim.remote_->figures().calls;
  }
  EXPECT_GT(repeated, 0u) << "no seed has met what this is about";
  EXPECT_GT(tries, calls);
}

TEST(MetaOnceSim, of_what_was_under_way_at_the_end_of_a_service_nothing_is_said) {
  const sim::SeedRange seeds = sim::seed_range(20);
  int unknown = 0;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    OnceSim sim(seed);
    Told told;
    bool is_over = false;
    engine::Thread caller("caller", [&] {
      for (int i = 0; i < 60; ++i) {
        // Each is a name of its own, so that it is never there already, unless it was made twice.
        const std::string name = std::to_string(i);
        sim.count(sim.remote_->create({}, meta::kRootInode, name, 0644, true), Code::already_exists,
                  told);
      }
      is_over = true;
    });
    for (int i = 0; i < 3 && !is_over; ++i) {
      sim.world_.run_for(std::chrono::milliseconds(700 + 100 * i));
      sim.restart();
    }
    caller.join();
    EXPECT_EQ(told.taken, 0);
    EXPECT_EQ(told.other, 0);
    EXPECT_EQ(told.made + told.unknown, 60);
    const uint64_t there = sim.meta_->counts()->inodes - 1;
    EXPECT_GE(there, static_cast<uint64_t>(told.made));
    EXPECT_LE(there, static_cast<uint64_t>(told.made + told.unknown));
    unknown += told.unknown;
  }
  EXPECT_GT(unknown, 0) << "no seed has met what this is about";
}

TEST(MetaOnceSim, a_caller_that_dies_in_the_middle_leaves_nothing_open) {
  const sim::SeedRange seeds = sim::seed_range(20);
  int unknown = 0;
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    OnceSim sim(seed);
    int made = 0;
    std::vector<engine::Thread> callers;
    for (int thread = 0; thread < 3; ++thread) {
      callers.emplace_back("caller", [&, thread] {
        for (int i = 0; i < 20; ++i) {
          const std::string name = std::to_string(thread) + "." + std::to_string(i);
          const auto result = sim.remote_->create({}, meta::kRootInode, name, 0644, true);
          if (result) ++made;
          if (result) continue;
          const Code code = result.error().code();
          EXPECT_TRUE(code == Code::may_have_happened || code == Code::closed);
          if (code == Code::may_have_happened) ++unknown;
        }
      });
    }
    sim.world_.run_for(std::chrono::milliseconds(500 + 50 * seed));
    sim.host_->kill_agent();
    for (engine::Thread& caller : callers) caller.join();
    sim.world_.run_for(std::chrono::seconds(5));
    EXPECT_EQ(sim.host_->service().figures().open, 0u);
    EXPECT_GE(sim.meta_->counts()->inodes, static_cast<uint64_t>(made + 1));
  }
  EXPECT_GT(unknown, 0) << "no seed has met what this is about";
}

}  // namespace
}  // namespace penstock::meta_net
