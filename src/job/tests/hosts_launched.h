// Jobs over several "hosts" of this machine: what stands in for ssh is a script.
#pragma once

#include "launched.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <sys/stat.h>

namespace penstock::job::test {

// A directory with the script in it.
class FakeShell {
 public:
  // `text` comes before the command is run: a program of bash, with $host. Bash reads the user's
  // own commands where its input is a socket, unless it is told not to.
  explicit FakeShell(const std::string& text = "") {
    std::string made = std::filesystem::temp_directory_path() / "hosts-XXXXXX";
    directory_ = ::mkdtemp(made.data());
    std::ofstream(path()) << "#!/bin/bash\nhost=$1; shift\n"
                          << text << "\nexec bash --norc -c \"$*\"\n";
    ::chmod(path().c_str(), 0700);
  }
  ~FakeShell() { std::filesystem::remove_all(directory_); }
  FakeShell(const FakeShell&) = delete;
  FakeShell& operator=(const FakeShell&) = delete;

  std::string path() const { return directory_ + "/shell"; }
  const std::string& directory() const { return directory_; }

 private:
  std::string directory_;
};

// What each rank runs.
inline LaunchOptions bash_line(const std::string& text, bool label = false) {
  LaunchOptions options;
  options.command = {"bash", "-c", text};
  options.label = label;
  return options;
}

// Puts the ranks of a job on hosts, so many on each.
inline LaunchOptions on_hosts(LaunchOptions options, const FakeShell& shell,
                              const std::vector<std::pair<std::string, uint32_t>>& hosts) {
  options.size = 0;
  for (const auto& [host, count] : hosts) {
    options.nodes.push_back({host, count, host == "localhost"});
    options.size += count;
  }
  options.remote.shell = {shell.path()};
  options.remote.program = options.remote.remote_program = JOB_RANK;
  options.remote.version = "1";
  options.remote.passed = {"PATH"};
  return options;
}

}  // namespace penstock::job::test
