// A copy of the namespace's database of a running node, as long as a command reads it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "penstock/base.h"

namespace penstock::agent {

// One thread uses it. At most one is there at a time, by a lock that ends with the process, so that
// what a killed command leaves is removed by the next one, or when the node starts.
class MetaCopy {
 public:
  // Waits for nobody. `ask` has the node that serves `directory` make the copy
  // (Agent::checkpoint_meta()); its failure is that of the call. busy: another process has one.
  static Outcome<std::unique_ptr<MetaCopy>> make(const std::string& directory,
                                                 const std::function<Outcome<void>()>& ask);
  // Removes the copy.
  ~MetaCopy();

  // A database that is opened read-only.
  const std::string& path() const { return path_; }

 private:
  MetaCopy(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  const std::string path_;
  const UniqueFd lock_;
};

}  // namespace penstock::agent
