#include "penstock/testing_node/node_process.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base.h"
#include "penstock/testing_node/command.h"

namespace penstock::test {
namespace {

// What it prints when everything of it serves.
constexpr const char* kServes = "Running;";
constexpr size_t kLastWords = 8192;

}  // namespace

std::string NodeProcess::why_no_mount() {
  if (::access(command_path().c_str(), X_OK) != 0) return command_path() + " is not built";
  const UniqueFd fuse(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!fuse) return "/dev/fuse cannot be opened";
  const bool may = ::geteuid() == 0 || ::access("/usr/bin/fusermount3", X_OK) == 0;
  return may ? "" : "there is no fusermount3";
}

NodeProcess::NodeProcess(NodeOptions options)
    : options_(std::move(options)), store_(scratch_.store()), said_(scratch_ / "said") {
  if (!options_.mount || !why_no_mount().empty()) return;
  mount_ = scratch_ / "mount";
  std::filesystem::create_directory(mount_);
}

NodeProcess::~NodeProcess() {
  stop();
}

bool NodeProcess::start() {
  write_file(said_, "");
  ended_ = false;
  pid_ = ::fork();
  if (pid_ == 0) run();
  if (pid_ < 0) return false;
  bool serves = false;
  (void)eventually([&] {
    serves = words().find(kServes) != std::string::npos;
    return serves || !lives();
  });
  return serves;
}

void NodeProcess::run() const {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<std::string> words = {command_path(), "up", store_};
  if (!mount_.empty()) {
    words.insert(words.end(), {"--mount", mount_});
    if (::geteuid() == 0) words.emplace_back("--allow-other");
  }
  words.insert(words.end(), options_.arguments.begin(), options_.arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int out = ::open(said_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  const int in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const rlimit most{options_.descriptors, options_.descriptors};
  if (out < 0 || in < 0 || (options_.descriptors > 0 && ::setrlimit(RLIMIT_NOFILE, &most) != 0)) {
    ::_exit(126);
  }
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::execv(pointers[0], pointers.data());
  ::_exit(127);
}

void NodeProcess::stop() {
  if (lives()) {
    ::kill(pid_, SIGTERM);
    (void)eventually([&] { return !lives(); });
  }
  kill();
}

void NodeProcess::suspend() {
  ::kill(pid_, SIGSTOP);
  ::waitpid(pid_, nullptr, WUNTRACED);  // until one thread has taken the signal, the others go on
}

void NodeProcess::kill() {
  if (pid_ <= 0) return;
  if (lives()) {
    ::kill(pid_, SIGKILL);
    ended_ = ::waitpid(pid_, &status_, 0) == pid_;
  }
  pid_ = 0;
  unmount();
}

bool NodeProcess::lives() {
  if (ended_ || pid_ <= 0) return false;
  ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return !ended_;
}

std::string NodeProcess::ending() const {
  const std::string how = WIFSIGNALED(status_)
                              ? fmt::format("killed by signal {}", WTERMSIG(status_))
                              : fmt::format("exit status {}", WEXITSTATUS(status_));
  const std::string all = words();
  const std::string last = all.size() <= kLastWords ? all : all.substr(all.size() - kLastWords);
  return fmt::format("{}; it said:\n{}", ended_ ? how : "it lives", last);
}

void NodeProcess::unmount() const {
  if (mount_.empty()) return;
  if (::umount2(mount_.c_str(), MNT_DETACH) == 0 || errno == EINVAL) return;
  (void)test::run({"/usr/bin/fusermount3", "-uzq", mount_});
}

}  // namespace penstock::test
