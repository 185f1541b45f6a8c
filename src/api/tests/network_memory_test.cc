// GPU memory and the disks of another node, with network cards between that are simulated as the
// GPUs are: two agents in this process, each with its threads.
#include "client.h"
#include "devices.h"
#include "shared_fabric.h"

#include <gtest/gtest.h>

#include "penstock/agent.h"
#include "penstock/sim.h"
#include "penstock/testing_node.h"

namespace penstock::api {
namespace {

constexpr uint64_t kFileBytes = 5 * kMiB + 777;
constexpr uint64_t kGpuBytes = 16 * kMiB;

class NetworkMemory : public testing::Test {
 protected:
  void SetUp() override {
    log::set_level(log::Level::error);
    replace_devices(&gpus_);
  }
  void TearDown() override {
    if (client_.session != nullptr) penstock_close(std::exchange(client_.session, nullptr));
    replace_devices(nullptr);
    if (first_ != nullptr) first_->stop();
    if (second_ != nullptr) second_->stop();
  }

  agent::ClusterOptions options(bool takes_device_memory) {
    agent::ClusterOptions options;
    options.listen = {test::free_address()};
    options.insecure = true;
    options.devices = std::make_shared<SharedCard>(fabric_, takes_device_memory);
    return options;
  }
  // The first node has the names, the second the disk.
  void start(bool takes_device_memory = true) {
    agent::AgentConfig config;
    config.directory = scratch_ / "first";
    config.cluster = options(takes_device_memory);
    config.cluster->roles = cluster::kAllRoles & ~cluster::kStorageOnly;
    auto first = agent::Agent::start(config);
    ASSERT_TRUE(first) << first.error().message;
    first_ = std::move(*first);
    agent::AgentConfig other;
    other.directory = scratch_ / "second";
    other.capacity_bytes = 256 * kMiB;
    other.cluster = options(true);
    other.cluster->roles = cluster::kStorageOnly;
    other.cluster->invitation = first_->cluster()->status().invitation;
    auto second = agent::StorageAgent::start(other);
    ASSERT_TRUE(second) << second.error().message;
    second_ = std::move(*second);
    // Not before the disk is known to serve.
    ASSERT_TRUE(test::eventually([&] {
      return first_->cluster()->ask(controller::TablePlan{.copies = 1, .chains = 4}).has_value();
    }));
    ASSERT_TRUE(test::eventually([&] { return !first_->files().tables().empty(); }));
    const client::Credentials root;
    const auto directory = first_->files().resolve(root, "/", true);
    ASSERT_TRUE(directory);
    client::LayoutChange change;
    change.copies = 1;
    const auto set = first_->files().set_layout(root, directory->inode, change, nullptr);
    ASSERT_TRUE(set) << set.error().message;
    ASSERT_NO_FATAL_FAILURE(connect());
  }
  void connect() {
    ASSERT_EQ(client_.connect(scratch_ / "first"), 0) << penstock_last_error();
    client_.prepare(8 * kMiB);
    file_ = client_.open("/a", O_RDWR | O_CREAT);
    ASSERT_GE(file_, 0) << penstock_last_error();
    test::fill({content_.data(), kFileBytes}, 1);
    std::copy(content_.begin(), content_.end(), client_.memory());
    ASSERT_EQ(client_.run(client_.io(PENSTOCK_WRITE, file_, 0, kFileBytes)),
              static_cast<int64_t>(kFileBytes));
    ASSERT_EQ(penstock_region_create_device(client_.session, 0, kGpuBytes, &gpu_), 0)
        << penstock_last_error();
  }
  penstock_io io(uint8_t operation, uint64_t offset, uint64_t length, uint64_t to) const {
    penstock_io out = client_.io(operation, file_, offset, length, to);
    out.region = gpu_;
    return out;
  }
  bool holds(uint64_t at, uint64_t offset, uint64_t length) {
    std::vector<std::byte> got(length);
    gpus_.peek(static_cast<std::byte*>(penstock_region_base(gpu_)) + at, got);
    return std::equal(got.begin(), got.end(), content_.begin() + static_cast<int64_t>(offset));
  }
  // The first calls go by TCP, until the queue pairs stand.
  penstock_route route_of_read() {
    penstock_route route = 0;
    EXPECT_EQ(client_.run(io(PENSTOCK_READ, 0, kFileBytes, 0), &route),
              static_cast<int64_t>(kFileBytes));
    return route;
  }
  uint64_t operations_by_card() const {
    for (const auto& [route, count] : first_->status().operations_by_route) {
      if (route == "device-network") return count;
    }
    return 0;
  }

  test::ScratchDirectory scratch_;
  engine::SeededRandom random_{1};
  sim::SimDeviceMemory gpus_{random_};
  SharedFabric fabric_;
  std::vector<std::byte> content_ = std::vector<std::byte>(kFileBytes);
  std::unique_ptr<agent::Agent> first_;
  std::unique_ptr<agent::StorageAgent> second_;
  Client client_;
  penstock_region* gpu_ = nullptr;
  penstock_file file_ = -1;
};

TEST_F(NetworkMemory, bytes_of_another_node_land_in_gpu_memory_with_nothing_between) {
  ASSERT_NO_FATAL_FAILURE(start());
  ASSERT_TRUE(test::eventually([&] { return route_of_read() == PENSTOCK_ROUTE_DEVICE_NETWORK; }));
  EXPECT_TRUE(holds(0, 0, kFileBytes));
  const uint64_t before = operations_by_card();
  penstock_route route = 0;
  EXPECT_EQ(client_.run(io(PENSTOCK_READ, 4099, 12345, 7), &route), 12345);
  EXPECT_EQ(route, PENSTOCK_ROUTE_DEVICE_NETWORK);
  EXPECT_TRUE(holds(7, 4099, 12345));
  EXPECT_EQ(client_.run(io(PENSTOCK_READ, kFileBytes - 10, 4096, 1)), 10);
  EXPECT_EQ(client_.run(io(PENSTOCK_READ, kFileBytes, 4096, 1)), 0);
  EXPECT_GE(operations_by_card(), before + 2);
}

TEST_F(NetworkMemory, gpu_memory_is_written_to_another_node) {
  ASSERT_NO_FATAL_FAILURE(start());
  ASSERT_TRUE(test::eventually([&] { return route_of_read() == PENSTOCK_ROUTE_DEVICE_NETWORK; }));
  std::vector<std::byte> bytes(3 * kMiB);
  test::fill(bytes, 9);
  gpus_.poke(static_cast<std::byte*>(penstock_region_base(gpu_)) + 512, bytes);
  penstock_route route = 0;
  EXPECT_EQ(client_.run(io(PENSTOCK_WRITE, 1000, bytes.size(), 512), &route),
            static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(route, PENSTOCK_ROUTE_DEVICE_NETWORK);
  ASSERT_EQ(client_.run(client_.io(PENSTOCK_READ, file_, 1000, bytes.size())),
            static_cast<int64_t>(bytes.size()));
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), client_.memory()));
}

TEST_F(NetworkMemory, card_that_takes_no_gpu_memory_is_not_in_the_way) {
  ASSERT_NO_FATAL_FAILURE(start(false));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(route_of_read(), PENSTOCK_ROUTE_DEVICE_SLOTS);
    EXPECT_TRUE(holds(0, 0, kFileBytes));
  }
  EXPECT_EQ(operations_by_card(), 0u);
}

TEST_F(NetworkMemory, gpu_memory_that_cannot_be_shown_is_not_in_the_way) {
  gpus_.shareable = false;
  ASSERT_NO_FATAL_FAILURE(start());
  EXPECT_EQ(route_of_read(), PENSTOCK_ROUTE_DEVICE_SLOTS);
  EXPECT_TRUE(holds(0, 0, kFileBytes));
}

// Regions go and come while others are read into.
TEST_F(NetworkMemory, what_was_released_is_known_to_no_card) {
  ASSERT_NO_FATAL_FAILURE(start());
  ASSERT_TRUE(test::eventually([&] { return route_of_read() == PENSTOCK_ROUTE_DEVICE_NETWORK; }));
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(penstock_region_release(std::exchange(gpu_, nullptr)), 0) << penstock_last_error();
    ASSERT_EQ(penstock_region_create_device(client_.session, i % 2, kGpuBytes, &gpu_), 0);
    (void)route_of_read();
    EXPECT_TRUE(holds(0, 0, kFileBytes));
  }
  penstock_close(std::exchange(client_.session, nullptr));
  EXPECT_TRUE(test::eventually([&] { return first_->status().sessions.empty(); }));
}

}  // namespace
}  // namespace penstock::api
