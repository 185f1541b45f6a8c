#include "penstock/testing/scratch_directory.h"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <iostream>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::test {
namespace {

namespace fs = std::filesystem;

// Who is not root must be let into each directory before it can be emptied.
void open_up(const std::string& path) {
  std::error_code error;
  if (::geteuid() == 0 || !fs::is_directory(fs::symlink_status(path, error))) return;
  ::chmod(path.c_str(), 0700);
  fs::recursive_directory_iterator below(path, error), end;
  for (; !error && below != end; below.increment(error)) {
    if (fs::is_directory(below->symlink_status(error))) ::chmod(below->path().c_str(), 0700);
  }
}

}  // namespace

void remove_all(const std::string& path) {
  open_up(path);
  std::error_code error;
  fs::remove_all(path, error);
  if (error) std::cerr << "removing " << path << ": " << error.message() << "\n";
}

ScratchDirectory::ScratchDirectory(const std::string& parent) {
  std::string pattern = (parent.empty() ? ::testing::TempDir() : parent) + "/penstock-test-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr || ::chmod(pattern.c_str(), 0755) != 0) {
    std::cerr << pattern << " cannot be made\n";
    std::abort();
  }
  path_ = fs::canonical(pattern);
}

ScratchDirectory::~ScratchDirectory() {
  if (!kept_) remove_all(path_);
}

}  // namespace penstock::test
