// The threads that the library has started in this process, which take no signals: those are for
// the program's own.
#pragma once

#include <csignal>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

namespace penstock::api {

// How many there are besides the main one; the test fails if one takes signals.
inline int count_library_threads() {
  int threads = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::getpid())) continue;
    std::ifstream status(task.path() / "status");
    uint64_t blocked = 0;
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("SigBlk:")) blocked = std::stoull(line.substr(8), nullptr, 16);
    }
    ++threads;
    EXPECT_NE(blocked & uint64_t{1} << (SIGINT - 1), 0U) << task.path();
    EXPECT_NE(blocked & uint64_t{1} << (SIGUSR1 - 1), 0U) << task.path();
  }
  return threads;
}

}  // namespace penstock::api
