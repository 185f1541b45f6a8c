// Agents that read and write behind, over a network that loses, delays and repeats; that are
// stopped, cut off, expelled and begin anew; with a service that dies, and is away for longer than
// leases: nobody is told what is older than what somebody was told, no two have one file, and once
// faults stop all go on. Where only the service fails no session ends.
#include "story_node.h"

#include <gtest/gtest.h>

namespace penstock::holds_net {
namespace {

class Story {
 public:
  explicit Story(uint64_t seed, Mutants mutants = {}) : all_(seed, mutants) {
    all_.add_nodes(2 + world_.random().below(3));
    files_ = 1 + world_.random().below(4);
    is_hard_ = world_.chance(700);
    all_.is_calm = !is_hard_;
    loses_service_ = world_.chance(500);
  }

  uint64_t run() {
    const bool idle = play();
    EXPECT_EQ(all_.first_fault, "") << where();
    EXPECT_TRUE(idle) << where();
    return world_.trace_hash();
  }

  // Whether all went on, once faults had stopped.
  bool play() {
    if (is_hard_ && world_.chance(600)) {
      all_.network.faults.drop_permille = 60;
      all_.network.faults.duplicate_permille = 100;
      all_.network.faults.delay_max = milliseconds(world_.chance(300) ? 400 : 8);
    }
    const uint64_t rounds = 20 + world_.random().below(40);
    for (uint64_t i = 0; i < rounds && all_.first_fault.empty(); ++i) {
      if (is_hard_ && world_.chance(150)) one_fault();
      if (!is_hard_ && loses_service_ && world_.chance(60)) lose_service();
      for (uint64_t n = world_.random().below(8); n > 0; --n) one_operation();
      world_.run_for(milliseconds(world_.random().below(world_.chance(900) ? 120 : 4000)));
    }
    all_.heal();
    for (const auto& node : all_.nodes) node->read(any_file());
    return world_.run_until([this] { return !all_.first_fault.empty() || all_.is_idle(); },
                            seconds(120));
  }
  const std::string& fault() const { return all_.first_fault; }

 private:
  std::string where() {
    std::string text = "(seed " + std::to_string(world_.seed()) + ") " + all_.describe();
    for (const auto& node : all_.nodes) text += "\n" + node->describe();
    return text;
  }
  StoryNode& any_node() { return *all_.nodes[world_.random().below(all_.nodes.size())]; }
  InodeId any_file() { return InodeId(2 + world_.random().below(files_)); }

  void one_operation() {
    StoryNode& node = any_node();
    world_.chance(500) ? node.read(any_file()) : node.write(any_file());
  }

  void lose_service() {
    const int most = world_.chance(500) ? 3000 : 40'000;
    all_.lose_service(milliseconds(world_.random().below(most)));
  }

  void one_fault() {
    StoryNode& node = any_node();
    switch (world_.random().below(9)) {
      case 0:
      case 1:
        return node.stop_for(
            milliseconds(1000 + world_.random().below(world_.chance(500) ? 6000 : 59'000)));
      case 2:
      case 3:
        return all_.cut(node.node());
      case 4:
        return all_.network.heal();
      case 5:
        // It may not hear of it for a while.
        if (world_.chance(500)) all_.cut(node.node());
        return all_.expel(node.node());
      case 6:
        return node.begin_anew(world_.chance(500));
      case 7:
        return world_.suspend(seconds(world_.chance(500) ? 2 : 20));
      default:
        return lose_service();
    }
  }

  StoryWorld all_;
  sim::SimWorld& world_ = all_.world;
  uint64_t files_ = 1;
  bool is_hard_ = false;
  bool loses_service_ = false;
};

TEST(HoldsNetSim, nobody_reads_what_is_older_than_what_was_told_whatever_fails) {
  const sim::SeedRange seeds = sim::seed_range(200);
  for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    Story(seed).run();
    if (HasFailure()) return;
  }
}

// What the stories must find.
struct Broken {
  const char* name;
  Mutants mutants;
};
class HoldsNetMutants : public testing::TestWithParam<Broken> {};

TEST_P(HoldsNetMutants, are_found) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Story story(seed, GetParam().mutants);
    const bool idle = story.play();
    if (!idle || !story.fault().empty()) return;
  }
  FAIL() << "no seed notices";
}

INSTANTIATE_TEST_SUITE_P(
    All, HoldsNetMutants,
    testing::Values(Broken{"an_agent_that_answers_before_it_has_dropped",
                           {.answers_before_drop = true}},
                    Broken{"an_agent_that_takes_no_notice_of_its_lease", {.ignores_lease = true}},
                    Broken{"targets_that_take_what_is_fenced", {.skips_fence = true}}),
    [](const auto& broken) { return std::string(broken.param.name); });

TEST(HoldsNetSim, the_same_seed_leaves_the_same_trace) {
  EXPECT_EQ(Story(3).run(), Story(3).run());
}

}  // namespace
}  // namespace penstock::holds_net
