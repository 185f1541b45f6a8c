// Two nodes, each of which stores what the other one mounts, and faults from a seed.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "penstock/testing_cluster/register_file.h"
#include "penstock/testing_cluster/sim_node.h"

namespace penstock::test {

// run() starts both at once, lets programs run beside faults (lost, late and repeated messages, cut
// links, deaths of either node with and without power), heals everything, and waits until each
// program had some operations that succeed.
class FaultyPair {
 public:
  // One operation on node `node`, by program `program`, which may fail while there are faults. True
  // if it succeeded.
  using Step = std::function<bool(size_t node, size_t program, engine::Random& random)>;
  struct Hooks {
    Step step;
    // A node has its mount; it dies, before what still runs on it has come to its end; and it is
    // dead, with all that, before its next life begins: what it has not kept is lost.
    std::function<void(size_t node)> started = [](size_t) {};
    std::function<void(size_t node)> dying = [](size_t) {};
    std::function<void(size_t node, bool power_cut)> dead = [](size_t, bool) {};
  };

  explicit FaultyPair(uint64_t seed);

  // Programs are dealt out to the nodes in turn. GoogleTest's failures say what went wrong.
  void run(size_t programs, const Hooks& hooks);
  // After run(): both lose power, and begin another life.
  void cut_power(const Hooks& hooks);
  // Settles and closes both.
  void stop();

  sim::SimWorld& world() { return world_; }
  SimNode& node(size_t index) { return *nodes_[index]; }
  std::string where() const { return "(seed " + std::to_string(world_.seed()) + ")"; }

 private:
  void start_both(const Hooks& hooks);
  void run_program(size_t program, const Hooks& hooks);
  void inject_faults(const Hooks& hooks);
  void kill(size_t node, bool power_cut, const Hooks& hooks);
  void restart(size_t node, const Hooks& hooks);
  void heal();

  sim::SimWorld world_;
  sim::SimNetwork network_;
  std::array<std::unique_ptr<SimNode>, 2> nodes_;
  bool healed_ = false;
};

}  // namespace penstock::test
