// Scratch directories and shared memory for tests.
#pragma once

#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::resources {

// A directory that is removed at the end.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = testing::TempDir() + "penstock-agent-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms(0755), ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string store() const { return path_ + "/store"; }

 private:
  std::string path_;
};

// Shared memory that this side maps, with any seals.
class TestMemory {
 public:
  TestMemory(uint64_t size, int seals, bool with_pages = true) : size_(size) {
    fd_.reset(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(::ftruncate(fd_.get(), static_cast<off_t>(size)), 0);
    EXPECT_EQ(::fcntl(fd_.get(), F_ADD_SEALS, seals), 0);
    base_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    EXPECT_NE(base_, MAP_FAILED);
    if (with_pages) {
      EXPECT_EQ(::madvise(base_, size, MADV_POPULATE_WRITE), 0);
    }
  }
  ~TestMemory() { ::munmap(base_, size_); }
  TestMemory(const TestMemory&) = delete;
  TestMemory& operator=(const TestMemory&) = delete;

  int fd() const { return fd_.get(); }
  uint64_t size() const { return size_; }
  MutableBytes bytes() const { return {static_cast<std::byte*>(base_), size_}; }

 private:
  uint64_t size_;
  UniqueFd fd_;
  void* base_ = nullptr;
};

}  // namespace penstock::resources
