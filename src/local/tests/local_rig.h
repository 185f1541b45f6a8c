// Transfers between real files and simulated devices, in real time.
#pragma once

#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "penstock/local.h"
#include "penstock/route.h"
#include "penstock/sim.h"
#include "penstock/testing.h"

namespace penstock::local {

// What a test writes in its `round`.
inline std::vector<std::byte> content(uint64_t offset, uint64_t length, uint64_t round = 0) {
  return test::content(length, round, offset);
}

class LocalRig {
 public:
  static constexpr uint64_t kDeviceBytes = 48 * kMiB;

  explicit LocalRig(LocalOptions options = {}) {
    const auto make = [&](engine::Loop& loop) {
      auto made = std::make_unique<LocalSource>(loop, devices, options);
      source = made.get();
      return made;
    };
    auto started = route::Transfers::start(devices, make, {.slots = slots.bytes()});
    ASSERT(started.has_value());
    transfers = std::move(*started);
    span = *devices.allocate(engine::DeviceId(0), kDeviceBytes);
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

  const test::MappedMemory slots{8 * kMiB};
  engine::SeededRandom random{1};
  sim::SimDeviceMemory devices{random};
  LocalSource* source = nullptr;
  std::unique_ptr<route::Transfers> transfers;
  engine::DeviceSpan span;
  Status status;
  engine::Route route = engine::Route::none;
};

}  // namespace penstock::local
