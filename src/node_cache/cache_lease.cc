#include "penstock/node_cache/cache_lease.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "penstock/node_cache/limits.h"

namespace penstock::node_cache {
namespace {

std::string path_in(const std::string& directory) {
  return directory + "/cache.lease";
}

// All of it: nothing ends it early.
void wait_for_the_lease() {
  engine::Mutex mutex;
  engine::Condition ended;
  std::unique_lock lock(mutex);
  (void)ended.wait_for(lock, limits::kCacheLease, [] { return false; });
}

}  // namespace

Outcome<void> CacheLease::begin(const std::string& directory, bool keep) {
  const std::string path = path_in(directory);
  if (::access(path.c_str(), F_OK) == 0) {
    wait_for_the_lease();
    ::unlink(path.c_str());
  }
  if (!keep) return {};
  // Not durable: a power cut ends the applications, too.
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file) return {};
  const int error = errno;
  return Failure{Status::from_errno(error),
                 fmt::format("{}: cannot be made: {}", path, std::strerror(error))};
}

void CacheLease::end(const std::string& directory) {
  ::unlink(path_in(directory).c_str());
}

}  // namespace penstock::node_cache
