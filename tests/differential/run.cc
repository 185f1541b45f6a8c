#include "run.h"

#include "actor.h"
#include "shared.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::differential {
namespace {

// An operation that takes longer hangs. Generous: it ends what hangs and judges no machine.
constexpr std::chrono::seconds kHangs{120};

// Paths and links of programs lead upwards, and this far up both sides look alike.
constexpr int kUp = 16;

class SharedMemory {
 public:
  SharedMemory() {
    void* memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    shared_ = static_cast<Shared*>(memory);  // zeros are a valid beginning
    shared_->started = std::time(nullptr);
  }
  ~SharedMemory() { ::munmap(shared_, sizeof(Shared)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  Shared& get() { return *shared_; }

 private:
  Shared* shared_;
};

void calm(int directory, const char* name) {
  const UniqueFd file(::openat(directory, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  int flags = 0;
  if (file && ::ioctl(file.get(), FS_IOC_GETFLAGS, &flags) == 0 &&
      (flags & (FS_IMMUTABLE_FL | FS_APPEND_FL)) != 0) {
    flags &= ~(FS_IMMUTABLE_FL | FS_APPEND_FL);
    ::ioctl(file.get(), FS_IOC_SETFLAGS, &flags);
  }
}

void remove_below(int directory, const char* name) {
  if (::unlinkat(directory, name, 0) == 0 || errno == ENOENT) return;
  if (errno != EISDIR) calm(directory, name);
  if (errno != EISDIR && ::unlinkat(directory, name, 0) == 0) return;
  calm(directory, name);
  ::fchmodat(directory, name, 0700, 0);
  const int below = ::openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR* listing = below < 0 ? nullptr : ::fdopendir(below);
  if (listing == nullptr) return;
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing)) names.emplace_back(entry->d_name);
  for (const std::string& each : names) {
    if (each != "." && each != "..") remove_below(below, each.c_str());
  }
  ::closedir(listing);
  ::unlinkat(directory, name, AT_REMOVEDIR);
}

int opened(const std::string& directory) {
  return ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int fresh_top(const std::string& in) {
  std::string path = in + "/program";
  remove_tree(path);
  for (int i = 0; i < kUp; i++) {
    if (i > 0) path += "/up";
    if (::mkdir(path.c_str(), 0777) != 0 || ::chmod(path.c_str(), 0777) != 0) {
      fmt::print(stderr, "differential: {}: {}\n", path, std::strerror(errno));
      std::exit(2);
    }
  }
  return opened(path);
}

pid_t start_actor(uint8_t number, const Program& program, const Settings& settings, Shared& shared,
                  const Tops& tops) {
  std::fflush(nullptr);
  const pid_t process = ::fork();
  if (process != 0) return process;
  {
    Actor actor(number, program, settings, shared, tops);
    actor.run();
  }
  std::_Exit(0);
}

// Waits for all; what is wrong with them, if anything is.
std::string wait_for(const std::vector<pid_t>& processes, Shared& shared) {
  std::string wrong;
  for (const pid_t process : processes) {
    const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
    uint32_t seen = shared.step.load(std::memory_order_acquire);
    pollfd end{handle.get(), POLLIN, 0};
    while (::poll(&end, 1, static_cast<int>(std::chrono::milliseconds(kHangs).count())) == 0) {
      const uint32_t now = shared.step.load(std::memory_order_acquire);
      if (now != seen) {
        seen = now;
        continue;
      }
      wrong = "does not end";
      for (const pid_t each : processes) ::kill(each, SIGKILL);
      break;
    }
    int status = 0;
    while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    if (!WIFSIGNALED(status) || !wrong.empty()) continue;
    wrong = fmt::format("the process died of signal {}", WTERMSIG(status));
    for (const pid_t each : processes) {
      if (each != process) ::kill(each, SIGKILL);
    }
  }
  return wrong;
}

}  // namespace

std::string top_in(const std::string& directory) {
  std::string path = directory + "/program";
  for (int i = 1; i < kUp; i++) path += "/up";
  return path;
}

void remove_tree(const std::string& path) {
  remove_below(AT_FDCWD, path.c_str());
}

Outcome run(const Program& program, const Settings& settings) {
  SharedMemory memory;
  Shared& shared = memory.get();
  shared.compare_blocks = !settings.same_kind;
  shared.has_copies = settings.copies;
  Tops tops;
  tops[0].push_back(fresh_top(settings.mounts[0]));
  tops[1].push_back(fresh_top(settings.host));
  for (size_t i = 1; i < settings.mounts.size(); i++) {
    tops[0].push_back(opened(top_in(settings.mounts[i])));
    if (tops[0].back() < 0) {
      fmt::print(stderr, "differential: {}: {}\n", settings.mounts[i], std::strerror(errno));
      std::exit(2);
    }
  }
  std::vector<pid_t> processes;
  for (uint8_t actor = 0; actor < kActors; actor++) {
    bool acts = false;
    for (const Operation& operation : program) acts = acts || operation.actor == actor;
    if (acts) processes.push_back(start_actor(actor, program, settings, shared, tops));
  }
  const std::string wrong = wait_for(processes, shared);
  for (const auto& side : tops) {
    for (const int top : side) ::close(top);
  }
  for (size_t mount = 1; mount < settings.mounts.size(); mount++) {
    if (shared.lost[mount]) restore_node(settings, static_cast<int>(mount));
  }
  Outcome outcome;
  outcome.answers = shared.answers;
  outcome.intended = shared.intended;
  const size_t step = shared.step.load(std::memory_order_acquire);
  if (shared.ended.load(std::memory_order_acquire) != 0) {
    outcome.difference = {step, shared.signature.data(), shared.difference.data()};
  } else if (!wrong.empty()) {
    const std::string text = step < program.size() ? to_text(program[step]) : "the end";
    outcome.difference = {step, wrong, text + "\n" + wrong};
  }
  remove_tree(settings.mounts[0] + "/program");
  remove_tree(settings.host + "/program");
  return outcome;
}

}  // namespace penstock::differential
