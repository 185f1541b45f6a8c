// Random operations on two directory trees at once, whose answers must be equal.
#pragma once

#include "twin.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "penstock/engine.h"

namespace penstock::posix {

// One thread.
class Model {
 public:
  // Operates below `mount` and `host`, which are empty directories. With `identities` some
  // operations are done as somebody else (for root only).
  Model(const std::string& mount, const std::string& host, uint64_t seed, bool identities);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Runs one random operation; false, with the reason in difference(), when the answers differ.
  bool step();
  const std::string& difference() const { return difference_; }
  // Compares the trees and the open files.
  bool compare();
  size_t successes() const { return successes_; }
  // Lets everybody in again, whatever chmod did to the root and what is above it.
  void open_root() const;

 private:
  // An open file on each side.
  struct Pair {
    int mount = -1;
    int host = -1;
  };
  using OnPath = std::function<Answer(const std::string& path)>;
  using OnPaths = std::function<Answer(const std::string& from, const std::string& to)>;
  using OnFile = std::function<Answer(int fd)>;

  uint64_t below(uint64_t bound) { return random_.below(bound); }
  std::string some_name();
  std::string some_path();
  std::string some_bytes(uint64_t length);
  uint32_t some_identity();

  bool agree(const std::string& what, const Answer& mount, const Answer& host);
  bool on_path(const std::string& what, const std::string& path, const OnPath& run);
  bool on_paths(const std::string& what, const std::string& from, const std::string& to,
                const OnPaths& run);
  bool on_file(const std::string& what, size_t index, const OnFile& run);

  bool open_file();
  bool close_file();
  bool file_operation(uint64_t which);
  bool name_operation(uint64_t which);
  bool attribute_operation(uint64_t which);
  bool write_some(size_t index);
  bool allocate_some(size_t index);
  bool copy_some(size_t from, size_t to);
  static void close_pair(const Pair& pair);

  const std::array<std::string, 2> tops_;
  const std::array<std::string, 2> roots_;
  engine::SeededRandom random_;
  const bool identities_;
  const bool trace_ = std::getenv("PENSTOCK_TRACE") != nullptr;  // print every step
  std::vector<Pair> open_;
  std::string difference_;
  std::string who_;
  size_t successes_ = 0;
};

}  // namespace penstock::posix
