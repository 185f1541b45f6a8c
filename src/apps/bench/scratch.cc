#include "scratch.h"

#include "../text.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace penstock::apps {

namespace fs = std::filesystem;

Outcome<Scratch> Scratch::create(const std::string& parent, uint64_t needed_bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(parent, error);
  if (error) return Failure{Status::from_errno(error.value()), parent + ": " + error.message()};
  if (space.available < needed_bytes) {
    return Failure{Code::no_space,
                   parent + ": needs " + human_bytes(static_cast<double>(needed_bytes)) +
                       " free, has " + human_bytes(static_cast<double>(space.available)) +
                       " (choose another place with --dir, or a smaller --size)"};
  }
  std::string path = parent + "/penstock-bench-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) {
    return Failure{Status::from_errno(errno),
                   parent + ": cannot make a directory: " + std::strerror(errno)};
  }
  return Scratch(path);
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace penstock::apps
