// A cluster on this machine, of processes as a person would start them.
#pragma once

#include "programs.h"

#include <string>
#include <vector>

#include "penstock/bench.h"
#include "penstock/console.h"
#include "penstock/json.h"

namespace penstock::bench {

class ClusterNodes {
 public:
  // `count` nodes below `directory`, each a process of this program that listens on loopback. They
  // end with this object, and when this process ends in any other way.
  static Outcome<ClusterNodes> start(const std::string& directory, uint32_t count);

  // What a command of this program answers, for the first node.
  Outcome<Json> ask(const std::string& command, const std::vector<std::string>& words) const;
  // New files of that directory get so many copies; on one chain each, or on all.
  Outcome<void> set_copies(const std::string& path, uint32_t copies, bool one_chain) const;
  // Whether a file lies on chains only of which the first node has no copy.
  Outcome<bool> is_elsewhere(const std::string& path) const;

  Outcome<console::Session> connect() const;

 private:
  ClusterNodes(std::string program, std::string first)
      : program_(std::move(program)), first_(std::move(first)) {}

  std::string program_;
  std::string first_;  // its directory
  std::vector<Companion> nodes_;
};

}  // namespace penstock::bench
