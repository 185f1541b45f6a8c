// A control group of this machine with little memory, below the one of this process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

namespace penstock::test {

class MemoryGroup {
 public:
  explicit MemoryGroup(uint64_t bytes) {
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; path_.empty() && std::getline(groups, line);) {
      const size_t memory = line.find(":memory:");
      if (line.starts_with("0::")) {
        try_below("/sys/fs/cgroup" + line.substr(3), "/memory.max", bytes);
      } else if (memory != std::string::npos) {
        try_below("/sys/fs/cgroup/memory" + line.substr(memory + 8), "/memory.limit_in_bytes",
                  bytes);
      }
    }
  }
  // All processes in it have ended, or left it.
  ~MemoryGroup() {
    std::error_code ignored;
    if (is_there()) std::filesystem::remove(path_, ignored);
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  // False where this process may not make one that limits anything.
  bool is_there() const { return !path_.empty(); }
  const std::string& path() const { return path_; }
  // The file that limits it.
  std::string limit() const { return path_ + limit_name_; }
  // That in which this process was when this was made.
  const std::string& own() const { return own_; }

  // Moves this process there.
  static bool enter(const std::string& path) {
    std::ofstream file(path + "/cgroup.procs");
    file << ::getpid() << std::flush;
    return file.good();
  }

 private:
  void try_below(const std::string& own, const char* limit_name, uint64_t bytes) {
    const std::string path = own + "/penstock-test-" + std::to_string(::getpid());
    std::error_code error;
    if (!std::filesystem::create_directory(path, error)) return;
    std::ofstream(path + limit_name) << bytes << std::flush;
    uint64_t allowed = 0;
    if (std::ifstream(path + limit_name) >> allowed && allowed == bytes) {
      path_ = path;
      own_ = own;
      limit_name_ = limit_name;
    } else {
      std::filesystem::remove(path, error);
    }
  }

  std::string path_;
  std::string own_;
  std::string limit_name_;
};

}  // namespace penstock::test
