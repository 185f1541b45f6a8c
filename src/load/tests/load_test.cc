// Loads of files that say more than there is, or do not stay as they are.
#include "penstock/load/load.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "penstock/sim.h"

namespace penstock::load {
namespace {

using engine::DeviceId;
using testing::HasSubstr;

// One tensor of so many bytes, of which there are none: nothing but the header is ever read.
class HugeFiles final : public Files {
 public:
  explicit HugeFiles(uint64_t bytes) {
    std::vector<model::Tensor> tensors = {
        {.name = "x", .dtype = "U8", .shape = {bytes}, .bytes = bytes}};
    header_ = model::make_header(&tensors, {});
    bytes_ = header_.size() + bytes;
  }

  Outcome<uint64_t> open(const std::string&) override { return bytes_; }
  Outcome<void> read(uint32_t, uint64_t offset, MutableBytes to) override {
    std::memcpy(to.data(), header_.data() + offset, to.size());
    return {};
  }
  Outcome<std::vector<FileTransfers>> transfers(size_t) override {
    was_asked_for_ways = true;
    return Failure{Code::not_supported, "no transfers"};
  }
  Outcome<void> check_unchanged() override { return {}; }

  bool was_asked_for_ways = false;

 private:
  std::string header_;
  uint64_t bytes_ = 0;
};

class LoadTest : public testing::Test {
 protected:
  LoadTest() {
    request_.paths = {"/a"};
    request_.devices = {DeviceId(0)};
  }
  void make_gpus(std::vector<uint64_t> peers) {
    devices_ = std::make_unique<sim::SimDeviceMemory>(
        random_, sim::SimDeviceOptions{.devices = static_cast<uint32_t>(peers.size()),
                                       .memory_bytes = 160 * kMiB,
                                       .peers = peers});
  }
  Failure failure_of(HugeFiles& files) {
    const auto loaded = load(files, *devices_, engine::system_clock(), request_);
    EXPECT_FALSE(loaded);
    return loaded ? Failure{} : loaded.error();
  }
  static uint64_t memory_peak() {
    rusage usage{};
    EXPECT_EQ(::getrusage(RUSAGE_SELF, &usage), 0);
    return static_cast<uint64_t>(usage.ru_maxrss) * kKiB;
  }

  engine::SeededRandom random_{1};
  std::unique_ptr<sim::SimDeviceMemory> devices_;
  Request request_;
};

TEST_F(LoadTest, file_larger_than_every_gpu_costs_no_host_memory) {
  make_gpus({0});
  HugeFiles files(200 * 1024 * kGiB);
  const uint64_t before = memory_peak();
  EXPECT_EQ(failure_of(files).status, Code::no_memory);
  EXPECT_LT(memory_peak() - before, 16 * kMiB);
}

// GPU 2 reaches 0 but not 1, which are of one group; GPU 3 is reached by both and reaches one.
TEST_F(LoadTest, lender_that_does_not_reach_a_whole_group_is_refused_or_left_out) {
  make_gpus({0b1110, 0b1001, 0b0001, 0b0001});
  HugeFiles files(kMiB);
  request_.devices = {DeviceId(0), DeviceId(1)};
  for (const uint32_t lender : {2U, 3U}) {
    request_.lenders = {DeviceId(lender)};
    const Failure failure = failure_of(files);
    EXPECT_EQ(failure.status, Code::not_supported);
    EXPECT_THAT(failure.message, HasSubstr(fmt::format("GPU {} cannot lend its link", lender)));
  }
  EXPECT_FALSE(files.was_asked_for_ways);
  request_.lenders = {};
  request_.lend_all = true;
  EXPECT_THAT(failure_of(files).message, HasSubstr("no transfers"));
}

TEST(Lending, needs_one_group_that_is_reached_both_ways) {
  // 0 and 1 reach each other, 2 and 3 as well; 4 reaches 2 and 3 and they it; 5 is reached only.
  const std::vector<uint64_t> peers = {0b000010, 0b000001, 0b111000, 0b110100, 0b001100, 0};
  const std::vector<DeviceId> all = {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)};
  EXPECT_EQ(groups_of(all, peers), (std::vector<std::vector<size_t>>{{0, 1}, {2, 3}}));
  EXPECT_TRUE(can_lend(DeviceId(4), all, peers));
  EXPECT_FALSE(can_lend(DeviceId(5), all, peers));
  EXPECT_FALSE(can_lend(DeviceId(4), std::span(all).first(2), peers));
}

}  // namespace
}  // namespace penstock::load
