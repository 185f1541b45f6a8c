#include "tests/node.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::usrbio {

namespace {

const char* program() {
  const char* path = std::getenv("PENSTOCK_PROGRAM");
  return path != nullptr ? path : PENSTOCK_PROGRAM_PATH;
}

// Reads what the program prints until it says that it runs, or ends.
bool says_ready(int fd, std::string& output) {
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    output.append(buffer, static_cast<size_t>(n));
    if (output.find("Running;") != std::string::npos) return true;
  }
}

}  // namespace

bool Node::possible(std::string& why) const {
  if (::access(program(), X_OK) != 0) {
    why = std::string(program()) + " is not built";
    return false;
  }
  const UniqueFd fuse(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!fuse) why = "/dev/fuse cannot be opened";
  return static_cast<bool>(fuse);
}

void Node::start() {
  if (root_.empty()) {
    std::string name = testing::TempDir() + "/penstock-usrbio-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = std::filesystem::canonical(name);
    // Other users pass through it to the mount.
    std::filesystem::permissions(root_, std::filesystem::perms{0755});
    store_ = root_ + "/store";
    mount_ = root_ + "/mount";
    std::filesystem::create_directory(mount_);
  }
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(write_end.get(), STDOUT_FILENO);
    std::string capacity = "1073741824";
    if (::geteuid() == 0) {
      ::execl(program(), program(), "up", store_.c_str(), "--mount", mount_.c_str(), "--capacity",
              capacity.c_str(), "--allow-other", nullptr);
    } else {
      ::execl(program(), program(), "up", store_.c_str(), "--mount", mount_.c_str(), "--capacity",
              capacity.c_str(), nullptr);
    }
    ::_exit(127);
  }
  ASSERT_GT(pid_, 0);
  write_end.reset();
  std::string output;
  ASSERT_TRUE(says_ready(read_end.get(), output)) << output;
}

void Node::stop() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
  unmount();
}

void Node::suspend() {
  ::kill(pid_, SIGSTOP);
  ::waitpid(pid_, nullptr, WUNTRACED);  // until one thread has taken the signal, the others go on
}

void Node::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
  unmount();
}

void Node::unmount() {
  if (::umount2(mount_.c_str(), MNT_DETACH) == 0 || errno == EINVAL) return;
  const pid_t helper = ::fork();
  if (helper == 0) {
    ::execlp("fusermount3", "fusermount3", "-uzq", mount_.c_str(), nullptr);
    ::_exit(127);
  }
  ::waitpid(helper, nullptr, 0);
}

Node::~Node() {
  kill();
  if (root_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

}  // namespace penstock::usrbio
