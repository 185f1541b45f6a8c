// GPU memory that other sessions find by its id, with simulated GPUs. Another session stands for
// another process: the simulation's handles mean something within one process only.
#include "client.h"
#include "devices.h"

#include <cerrno>
#include <gtest/gtest.h>

#include "penstock/sim.h"
#include "penstock/testing_node.h"

namespace penstock::api {
namespace {

constexpr unsigned char kId[16] = {1, 2, 3, 0xff};
constexpr unsigned char kOtherId[16] = {9};

class PublishedRegions : public testing::Test {
 protected:
  void SetUp() override {
    replace_devices(&gpus_);
    ASSERT_TRUE(agent_.start());
    for (Client* client : {&mine_, &other_}) {
      ASSERT_EQ(client->connect(scratch_.store()), 0) << penstock_last_error();
    }
    ASSERT_EQ(penstock_region_create_device(mine_.session, 1, kMiB, &region_), 0)
        << penstock_last_error();
  }
  void TearDown() override {
    penstock_close(std::exchange(mine_.session, nullptr));
    penstock_close(std::exchange(other_.session, nullptr));
    replace_devices(nullptr);
  }

  int open(const unsigned char* id = kId) {
    return penstock_region_open(other_.session, id, &opened_);
  }
  // Until a successor of the agent has been told.
  bool can_be_opened_soon() {
    return test::eventually([this] { return open() == 0; });
  }
  bool exists(const void* address) { return gpus_.find(address, 1).has_value(); }

  test::ScratchDirectory scratch_;
  test::AgentProcess agent_{scratch_.store()};
  engine::SeededRandom random_{1};
  sim::SimDeviceMemory gpus_{random_};
  Client mine_, other_;
  penstock_region* region_ = nullptr;
  penstock_region* opened_ = nullptr;
};

TEST_F(PublishedRegions, are_the_same_memory_for_whoever_opens_them) {
  EXPECT_EQ(open(), -ENOENT);
  ASSERT_EQ(penstock_region_publish(region_, kId), 0) << penstock_last_error();
  ASSERT_EQ(open(), 0) << penstock_last_error();
  EXPECT_EQ(penstock_region_base(opened_), penstock_region_base(region_));
  EXPECT_EQ(penstock_region_size(opened_), kMiB);
  EXPECT_EQ(penstock_region_gpu(opened_), 1);

  other_.prepare();
  const penstock_file file = other_.open("/a", O_RDWR | O_CREAT);
  test::fill({other_.memory(), 5000}, 4);
  ASSERT_EQ(other_.run(other_.io(PENSTOCK_WRITE, file, 0, 5000)), 5000);
  penstock_io read = other_.io(PENSTOCK_READ, file, 0, 5000, 77);
  read.region = opened_;
  ASSERT_EQ(other_.run(read), 5000);
  std::vector<std::byte> got(5000);
  gpus_.peek(static_cast<std::byte*>(penstock_region_base(region_)) + 77, got);
  EXPECT_TRUE(test::is_content({got.data(), got.size()}, 4));
}

TEST_F(PublishedRegions, may_be_a_part_of_an_allocation) {
  const Outcome<engine::DeviceSpan> span = gpus_.allocate(engine::DeviceId(0), kMiB);
  penstock_region* part = nullptr;
  ASSERT_EQ(penstock_region_register_device(mine_.session, span->data + 512, 10'000, &part), 0);
  ASSERT_EQ(penstock_region_publish(part, kId), 0) << penstock_last_error();
  ASSERT_EQ(open(), 0) << penstock_last_error();
  EXPECT_EQ(penstock_region_base(opened_), span->data + 512);
  EXPECT_EQ(penstock_region_size(opened_), 10'000u);
  EXPECT_EQ(penstock_region_release(part), 0);
  EXPECT_TRUE(gpus_.release(*span).ok());
  EXPECT_TRUE(exists(span->data)) << "whoever has opened it keeps it";
  EXPECT_EQ(penstock_region_release(opened_), 0);
  EXPECT_FALSE(exists(span->data));
}

TEST_F(PublishedRegions, are_found_until_they_are_unpublished_and_stay_with_who_has_them) {
  EXPECT_EQ(penstock_region_unpublish(region_), -ENOENT);
  ASSERT_EQ(penstock_region_publish(region_, kId), 0);
  ASSERT_EQ(open(), 0);
  EXPECT_EQ(penstock_region_unpublish(region_), 0);
  EXPECT_EQ(penstock_region_unpublish(region_), -ENOENT);
  penstock_region* late = nullptr;
  EXPECT_EQ(penstock_region_open(other_.session, kId, &late), -ENOENT);
  EXPECT_NE(std::string(penstock_last_error()).find("no process has published"), std::string::npos);
  const void* const memory = penstock_region_base(region_);
  penstock_close(std::exchange(mine_.session, nullptr));
  EXPECT_TRUE(exists(memory));
  EXPECT_EQ(penstock_region_release(opened_), 0);
  EXPECT_FALSE(exists(memory));
}

TEST_F(PublishedRegions, are_gone_with_the_region_or_the_session) {
  ASSERT_EQ(penstock_region_publish(region_, kId), 0);
  EXPECT_EQ(penstock_region_release(region_), 0);
  EXPECT_EQ(open(), -ENOENT);
  ASSERT_EQ(penstock_region_create_device(mine_.session, 0, kMiB, &region_), 0);
  ASSERT_EQ(penstock_region_publish(region_, kId), 0) << "the id is free again";
  penstock_close(std::exchange(mine_.session, nullptr));
  EXPECT_TRUE(test::eventually([this] {
    const int result = open();
    if (result == 0) penstock_region_release(opened_);
    return result == -ENOENT;
  }));
}

TEST_F(PublishedRegions, are_refused_with_a_reason) {
  ASSERT_EQ(penstock_region_publish(region_, kId), 0);
  EXPECT_EQ(penstock_region_publish(region_, kOtherId), -EEXIST) << "one id each";
  penstock_region* second = nullptr;
  ASSERT_EQ(penstock_region_create_device(other_.session, 0, 4096, &second), 0);
  EXPECT_EQ(penstock_region_publish(second, kId), -EEXIST);
  EXPECT_NE(std::string(penstock_last_error()).find("under this id"), std::string::npos);
  EXPECT_EQ(penstock_region_publish(second, kOtherId), 0) << "it may be published after all";
  penstock_region* host = nullptr;
  ASSERT_EQ(penstock_region_create(mine_.session, 4096, &host), 0);
  EXPECT_EQ(penstock_region_publish(host, kId), -EINVAL);
  EXPECT_EQ(penstock_region_unpublish(host), -EINVAL);
  EXPECT_EQ(penstock_region_publish(nullptr, kId), -EINVAL);
  EXPECT_EQ(penstock_region_publish(region_, nullptr), -EINVAL);
  EXPECT_EQ(penstock_region_open(mine_.session, nullptr, &second), -EINVAL);
  EXPECT_EQ(penstock_region_open(nullptr, kId, &second), -EINVAL);
  EXPECT_EQ(penstock_region_open(mine_.session, kId, nullptr), -EINVAL);
}

TEST_F(PublishedRegions, of_a_gpu_that_is_not_seen_cannot_be_opened) {
  ASSERT_EQ(penstock_region_publish(region_, kId), 0);
  sim::SimDeviceMemory elsewhere(random_, {.host = 2});
  replace_devices(&elsewhere);
  EXPECT_EQ(open(), -ENODEV);
  replace_devices(&gpus_);
  EXPECT_EQ(open(), 0);
}

TEST_F(PublishedRegions, are_bounded_and_the_session_goes_on) {
  std::vector<penstock_region*> regions;
  int result = 0;
  for (uint16_t i = 0; result == 0 && i < 1000; ++i) {
    unsigned char id[16] = {static_cast<unsigned char>(i), static_cast<unsigned char>(i >> 8), 7};
    ASSERT_EQ(penstock_region_create_device(mine_.session, 0, 4096, &regions.emplace_back()), 0);
    result = penstock_region_publish(regions.back(), id);
  }
  EXPECT_EQ(result, -EAGAIN);
  EXPECT_EQ(regions.size(), 257u);
  ASSERT_EQ(penstock_region_release(regions[0]), 0);
  EXPECT_EQ(penstock_region_publish(regions.back(), kId), 0) << penstock_last_error();
}

TEST_F(PublishedRegions, are_shown_again_by_a_successor_of_the_agent) {
  ASSERT_EQ(penstock_region_publish(region_, kId), 0);
  penstock_region* hidden = nullptr;
  ASSERT_EQ(penstock_region_create_device(mine_.session, 0, 4096, &hidden), 0);
  ASSERT_EQ(penstock_region_publish(hidden, kOtherId), 0);
  ASSERT_EQ(penstock_region_unpublish(hidden), 0);
  for (int round = 0; round < 2; ++round) {
    agent_.kill();
    ASSERT_TRUE(agent_.start());
    ASSERT_TRUE(can_be_opened_soon());
    EXPECT_EQ(penstock_region_base(opened_), penstock_region_base(region_));
    EXPECT_EQ(open(kOtherId), -ENOENT);
  }
  EXPECT_EQ(penstock_region_unpublish(region_), 0);
  EXPECT_EQ(open(), -ENOENT);
}

TEST_F(PublishedRegions, settle_waits_for_the_default_stream_and_host_memory_for_nothing) {
  std::atomic<bool> done{false};
  gpus_.enqueue(nullptr, [&] {
    ::usleep(20'000);
    done = true;
  });
  EXPECT_EQ(penstock_region_settle(region_), 0);
  EXPECT_TRUE(done);
  penstock_region* host = nullptr;
  ASSERT_EQ(penstock_region_create(mine_.session, 4096, &host), 0);
  EXPECT_EQ(penstock_region_settle(host), 0);
  EXPECT_EQ(penstock_region_settle(nullptr), -EINVAL);
  EXPECT_EQ(penstock_gpu_count(), 2);
}

}  // namespace
}  // namespace penstock::api
