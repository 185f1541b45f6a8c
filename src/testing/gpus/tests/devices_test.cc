// Simulated GPUs do what real ones do, as far as their users can tell.
#include "penstock_testing_gpus_cuda.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <gtest/gtest.h>
#include <vector>

namespace {

// ---- kernels ----

// Each thread adds its place once all of its block have come; 1,000 for each block.
void add_places(std::atomic<uint64_t>* sum, uint64_t* come) {
  ++*come;
  __syncthreads();
  if (*come % blockDim.x != 0) sum->fetch_add(1'000'000'000);
  __syncwarp();
  sum->fetch_add(threadIdx.x + (threadIdx.x == 0 ? 1000 * (blockIdx.x + 1) : 0));
}

void wait_for_word(const std::atomic<uint32_t>* word, std::atomic<uint32_t>* seen) {
  while (__any_sync(~0u, word->load() == 0)) {
  }
  seen->fetch_add(1);
}

void some_leave() {
  if (threadIdx.x != 0) __syncthreads();
}

void vote(std::array<uint32_t, 64>* answers) {
  (*answers)[threadIdx.x] = __all_sync(~0u, threadIdx.x != 40) ? 1 : 0;
}

PENSTOCK_HOST_KERNEL(add_places);
PENSTOCK_HOST_KERNEL(wait_for_word);
PENSTOCK_HOST_KERNEL(some_leave);
PENSTOCK_HOST_KERNEL(vote);

}  // namespace

namespace penstock::test {
namespace {

using engine::DeviceId;

constexpr uint64_t kPiece = uint64_t{2} << 20;

class SimulatedDevicesTest : public testing::TestWithParam<bool> {
 protected:
  static constexpr std::array<const char*, 5> kNames = {"add_places", "wait_for_word", "some_leave",
                                                        "vote", "none_of_this_name"};

  void SetUp() override {
    auto opened = devices_.open(DeviceId(0));
    ASSERT_TRUE(opened);
    device_ = std::move(*opened);
    ASSERT_TRUE(device_->load_kernels(nullptr, kNames));
  }

  template <class... Argument>
  Status launch(uint32_t kernel, uint32_t blocks, uint32_t threads, Argument... arguments) {
    std::array<void*, sizeof...(Argument)> addresses{&arguments...};
    return device_->launch(
        {.kernel = kernel, .blocks = blocks, .threads = threads, .arguments = addresses});
  }

  SimulatedDevices devices_{{.devices = 2, .memory_bytes = 4 * kPiece, .at_once = GetParam()}};
  std::unique_ptr<gpu::SymmetricDevice> device_;
};

INSTANTIATE_TEST_SUITE_P(All, SimulatedDevicesTest, testing::Values(false, true),
                         [](const auto& one) { return one.param ? "at_once" : "later"; });

TEST_P(SimulatedDevicesTest, run_all_threads_of_all_blocks_which_meet) {
  std::atomic<uint64_t> sum{0};
  uint64_t come = 0;
  ASSERT_TRUE(launch(0, 3, 100, &sum, &come).ok());
  ASSERT_TRUE(device_->synchronize(nullptr).ok());
  EXPECT_EQ(sum, 3 * (99 * 100 / 2) + 1000 + 2000 + 3000);
  EXPECT_EQ(devices_.launches(DeviceId(0)), 1);
  EXPECT_EQ(devices_.launches(DeviceId(1)), 0);
}

TEST_P(SimulatedDevicesTest, vote_by_warps) {
  std::array<uint32_t, 64> answers{};
  ASSERT_TRUE(launch(3, 1, 64, &answers).ok());
  ASSERT_TRUE(device_->synchronize(nullptr).ok());
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(answers[i], i < 32 ? 1 : 0) << i;
}

TEST_P(SimulatedDevicesTest, refuse_kernels_that_the_host_has_not) {
  EXPECT_EQ(launch(4, 1, 1).code(), Code::not_found);
  EXPECT_EQ(launch(5, 1, 1).code(), Code::not_found);
  EXPECT_TRUE(device_->synchronize(nullptr).ok());
}

TEST_P(SimulatedDevicesTest, tell_when_a_block_can_never_meet) {
  ASSERT_TRUE(launch(2, 1, 8).ok());
  EXPECT_EQ(device_->synchronize(nullptr).code(), Code::peer_gone);
  std::array<uint32_t, 64> answers{};
  EXPECT_EQ(launch(3, 1, 64, &answers).code(), Code::peer_gone);
}

TEST_P(SimulatedDevicesTest, give_memory_with_zeros_until_there_is_no_more) {
  auto window = device_->reserve(8 * kPiece);
  ASSERT_TRUE(window);
  ASSERT_TRUE((*window)->allocate(0, 3 * kPiece));
  const auto none = (*window)->allocate(3 * kPiece, 2 * kPiece);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().status.code(), Code::no_memory);
  EXPECT_TRUE((*window)->allocate(3 * kPiece, kPiece));
  std::vector<uint64_t> words(3 * kPiece / 8, 1);
  ASSERT_TRUE(device_->copy(words.data(), (*window)->begin(), 3 * kPiece, nullptr).ok());
  ASSERT_TRUE(device_->synchronize(nullptr).ok());
  EXPECT_EQ(std::count(words.begin(), words.end(), 0), static_cast<ptrdiff_t>(words.size()));
  window->reset();
  auto again = device_->reserve(4 * kPiece);
  ASSERT_TRUE(again);
  EXPECT_TRUE((*again)->allocate(0, 4 * kPiece));
}

TEST_P(SimulatedDevicesTest, show_memory_of_another_window_at_its_place) {
  auto one = device_->reserve(2 * kPiece);
  auto opened = devices_.open(DeviceId(1));
  ASSERT_TRUE(one && opened);
  auto other = (*opened)->reserve(2 * kPiece);
  ASSERT_TRUE(other);
  const auto memory = (*one)->allocate(kPiece, kPiece);
  ASSERT_TRUE(memory);
  ASSERT_TRUE((*other)->map(kPiece, kPiece, memory->get()));
  EXPECT_FALSE((*other)->map(0, 2 * kPiece, memory->get()));  // it is not so long
  uint64_t word = 42;
  ASSERT_TRUE((*opened)->copy((*other)->begin() + kPiece + 8, &word, 8, nullptr).ok());
  word = 0;  // a copy of pageable memory has taken it
  ASSERT_TRUE((*opened)->synchronize(nullptr).ok());
  ASSERT_TRUE(device_->copy(&word, (*one)->begin() + kPiece + 8, 8, nullptr).ok());
  EXPECT_EQ(word, 42);

  devices_.set_faults({.unreachable = 1});
  EXPECT_EQ((*other)->map(0, kPiece, memory->get()).error().status.code(), Code::not_supported);
}

TEST_P(SimulatedDevicesTest, fail_the_launch_that_they_are_told_to) {
  std::array<uint32_t, 64> answers{};
  devices_.set_faults({.launches_until_failure = 1});
  EXPECT_TRUE(launch(3, 1, 64, &answers).ok());
  EXPECT_EQ(launch(3, 1, 64, &answers).code(), Code::no_memory);
  EXPECT_TRUE(device_->synchronize(nullptr).ok());
}

// Streams do not wait for one another, and a lost device ends kernels that wait.
TEST(SimulatedStreams, go_on_beside_a_kernel_that_waits) {
  SimulatedDevices devices({.devices = 1});
  auto device = devices.open(DeviceId(0));
  ASSERT_TRUE(device);
  const std::array<const char*, 1> names = {"wait_for_word"};
  ASSERT_TRUE((*device)->load_kernels(nullptr, names));
  const auto words = (*device)->host_words(64);
  ASSERT_TRUE(words);
  auto* word = reinterpret_cast<std::atomic<uint32_t>*>(words->data());
  auto* seen = word + 1;
  std::array<void*, 2> arguments = {&word, &seen};
  const auto stream = devices.make_stream(DeviceId(0));
  const auto launch = [&] {
    return (*device)->launch(
        {.kernel = 0, .blocks = 1, .threads = 64, .arguments = arguments, .stream = stream});
  };
  ASSERT_TRUE(launch().ok());
  const uint32_t one = 1;
  ASSERT_TRUE((*device)->copy(word, &one, sizeof one, (*device)->own_stream()).ok());
  ASSERT_TRUE((*device)->synchronize(stream).ok());
  EXPECT_EQ(*seen, 64);

  *word = 0;
  ASSERT_TRUE(launch().ok());
  devices.lose(DeviceId(0));
  EXPECT_EQ((*device)->synchronize(stream).code(), Code::peer_gone);
  EXPECT_EQ(*seen, 64);
}

}  // namespace
}  // namespace penstock::test
