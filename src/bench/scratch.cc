#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/bench.h"
#include "penstock/console.h"

namespace penstock::bench {

namespace fs = std::filesystem;

Outcome<Scratch> Scratch::create(const std::string& parent, uint64_t needed_bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(parent, error);
  if (error) return Failure{Status::from_errno(error.value()), parent + ": " + error.message()};
  if (space.available < needed_bytes) {
    return Failure{Code::no_space,
                   parent + ": needs " + console::human_bytes(static_cast<double>(needed_bytes)) +
                       " free, has " + console::human_bytes(static_cast<double>(space.available)) +
                       " (choose another place with --dir, or a smaller --size)"};
  }
  std::string path = parent + "/penstock-bench-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) {
    return Failure{Status::from_errno(errno),
                   parent + ": cannot make a directory: " + std::strerror(errno)};
  }
  Scratch scratch(path);
  scratch.start_cleaner();
  return scratch;
}

// A shell in a session of its own, which the terminal's signals do not reach. Without one, a
// benchmark that is interrupted leaves its scratch space behind.
void Scratch::start_cleaner() {
  static constexpr const char* kScript =
      "read -r end; "
      "while read -r _ point _; do case $point in \"$1\"/*) "
      "umount -l \"$point\" 2>/dev/null || fusermount3 -uzq \"$point\";; esac; "
      "done </proc/self/mounts; "
      "rm -rf --one-file-system -- \"$1\"";
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  const UniqueFd read_end(ends[0]);
  alive_.reset(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&actions, read_end.get(), STDIN_FILENO);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  const char* const arguments[] = {"sh", "-c", kScript, "sh", path_.c_str(), nullptr};
  // The child only reads its arguments; the interface is older than const.
  const int error = ::posix_spawn(&cleaner_, "/bin/sh", &actions, &attributes,
                                  const_cast<char* const*>(arguments), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) cleaner_ = 0;
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
  if (cleaner_ <= 0) return;
  // It need not wait for children of ours that still have the socket.
  (void)!::send(alive_.get(), "\n", 1, MSG_NOSIGNAL);
  alive_.reset();
  ::waitpid(cleaner_, nullptr, 0);
}

}  // namespace penstock::bench
