// How long steps take in a cluster of 1,000 nodes and 20,000 chains of three copies.
//
//   step_bench [nodes=1000] [chains=20000] [targets=1]
//
// Prints each kind of step with how many there were, and the mean and the longest time.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "penstock/controller.h"

namespace penstock::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Uuid uuid_of(uint32_t number) {
  Uuid uuid;
  std::memcpy(uuid.bytes.data(), &number, sizeof number);
  return uuid;
}

class Bench {
 public:
  Bench(uint32_t nodes, uint32_t targets) : nodes_(nodes), targets_(targets), sequence_(nodes + 1) {
    begin(state_, now_);
    measure("join and open", [&] {
      for (uint32_t n = 1; n <= nodes_; ++n) start(n, n);
    });
    beats("first heartbeat");
  }

  void make_table(uint32_t chains) {
    engine::SeededRandom random(1);
    const auto begun = std::chrono::steady_clock::now();
    const auto table = plan_table(state_, {.copies = 3, .chains = chains}, random);
    if (!table) {
      std::fprintf(stderr, "%s\n", table.error().message.c_str());
      std::exit(1);
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;
    const PairLoads pairs = pair_loads(state_, table->chains);
    std::printf("plan: %.0f ms; of two nodes' chains %u at most are the same, %.2f on average\n",
                took.count(), pairs.most, pairs.mean);
    measure("make table", [&] { run(*table); });
  }

  void beats(const std::string& name, uint32_t but = 0) {
    measure(name, [&] {
      for (uint32_t n = 1; n <= nodes_; ++n) {
        if (n != but) beat(n);
      }
    });
  }
  // All but one are heard of, or none.
  void lose(const std::string& name, bool all) {
    measure(name, [&] {
      for (int i = 0; i < 24; ++i) {
        for (uint32_t n = 2; n <= nodes_ && !all; ++n) beat(n);
        now_ += milliseconds(250);
        run(Tick{});
      }
    });
  }
  void restart_all(const std::string& name) {
    measure(name, [&] {
      for (uint32_t n = 1; n <= nodes_; ++n) {
        start(n, nodes_ + n);
        beat(n);
      }
    });
  }
  // A twentieth more: copies begin to move there, as many as may at a time.
  void grow(const std::string& name) {
    const uint32_t before = nodes_;
    nodes_ += std::max(1U, nodes_ / 20);
    sequence_.resize(nodes_ + 1);
    for (uint32_t n = before + 1; n <= nodes_; ++n) start(n, 2 * nodes_ + n);
    const auto pass = [&] {
      for (int i = 0; i < 24; ++i) {
        for (uint32_t n = 1; n <= nodes_; ++n) beat(n);
        now_ += milliseconds(250);
        run(Tick{});
      }
    };
    measure(name, pass);
    std::printf("%zu copies move, about %zu are left\n", health(state_).moving,
                health(state_).moves_left);
  }
  void drain(const std::string& name) {
    measure(name, [&] {
      run(Drain{NodeId(2)});
      for (int i = 0; i < 24; ++i) {
        for (uint32_t n = 1; n <= nodes_; ++n) beat(n);
        now_ += milliseconds(250);
        run(Tick{});
      }
    });
  }

 private:
  Sender sender(uint32_t n) {
    return {NodeId(n), state_.at(NodeId(n)).incarnation, ++sequence_[n]};
  }

  void start(uint32_t n, uint32_t process) {
    Join join{{}, uuid_of(n), uuid_of(process), {}, true};
    join.facts.name = "node";
    run(join);
    sequence_[n] = 0;
    for (uint32_t t = 0; t < targets_; ++t) {
      const uint32_t number = n * targets_ + t;
      const Target* known = find_target(state_, uuid_of(number));
      const Incarnation held = known == nullptr ? Incarnation() : known->incarnation;
      run(OpenTarget{sender(n), uuid_of(number), held, process, kGiB, MediaClass::flash});
    }
  }

  void beat(uint32_t n) {
    Heartbeat heartbeat;
    heartbeat.from = sender(n);
    heartbeat.applied = state_.version;
    heartbeat.answered = heartbeat.from.sequence - 1;
    for (const TargetId id : state_.at(NodeId(n)).targets) {
      heartbeat.targets.push_back({id, state_.at(id).incarnation});
    }
    run(heartbeat);
  }

  void run(const Event& event) {
    for (bool more = true; more;) {
      const auto begun = std::chrono::steady_clock::now();
      const Actions actions = step(state_, steps_ == 0 || !more_ ? event : Event(Tick{}), now_);
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - begun;
      ++steps_;
      sum_ += took.count();
      longest_ = std::max(longest_, took.count());
      more = more_ = actions.more;
    }
  }

  void measure(const std::string& name, const std::function<void()>& work) {
    steps_ = 0;
    sum_ = longest_ = 0;
    work();
    const Health now = health(state_);
    std::printf(
        "%-28s %7zu steps  mean %8.4f ms  longest %7.3f ms  chains: %zu whole, %zu partial, %zu "
        "none\n",
        name.c_str(), steps_, sum_ / static_cast<double>(steps_), longest_, now.whole, now.partial,
        now.unavailable);
  }

  uint32_t nodes_;
  const uint32_t targets_;
  State state_;
  engine::Time now_{seconds(1)};
  std::vector<uint64_t> sequence_;
  size_t steps_ = 0;
  double sum_ = 0;
  double longest_ = 0;
  bool more_ = false;
};

int run(int argc, char** argv) {
  uint32_t nodes = 1000, chains = 20'000, targets = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto number = [&](const char* name, uint32_t& to) {
      const std::string prefix = std::string(name) + "=";
      if (argument.rfind(prefix, 0) == 0) {
        to = static_cast<uint32_t>(std::strtoul(argument.c_str() + prefix.size(), nullptr, 10));
      }
    };
    number("nodes", nodes);
    number("chains", chains);
    number("targets", targets);
  }
  Bench bench(nodes, targets);
  bench.make_table(chains);
  bench.beats("heartbeats");
  bench.grow("nodes are added");
  bench.lose("one node is lost", false);
  bench.beats("it is back");
  bench.drain("another is drained");
  bench.beats("heartbeats");
  bench.lose("all are lost", true);
  bench.restart_all("all are back");
  bench.beats("heartbeats");
  return 0;
}

}  // namespace
}  // namespace penstock::controller

int main(int argc, char** argv) {
  return penstock::controller::run(argc, argv);
}
