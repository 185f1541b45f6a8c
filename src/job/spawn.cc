#include "spawn.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::job {
namespace {

std::vector<char*> pointers_of(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// 0, or why it cannot be run.
int fault_of_file(const std::string& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) return errno;
  if (!S_ISREG(st.st_mode)) return EACCES;
  return ::access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

// In the child, where only async-signal-safe functions may be called: another thread of the parent
// may have held any lock.
[[noreturn]] void become(const Spawn& what, char* const* arguments, char* const* shell_arguments,
                         char* const* environment, pid_t parent) {
  const auto fail = [&](int stage) {
    const SpawnFailure failure{what.rank, errno, stage};
    (void)!::write(what.failures, &failure, sizeof failure);
    ::_exit(127);
  };
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it ended before that was said
  const int from[3] = {what.input, what.output, what.errors};
  for (int to = 0; to < 3; ++to) {
    if (from[to] == to) {
      ::fcntl(to, F_SETFD, 0);
    } else {
      ::dup2(from[to], to);
    }
  }
  if (what.kept >= 0) ::fcntl(what.kept, F_SETFD, 0);
  if (!what.directory.empty() && ::chdir(what.directory.c_str()) != 0) fail(0);
  ::setrlimit(RLIMIT_NOFILE, &what.files);
  ::pthread_sigmask(SIG_SETMASK, &what.signals, nullptr);
  ::execve(what.program.c_str(), arguments, environment);
  // A script without its first line is the shell's, as everywhere.
  if (errno == ENOEXEC) ::execve("/bin/sh", shell_arguments, environment);
  fail(1);
  ::_exit(127);
}

}  // namespace

std::vector<std::string> environment_with(const Environment& changes) {
  std::map<std::string, std::string> values;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view text(*each);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    values.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  for (const auto& [name, value] : changes) values[name] = value;
  std::vector<std::string> texts;
  for (const auto& [name, value] : values) texts.push_back(name + "=" + value);
  return texts;
}

Outcome<std::string> find_program(const std::string& name, const std::string& directory,
                                  const std::vector<std::string>& environment) {
  const auto absolute = [&](const std::string& path) {
    return path.starts_with('/') || directory.empty() ? path : directory + "/" + path;
  };
  int fault = ENOENT;
  if (name.find('/') != std::string::npos) {
    fault = fault_of_file(absolute(name));
    if (fault == 0) return name;  // from the directory where it runs
  } else if (!name.empty()) {
    const auto at = std::find_if(environment.begin(), environment.end(),
                                 [](const std::string& each) { return each.starts_with("PATH="); });
    std::string path = at == environment.end() ? "/bin:/usr/bin" : at->substr(5);
    for (path += ':'; !path.empty();) {
      const size_t end = path.find(':');
      const std::string place = end == 0 ? "." : path.substr(0, end);
      path.erase(0, end + 1);
      const int here = fault_of_file(absolute(place + "/" + name));
      if (here == 0) return place + "/" + name;
      if (here == EACCES) fault = here;
    }
  }
  const Code code = fault == EACCES || fault == EPERM ? Code::access_denied : Code::not_found;
  if (code == Code::not_found && name.find('/') == std::string::npos) {
    return Failure{code, fmt::format("{}: there is no such program (PATH was searched)", name)};
  }
  return Failure{code, fmt::format("{}: {}", name,
                                   code == Code::access_denied ? "is no program that may be run"
                                                               : std::strerror(fault))};
}

Result<pid_t> spawn(const Spawn& what) {
  ASSERT(what.input > 2 && what.output > 2 && what.errors > 2);
  const auto arguments = pointers_of(what.arguments);
  const auto environment = pointers_of(what.environment);
  std::vector<std::string> shell{"/bin/sh", what.program};
  shell.insert(shell.end(), what.arguments.begin() + 1, what.arguments.end());
  const auto shell_arguments = pointers_of(shell);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return Status::from_errno(errno);
  if (child == 0) {
    become(what, arguments.data(), shell_arguments.data(), environment.data(), parent);
  }
  // Both do it: whoever comes first.
  (void)::setpgid(child, child);
  return child;
}

}  // namespace penstock::job
