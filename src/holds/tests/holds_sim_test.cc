// Agents that read, write behind and look up names, over messages that are lost, late and doubled,
// with agents that are stopped or cut off, and lives of meta that end, and begin again at once or
// long after leases are over: nobody is given what is older than what somebody was told, and once
// faults stop all go on. Where nothing fails but meta no session ends.
#include "model_agent.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace penstock::holds {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Story {
 public:
  explicit Story(uint64_t seed, Mutants mutants = {})
      : world_(seed), model_(world_, 2 + world_.random().below(3), mutants) {
    world_.set_time_limit(std::chrono::hours(2));
    files_ = 1 + world_.random().below(4);
    is_hard_ = world_.chance(700);
    model_.is_calm = !is_hard_;
    loses_meta_ = world_.chance(500);
  }

  uint64_t run() {
    const bool idle = play();
    EXPECT_EQ(model_.first_fault, "") << where();
    EXPECT_TRUE(idle) << where();
    return world_.trace_hash();
  }

  // Whether all went on, once faults had stopped.
  bool play() {
    model_.lost_permille = is_hard_ && world_.chance(600) ? 60 : 0;
    const uint64_t rounds = 20 + world_.random().below(60);
    for (uint64_t i = 0; i < rounds && model_.first_fault.empty(); ++i) {
      if (is_hard_ && world_.chance(150)) one_fault();
      if (!is_hard_ && loses_meta_ && all_have_begun() && world_.chance(60)) lose_meta();
      for (uint64_t n = world_.random().below(8); n > 0; --n) one_operation();
      world_.run_for(milliseconds(world_.random().below(world_.chance(900) ? 120 : 4000)));
    }
    model_.heal();
    for (const auto& agent : model_.agents) agent->read(any_file());
    return world_.run_until([this] { return !model_.first_fault.empty() || model_.is_idle(); },
                            seconds(90));
  }

  const std::string& fault() const { return model_.first_fault; }

 private:
  std::string where() const {
    std::string text = "(seed " + std::to_string(world_.seed()) + ")";
    for (const auto& agent : model_.agents) text += "\n" + agent->describe();
    return text;
  }
  ModelAgent& any_agent() { return *model_.agents[world_.random().below(model_.agents.size())]; }
  InodeId any_file() { return InodeId(2 + world_.random().below(files_)); }
  std::string any_name() {
    return std::string(1, static_cast<char>('a' + world_.random().below(3)));
  }

  void one_operation() {
    ModelAgent& agent = any_agent();
    switch (world_.random().below(7)) {
      case 0:
      case 1:
        return agent.read(any_file());
      case 2:
        return agent.write(any_file());
      case 6:
        return agent.want(any_file());
      case 3:
      case 4:
        return agent.look_up(any_name());
      default:
        return agent.change_name(any_name());
    }
  }

  // One that has not heard that its session is on record begins with another.
  bool all_have_begun() const {
    return !model_.is_away() && std::all_of(model_.agents.begin(), model_.agents.end(),
                                            [](const auto& agent) { return agent->has_begun(); });
  }
  void lose_meta() {
    const int most = world_.chance(500) ? 4000 : 40'000;
    model_.lose_meta(milliseconds(world_.random().below(most)));
  }

  void one_fault() {
    const NodeId node = any_agent().node();
    switch (world_.random().below(8)) {
      case 0:
      case 1:
        return any_agent().stop_for(
            milliseconds(world_.random().below(world_.chance(500) ? 4000 : 20000)));
      case 2:
        model_.cut.insert(node);
        return;
      case 3:
        model_.cut.clear();
        model_.deaf.clear();
        return;
      case 4:
        model_.deaf.insert(node);
        return;
      case 5:
        // It may not hear of it for a while.
        if (world_.chance(500)) model_.cut.insert(node);
        return model_.expel(node);
      case 6:
        return lose_meta();
      default:
        return model_.restart_meta();
    }
  }

  sim::SimWorld world_;
  ModelWorld model_;
  uint64_t files_ = 1;
  bool is_hard_ = false;
  bool loses_meta_ = false;
};

TEST(HoldsSim, nobody_reads_what_is_older_than_what_was_told_whatever_fails) {
  const sim::SeedRange seeds = sim::seed_range(300);
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
class HoldsMutants : public testing::TestWithParam<Broken> {};

TEST_P(HoldsMutants, are_found) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Story story(seed, GetParam().mutants);
    const bool idle = story.play();
    if (!idle || !story.fault().empty()) return;
  }
  FAIL() << "no seed notices";
}

INSTANTIATE_TEST_SUITE_P(
    All, HoldsMutants,
    testing::Values(
        Broken{"an_agent_that_answers_before_it_has_dropped", {.answers_before_drop = true}},
        Broken{"an_agent_that_goes_on_after_its_lease", {.ignores_lease = true}},
        Broken{"an_agent_that_keeps_what_was_recalled_on_its_way", {.forgets_stamps = true}},
        Broken{"targets_that_take_what_is_fenced", {.skips_fence = true}},
        Broken{"a_meta_that_waits_for_no_lease", {.skips_lease = true}},
        Broken{"names_that_change_without_a_barrier", {.ignores_barrier = true}},
        Broken{"an_agent_that_drops_all_when_its_lease_is_over", {.loses_with_lease = true}},
        Broken{"a_meta_that_takes_claims_of_what_has_ended", {.forgets_ends = true}}),
    [](const auto& broken) { return std::string(broken.param.name); });

TEST(HoldsSim, the_same_seed_leaves_the_same_trace) {
  EXPECT_EQ(Story(3).run(), Story(3).run());
}

}  // namespace
}  // namespace penstock::holds
