// Jobs of the program `rank`, and what they print.
#pragma once

#include <fcntl.h>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "penstock/job.h"

namespace penstock::job::test {

struct Launched {
  int exit_code = -1;
  Failure failure;  // when nothing was started
  std::string out;
  std::string err;

  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    std::istringstream from(out);
    for (std::string line; std::getline(from, line);) lines.push_back(line);
    return lines;
  }
};

inline std::string content_of_file(int fd) {
  std::string content(static_cast<size_t>(::lseek(fd, 0, SEEK_END)), 0);
  (void)!::pread(fd, content.data(), content.size(), 0);
  return content;
}

// Its output goes to memory, which takes everything at once.
inline Launched launched(LaunchOptions options) {
  const UniqueFd out(::memfd_create("out", MFD_CLOEXEC));
  const UniqueFd err(::memfd_create("err", MFD_CLOEXEC));
  for (const int fd : {out.get(), err.get()}) ::fcntl(fd, F_SETFL, O_APPEND);
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (options.input == 0) options.input = nothing.get();
  options.output = out.get();
  options.errors = err.get();
  options.signals = false;
  const auto code = launch(options);
  Launched result;
  if (code) {
    result.exit_code = *code;
  } else {
    result.failure = code.error();
  }
  result.out = content_of_file(out.get());
  result.err = content_of_file(err.get());
  return result;
}

// `words` are those of tests/rank.cc.
inline LaunchOptions ranks(uint32_t size, std::vector<std::string> words) {
  LaunchOptions options;
  options.size = size;
  options.command = {JOB_RANK};
  options.command.insert(options.command.end(), words.begin(), words.end());
  return options;
}

}  // namespace penstock::job::test
