// Scratch space that goes away however a benchmark ends (but for a kill).
#pragma once

#include <string>

#include "penstock/base.h"

namespace penstock::apps {

class Scratch {
 public:
  // Makes a new directory below `parent` and checks that `needed_bytes` are free there.
  static Outcome<Scratch> create(const std::string& parent, uint64_t needed_bytes);
  Scratch(Scratch&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch();

  const std::string& path() const { return path_; }

 private:
  explicit Scratch(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace penstock::apps
