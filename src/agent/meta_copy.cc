#include "penstock/meta_copy.h"

#include "store_contents.h"
#include "store_lock.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::agent {
namespace {

// The copy is the node's, and so is its lock, whoever asks for it: root may ask for another user's.
void give_to_owner(int lock, const std::string& directory) {
  struct stat facts {};
  if (::stat(directory.c_str(), &facts) != 0) return;
  (void)!::fchown(lock, facts.st_uid, facts.st_gid);
}

}  // namespace

Outcome<std::unique_ptr<MetaCopy>> MetaCopy::make(const std::string& directory,
                                                  const std::function<Outcome<void>()>& ask) {
  ASSERT(ask != nullptr);
  const std::string path = meta_copy_path(directory);
  const std::string lock_path = path + kCopyLockSuffix;
  UniqueFd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly));
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (lock && error == EWOULDBLOCK) {
      return Failure{Code::busy, directory +
                                     ": another dump of the running node is under way (try "
                                     "again when that has ended)"};
    }
    return Failure{Status::from_errno(error),
                   fmt::format("{}: cannot be locked: {}", lock_path, std::strerror(error))};
  }
  give_to_owner(lock.get(), directory);
  std::unique_ptr<MetaCopy> copy(new MetaCopy(path, std::move(lock)));
  TRY(ask());
  return copy;
}

MetaCopy::~MetaCopy() {
  ASSERT(lock_);
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  if (error) log::warning("{}: cannot be removed: {}", path_, error.message());
}

void remove_unused_meta_copy(const std::string& directory) {
  const std::string path = meta_copy_path(directory);
  const std::string lock_path = path + kCopyLockSuffix;
  const UniqueFd lock(::open(lock_path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return;
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) log::warning("{}: cannot be removed: {}", path, error.message());
}

}  // namespace penstock::agent
