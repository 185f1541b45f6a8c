// One process of a program: acts when it is its turn, on both sides, and compares.
#pragma once

#include "look.h"
#include "run.h"
#include "shared.h"

#include <memory>
#include <optional>

namespace penstock::differential {

class Actor {
 public:
  // `tops`: the trees' directories, open. Takes on the actor's user.
  Actor(uint8_t number, const Program& program, const Settings& settings, Shared& shared,
        Pair tops);
  // To the program's end, or a difference.
  void run();

 private:
  void wait_for_turn();
  void wake_next(uint32_t step);
  void perform(const Operation& operation);
  Found both(const Operation& operation);
  Found look(const Operation& operation);
  void relax();
  void note_effects(const Operation& operation);
  void report(const Operation& operation, const Finding& finding);
  Pair files(int slot) const;

  const uint8_t number_;
  const Program& program_;
  const Settings& settings_;
  Shared& shared_;
  Look look_;
  std::unique_ptr<Side> sides_[2];
};

}  // namespace penstock::differential
