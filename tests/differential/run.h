// Runs a program on two trees.
#pragma once

#include "intended.h"
#include "operation.h"
#include "side.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace penstock::differential {

struct Settings {
  // The tree under test: a directory in which programs make their own, through each of its mounts.
  std::vector<std::string> mounts;
  std::string host;        // the one that is right
  std::string nodes;       // a command that takes `lose MOUNT HOW MILLISECONDS` and `restore MOUNT`
  bool same_kind = false;  // both are the host's: blocks are not compared with what ours mean
  bool copies = false;     // files of the mounts have copies on several targets
  Fault fault = Fault::none;
  bool thorough = false;  // all bytes of a file after each operation that may have changed it
};

struct Difference {
  size_t step = 0;
  std::string signature;  // the kind of operation and what differed: the same after shrinking
  std::string text;
};

struct Outcome {
  std::optional<Difference> difference;
  std::array<std::array<uint64_t, 2>, kKinds> answers{};  // by kind: that succeeded, that failed
  std::array<uint64_t, kRulesMax> intended{};             // by rule
};

// In fresh directories of both trees, by processes of its own. Ends at the first difference. One
// thread.
Outcome run(const Program& program, const Settings& settings);

// A program with a difference of the same signature, of as few operations as were found in the
// time.
Program shrink(const Program& program, const Difference& difference, const Settings& settings,
               int64_t milliseconds);

// The directory in which programs begin, in the directory of a mount.
std::string top_in(const std::string& directory);

// Removes a tree whatever modes and flags are in the way.
void remove_tree(const std::string& path);

}  // namespace penstock::differential
