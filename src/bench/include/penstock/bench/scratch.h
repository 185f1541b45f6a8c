// Scratch space that goes away however a benchmark ends, by Ctrl-C or a kill, too.
#pragma once

#include <string>
#include <sys/types.h>

#include "penstock/base.h"

namespace penstock::bench {

class Scratch {
 public:
  // Makes a new directory below `parent` and checks that `needed_bytes` are free there.
  static Outcome<Scratch> create(const std::string& parent, uint64_t needed_bytes);
  Scratch(Scratch&& other) noexcept
      : path_(std::exchange(other.path_, {})),
        alive_(std::move(other.alive_)),
        cleaner_(std::exchange(other.cleaner_, 0)) {}
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch();

  const std::string& path() const { return path_; }

 private:
  explicit Scratch(std::string path) : path_(std::move(path)) {}
  void start_cleaner();

  std::string path_;
  UniqueFd alive_;     // a socket that ends with this process, or with the last of its children
  pid_t cleaner_ = 0;  // waits for that and takes everything away; 0: there is none
};

}  // namespace penstock::bench
