// Where the process begins: as the command, or as what mount(8) calls.
#include "command_line.h"

#include <cstdio>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

#include "penstock/fuse.h"

namespace penstock::apps {

int fail(const char* command, const Failure& failure) {
  std::fprintf(stderr, "penstock %s: %s\n", command, failure.message.c_str());
  return kExitFailed;
}

int fail_plainly(const Failure& failure) {
  std::fprintf(stderr, "penstock %s\n", failure.message.c_str());
  return kExitFailed;
}

namespace {

// By which this program was called.
std::string_view own_name(int argc, char** argv) {
  const std::string_view path(argc > 0 ? argv[0] : "");
  return path.substr(path.rfind('/') + 1);
}

// Whether mount(8) called this program, by one of the names under which it looks for the type, or
// the program of libfuse that runs it as `penstock STORE MOUNTPOINT`.
bool is_mount_helper(int argc, char** argv) {
  if (own_name(argc, argv).starts_with("mount.")) return true;
  return argc >= 3 && argv[1][0] == '/' && argv[2][0] == '/';
}

// What it was told, and the type that its name alone tells.
std::vector<std::string> helper_arguments(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (own_name(argc, argv).ends_with("hf3fs")) {
    words.insert(words.begin(), {"-t", fuse::kMountTypeOf3fs});
  }
  return words;
}

}  // namespace
}  // namespace penstock::apps

int main(int argc, char** argv) {
  // What is opened later must not take the place of what the shell has closed.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) < 0) (void)!::open("/dev/null", O_RDWR);
  }
  if (penstock::apps::is_mount_helper(argc, argv)) {
    return penstock::apps::run_mount_helper(penstock::apps::helper_arguments(argc, argv));
  }
  return penstock::apps::CommandLine().run(argc, argv);
}
