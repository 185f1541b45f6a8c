// A ring for kernels over simulated GPUs and a real agent; threads of the test play kernels.
#pragma once

#include "client.h"
#include "devices.h"
#include "penstock_device.h"
#include "penstock_device_ring.h"

#include <cerrno>
#include <gtest/gtest.h>

#include "penstock/sim.h"
#include "penstock/testing_kernels.h"
#include "penstock/testing_node.h"

namespace penstock::api {

using test::kSecond;

class DeviceRingTest : public testing::Test {
 protected:
  void SetUp() override {
    test::play_kernels();
    replace_devices(&gpus_);
    ASSERT_TRUE(agent_.start());
    ASSERT_EQ(client_.connect(scratch_.store()), 0) << penstock_last_error();
    client_.prepare(8 * kMiB);
    file_ = client_.open("/a", O_RDWR | O_CREAT);
    write(1);
    ASSERT_EQ(penstock_region_create_device(client_.session, 0, kRegionBytes, &gpu_), 0);
    ASSERT_EQ(penstock_device_ring_create(client_.session, gpu_, 64, &ring_), 0)
        << penstock_last_error();
    number_ = penstock_device_ring_add_file(ring_, file_);
    ASSERT_EQ(number_, 0);
  }
  void TearDown() override {
    penstock_close(std::exchange(client_.session, nullptr));
    replace_devices(nullptr);
  }

  void write(uint64_t seed) {
    content_.resize(kFileBytes);
    test::fill({content_.data(), kFileBytes}, seed);
    std::copy(content_.begin(), content_.end(), client_.memory());
    penstock_io io = client_.io(PENSTOCK_WRITE, file_, 0, kFileBytes);
    io.flags = PENSTOCK_DURABLE;
    ASSERT_EQ(client_.run(io), static_cast<int64_t>(kFileBytes));
  }

  // What a kernel is passed, with addresses that this process may follow.
  device::Ring view(penstock_device_ring* ring = nullptr) {
    device::Ring out{};
    EXPECT_EQ(penstock_device_ring_view(ring != nullptr ? ring : ring_, &out, sizeof out), 0);
    translate(out.control);
    translate(out.constants);
    translate(out.free_for);
    translate(out.hints);
    translate(out.memory);
    return out;
  }
  device::Request read(uint64_t offset, uint32_t length, uint64_t destination) const {
    device::Request request;
    request.file = static_cast<uint8_t>(number_);
    request.offset = offset;
    request.length = length;
    request.destination = destination;
    return request;
  }
  int64_t run(device::Ring& ring, const device::Request& request) {
    const int error = device::submit(ring, request, &ticket_);
    return error != 0 ? error : device::wait(ring, ticket_, 60 * kSecond);
  }
  void warm_without_reading() {
    ASSERT_EQ(client_.run(client_.io(PENSTOCK_WARM, file_, 0, kFileBytes)),
              static_cast<int64_t>(kFileBytes));
  }
  // Until the cache is mapped and pinned here, which happens in the background.
  void warm(device::Ring& ring) {
    const bool came = test::eventually([&] {
      warm_without_reading();
      EXPECT_EQ(run(ring, read(kFileBytes - 1, 1, 0)), 1);
      return ticket_.kind == device::kAddress || HasFailure();
    });
    ASSERT_TRUE(came) << "the node cache does not come";
  }
  bool holds(const device::Ring& ring, uint64_t at, uint64_t offset, uint64_t length) const {
    return std::equal(ring.memory + at, ring.memory + at + length,
                      reinterpret_cast<const char*>(content_.data()) + offset);
  }
  penstock_device_ring_stats stats(penstock_device_ring* ring = nullptr) {
    penstock_device_ring_stats out{};
    EXPECT_EQ(penstock_device_ring_get_stats(ring != nullptr ? ring : ring_, &out), 0);
    return out;
  }

  static constexpr uint64_t kFileBytes = 3 * kMiB + 777;
  static constexpr uint64_t kRegionBytes = 8 * kMiB;
  test::ScratchDirectory scratch_;
  test::AgentProcess agent_{scratch_.store(), 16 * kMiB};
  engine::SeededRandom random_{1};
  sim::SimDeviceMemory gpus_{random_};
  std::vector<std::byte> content_;
  Client client_;
  penstock_region* gpu_ = nullptr;
  penstock_device_ring* ring_ = nullptr;
  penstock_file file_ = -1;
  int number_ = -1;
  device::Ticket ticket_;

 private:
  template <class T>
  void translate(T*& pointer) {
    pointer =
        reinterpret_cast<T*>(gpus_.as_kernels_see(reinterpret_cast<const std::byte*>(pointer)));
  }
};

}  // namespace penstock::api
