#include "jobs.h"

#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "penstock/job.h"

namespace penstock::shmem::testing {
namespace {

// Of jobs that say nothing else; small, as several run at a time.
constexpr const char* kHeap = "16m";

std::string content_of(int file) {
  std::string text(static_cast<size_t>(::lseek(file, 0, SEEK_END)), 0);
  const ssize_t got = ::pread(file, text.data(), text.size(), 0);
  EXPECT_EQ(got, static_cast<ssize_t>(text.size()));
  return text;
}

// Appended to: of two processes that write to one place of such a file at once, one would be lost.
UniqueFd make_file(const char* name) {
  UniqueFd file(::memfd_create(name, MFD_CLOEXEC));
  EXPECT_TRUE(file);
  EXPECT_EQ(::fcntl(file.get(), F_SETFL, O_APPEND), 0);
  return file;
}

}  // namespace

Ended run(const Job& job) {
  const UniqueFd output = make_file("output");
  const UniqueFd errors = make_file("errors");
  const UniqueFd nothing = make_file("input");
  job::LaunchOptions options;
  options.size = job.pes;
  options.command = job.command;
  options.environment = job.environment;
  options.environment.emplace_back("SHMEM_SYMMETRIC_SIZE", kHeap);
  for (const auto& [name, value] : job.environment) {
    if (name == "SHMEM_SYMMETRIC_SIZE") options.environment.pop_back();
  }
  options.input = nothing.get();
  options.output = output.get();
  options.errors = errors.get();
  options.signals = false;
  const Outcome<int> code = job::launch(options);
  if (!code) {
    ADD_FAILURE() << code.error().message;
    return {};
  }
  return {*code, content_of(output.get()), content_of(errors.get())};
}

Ended run_shell(const std::string& line) {
  Ended ended;
  FILE* const pipe = ::popen((line + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return ended;
  char part[4096];
  while (const size_t got = std::fread(part, 1, sizeof part, pipe)) ended.output.append(part, got);
  const int status = ::pclose(pipe);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

}  // namespace penstock::shmem::testing
