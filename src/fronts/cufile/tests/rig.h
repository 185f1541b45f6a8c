// The library over simulated devices, with files of real file systems.
#pragma once

#include "cufile.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "penstock/gpu.h"
#include "penstock/sim.h"
#include "penstock/testing.h"

namespace penstock::cufile {

using Content = std::vector<std::byte>;

inline Content content(uint64_t offset, uint64_t length, uint64_t round = 0) {
  return test::content(length, round, offset);
}

// Each test begins and ends with the driver closed.
class Cufile : public testing::Test {
 protected:
  static constexpr uint64_t kFileBytes = 3 * kMiB + 777;
  static constexpr uint64_t kGpuBytes = 8 * kMiB;

  Cufile() {
    gpu::replace_devices(&devices_);
    span_ = *devices_.allocate(engine::DeviceId(0), kGpuBytes);
    gpu_ = span_.data;
  }
  ~Cufile() override {
    while (cuFileUseCount() > 0) EXPECT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
    gpu::replace_devices(nullptr);
  }

  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  // A descriptor of a file with content().
  UniqueFd make_file(const std::string& name, uint64_t bytes = kFileBytes, int flags = O_RDWR) {
    const UniqueFd fd(::open(path(name).c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644));
    const Content all = content(0, bytes);
    EXPECT_EQ(::write(fd.get(), all.data(), bytes), static_cast<ssize_t>(bytes));
    return UniqueFd(::open(path(name).c_str(), flags));
  }
  static CUfileOpError try_register(int fd, CUfileHandle_t* handle) {
    CUfileDescr_t description{};
    description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    description.handle.fd = fd;
    return cuFileHandleRegister(handle, &description).err;
  }
  static CUfileHandle_t handle_of(int fd) {
    CUfileHandle_t handle = nullptr;
    EXPECT_EQ(try_register(fd, &handle), CU_FILE_SUCCESS);
    return handle;
  }
  Content file_bytes(const std::string& name, uint64_t offset, uint64_t length) const {
    const UniqueFd fd(::open(path(name).c_str(), O_RDONLY));
    Content bytes(length);
    const ssize_t got = ::pread(fd.get(), bytes.data(), length, static_cast<off_t>(offset));
    bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return bytes;
  }
  Content gpu_bytes(uint64_t at, uint64_t length) {
    Content bytes(length);
    devices_.peek(gpu_ + at, bytes);
    return bytes;
  }

  const test::ScratchDirectory scratch_{"/var/tmp"};
  std::string directory_ = scratch_.path();  // where files are made
  engine::SeededRandom random_{1};
  sim::SimDeviceMemory devices_{random_};
  engine::DeviceSpan span_;
  std::byte* gpu_ = nullptr;
};

}  // namespace penstock::cufile
