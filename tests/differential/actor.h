// One process of a program: acts when it is its turn, on both sides, and compares.
#pragma once

#include "look.h"
#include "run.h"
#include "shared.h"

#include <memory>
#include <optional>

namespace penstock::differential {

// Of each side, through all of its mounts.
using Tops = std::array<std::vector<int>, 2>;

void lose_node(const Settings& settings, const Operation& operation);
void restore_node(const Settings& settings, int mount);

class Actor {
 public:
  // `tops`: the trees' directories, open. Takes on the actor's user.
  Actor(uint8_t number, const Program& program, const Settings& settings, Shared& shared,
        const Tops& tops);
  // To the program's end, or a difference.
  void run();

 private:
  void wait_for_turn();
  void wake_next(uint32_t step);
  void perform(const Operation& operation);
  void look_at_place(const Operation& operation);
  Found both(const Operation& operation);
  Found look(const Operation& operation);
  void relax();
  void note_effects(const Operation& operation);
  void report(const Operation& operation, const Finding& finding);
  Pair files(int slot) const;
  Pair tops(int mount) const;
  bool is_lost(int mount) const { return shared_.lost[static_cast<size_t>(mount)]; }
  // The mount through which an operation names what it names: its own, or the next one if the node
  // of that is away.
  int mount_of(const Operation& operation) const;
  bool needs_what_is_away(const Operation& operation, int mount) const;
  Found lose(const Operation& operation);
  void restore(const Operation& operation);
  // After nodes came back: what is not what it was is closed on both sides.
  void renew();
  void close_files(int mount);
  Found look_at_names(const Operation& operation, Pair from);
  Found compare_trees(const Operation& operation);

  const uint8_t number_;
  const Program& program_;
  const Settings& settings_;
  Shared& shared_;
  Look look_;
  std::unique_ptr<Side> sides_[2];
  std::array<uint32_t, kMountsMax> came_{}, killed_{};
};

}  // namespace penstock::differential
