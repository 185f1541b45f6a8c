// What is said of network cards and GPUs, with simulated ones of both and a /sys of the test's.
#include "check/gpu_network.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/sim.h"
#include "penstock/testing.h"
#include "penstock/testing_verbs.h"

namespace penstock::apps {
namespace {

namespace fs = std::filesystem;
using engine::DeviceId;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class OneCard final : public rails::Devices {
 public:
  std::vector<rails::Device> all() override { return {{.name = "card0"}}; }
  Outcome<std::unique_ptr<verbs::Provider>> open(const rails::Device&) override {
    auto device = std::make_unique<test::SimDevice>(fabric_);
    device->takes_device_memory = takes_device_memory;
    return std::unique_ptr<verbs::Provider>(std::move(device));
  }
  bool takes_device_memory = true;

 private:
  test::SimFabric fabric_{1};
};

class GpuNetwork : public testing::Test {
 protected:
  // The devices lie below one bridge, which root can read.
  void make_bridge(uint16_t acs_control) {
    const fs::path bridge = fs::path(root_.path()) / "sys/devices/pci0000:00/0000:00:01.0";
    std::string configuration(4096, '\0');
    const uint32_t first = 0x148 << 20 | 0x0001;
    const uint32_t second = 0x000d;
    std::memcpy(&configuration[0x100], &first, sizeof first);
    std::memcpy(&configuration[0x148], &second, sizeof second);
    std::memcpy(&configuration[0x148 + 6], &acs_control, sizeof acs_control);
    for (const char* device : {"0000:01:00.0", "0000:02:00.0"}) {
      fs::create_directories(bridge / device);
      std::ofstream(bridge / device / "config") << std::string(4096, '\0');
      link("sys/bus/pci/devices", device, bridge / device);
    }
    std::ofstream(bridge / "config", std::ios::binary) << configuration;
    fs::create_directories(fs::path(root_.path()) / "sys/class/infiniband/card0");
    link("sys/class/infiniband/card0", "device", bridge / "0000:02:00.0");
  }
  void link(const std::string& directory, const std::string& name, const fs::path& to) {
    const fs::path in = fs::path(root_.path()) / directory;
    fs::create_directories(in);
    fs::create_symlink(to, in / name);
  }
  std::string note(const std::string& no_cards = "") {
    const auto ways = network_ways(gpus_, DeviceId(0), cards_, no_cards, root_.path());
    EXPECT_EQ(ways.size(), 1u);
    return ways.empty() ? "" : ways[0].note;
  }

  test::ScratchDirectory root_;
  engine::SeededRandom random_{1};
  sim::SimDeviceMemory gpus_{random_};
  OneCard cards_;
};

TEST_F(GpuNetwork, card_that_takes_the_memory_is_named) {
  EXPECT_THAT(note(), HasSubstr("it is reached;"));
}

TEST_F(GpuNetwork, what_is_missing_is_said) {
  EXPECT_EQ(note("this machine has no RDMA device"), "this machine has no RDMA device");
  cards_.takes_device_memory = false;
  EXPECT_THAT(note(), HasSubstr("takes no dma-buf"));
  gpus_.shareable = false;
  EXPECT_THAT(note(), HasSubstr("the memory cannot be shared"));
}

TEST_F(GpuNetwork, bridges_that_redirect_are_named_with_the_command) {
  make_bridge(1 << 2);
  EXPECT_THAT(redirecting_bridges(root_.path(), "0000:01:00.0"), ElementsAre("0000:00:01.0"));
  EXPECT_THAT(note(), HasSubstr("setpci -s 0000:00:01.0 ECAP_ACS+6.w=0000"));
}

TEST_F(GpuNetwork, other_bridges_are_not) {
  make_bridge(1 << 4);
  EXPECT_THAT(redirecting_bridges(root_.path(), "0000:01:00.0"), IsEmpty());
  EXPECT_THAT(redirecting_bridges(root_.path(), "0000:09:00.0"), IsEmpty());
  EXPECT_THAT(redirecting_bridges(root_.path(), ""), IsEmpty());
}

// Of a user, and of a device that answers nonsense.
TEST_F(GpuNetwork, what_cannot_be_read_is_no_bridge_that_redirects) {
  make_bridge(1 << 2);
  const fs::path bridge = fs::path(root_.path()) / "sys/devices/pci0000:00/0000:00:01.0/config";
  std::ofstream(bridge, std::ios::trunc) << std::string(64, '\xff');
  EXPECT_THAT(redirecting_bridges(root_.path(), "0000:01:00.0"), IsEmpty());
  std::string endless(4096, '\0');
  const uint32_t to_itself = 0x100 << 20 | 0x0001;
  std::memcpy(&endless[0x100], &to_itself, sizeof to_itself);
  std::ofstream(bridge, std::ios::trunc | std::ios::binary) << endless;
  EXPECT_THAT(redirecting_bridges(root_.path(), "0000:01:00.0"), IsEmpty());
}

}  // namespace
}  // namespace penstock::apps
