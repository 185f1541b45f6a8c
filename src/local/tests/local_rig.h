// Transfers between real files and simulated devices, in real time.
#pragma once

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "penstock/local.h"
#include "penstock/route.h"
#include "penstock/sim.h"

namespace penstock::local {

// Byte `i` of what a test writes in its `round`.
inline std::byte content_of(uint64_t i, uint64_t round = 0) {
  return static_cast<std::byte>(mix64(i + round * 77'777'777) >> 3);
}

inline std::vector<std::byte> content(uint64_t offset, uint64_t length, uint64_t round = 0) {
  std::vector<std::byte> bytes(length);
  for (uint64_t i = 0; i < length; ++i) bytes[i] = content_of(offset + i, round);
  return bytes;
}

// A directory that goes away afterwards.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const std::string& where) {
    std::string name = where + "/penstock-local-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr) << name;
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline MutableBytes map_memory(uint64_t bytes) {
  void* const mapped =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT(mapped != MAP_FAILED);
  return {static_cast<std::byte*>(mapped), bytes};
}

class LocalRig {
 public:
  static constexpr uint64_t kDeviceBytes = 48 * kMiB;

  explicit LocalRig(LocalOptions options = {}) : slots_(map_memory(8 * kMiB)) {
    const auto make = [&](engine::Loop& loop) {
      auto made = std::make_unique<LocalSource>(loop, devices, options);
      source = made.get();
      return made;
    };
    auto started = route::Transfers::start(devices, make, {.slots = slots_});
    ASSERT(started.has_value());
    transfers = std::move(*started);
    span = *devices.allocate(engine::DeviceId(0), kDeviceBytes);
  }
  ~LocalRig() {
    transfers.reset();
    ::munmap(slots_.data(), slots_.size());
  }

  void set_up(route::Transfer& transfer, uint32_t file, uint64_t offset, uint64_t length,
              uint64_t at) const {
    transfer.file = file;
    transfer.offset = offset;
    transfer.memory = {span.device, span.data + at, length, span.allocation};
  }
  // The bytes that one read brings; the error is in `status`.
  std::vector<std::byte> read(uint32_t file, uint64_t offset, uint64_t length, uint64_t at = 0) {
    route::Transfer transfer;
    set_up(transfer, file, offset, length, at);
    transfers->run(transfer);
    status = transfer.status;
    route = transfer.route;
    std::vector<std::byte> got(transfer.transferred);
    devices.peek(span.data + at, got);
    return got;
  }
  // How many bytes of `bytes` one write took.
  uint64_t write(uint32_t file, uint64_t offset, const std::vector<std::byte>& bytes,
                 uint64_t at = 0) {
    devices.poke(span.data + at, bytes);
    route::Transfer transfer;
    transfer.write = true;
    set_up(transfer, file, offset, bytes.size(), at);
    transfers->run(transfer);
    status = transfer.status;
    return transfer.transferred;
  }

  engine::SeededRandom random{1};
  sim::SimDeviceMemory devices{random};
  LocalSource* source = nullptr;
  std::unique_ptr<route::Transfers> transfers;
  engine::DeviceSpan span;
  Status status;
  engine::Route route = engine::Route::none;

 private:
  MutableBytes slots_;
};

}  // namespace penstock::local
