// Memory that was announced, of the host and of a (simulated) GPU, in calls between two nodes.
#include "nodes.h"

#include <cstring>
#include <sys/mman.h>

#include "penstock/sim.h"

namespace penstock::rails {
namespace {

using engine::Access;
using engine::MemoryKind;
using engine::Op;

constexpr uint64_t kBytes = 3 * kMiB;
constexpr uint64_t kInto = kMiB + 512;  // where what calls expose begins
constexpr uint64_t kLength = 100 * kKiB;

std::vector<std::byte> pattern(uint64_t length, uint8_t seed) {
  std::vector<std::byte> bytes(length);
  for (uint64_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(i * 13 + seed);
  return bytes;
}

// Moves bytes between its own memory and what a call exposes, and answers.
class MovingService final : public engine::Service {
 public:
  void on_call(engine::IncomingCall& call) override {
    transfer_.call = &call;
    transfer_.local = {bytes.data(), bytes.size()};
    transfer_.owner = this;
    transfer_.completion = [](Op& op) {
      auto& done = static_cast<engine::TransferOp&>(op);
      done.call->reply(done.status, {});
    };
    if (call.exposure_access(0) == Access::place) return call.place(transfer_);
    call.fetch(transfer_);
  }
  std::vector<std::byte> bytes = pattern(kLength, 1);

 private:
  engine::TransferOp transfer_;
};

// Addresses that nothing is behind.
class Reserved {
 public:
  explicit Reserved(uint64_t length)
      : bytes_(static_cast<std::byte*>(
                   ::mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
               length) {}
  ~Reserved() { ::munmap(bytes_.data(), bytes_.size()); }
  MutableBytes bytes() const { return bytes_; }

 private:
  const MutableBytes bytes_;
};

class AnnouncedTest : public testing::Test {
 protected:
  AnnouncedTest() {
    log::set_level(log::Level::error);
    nodes_.start();
    nodes_.far.rails->serve(kService, service_);
  }
  ~AnnouncedTest() override { nodes_.far.rails->withdraw(kService); }

  Status call(const engine::MemoryRef& memory, Access access) {
    engine::CallOp op;
    bool ended = false;
    op.to = kService;
    op.exposures[0] = {memory, access};
    op.exposure_count = 1;
    op.owner = &ended;
    op.completion = [](Op& done) { done.owner_as<bool>() = true; };
    nodes_.near.rails->call(op);
    EXPECT_TRUE(nodes_.until([&] { return ended; }));
    return op.status;
  }
  void join() {
    (void)nodes_.near.rails->prepare(kService);
    ASSERT_TRUE(nodes_.until([&] { return nodes_.near.rails->prepare(kService); }));
  }
  // What stands for the GPU's memory in calls, as a part of it.
  engine::MemoryRef exposed() const {
    return {shown_.bytes().data() + kInto, kLength, engine::kNoBuffer, MemoryKind::device};
  }
  void announce_gpu() {
    allocated_ = *gpus_.allocate(engine::DeviceId(0), kBytes);
    dma_buf_ = *gpus_.export_dma_buf(allocated_);
    nodes_.near.rails->announce({shown_.bytes(), dma_buf_.fd.get(), dma_buf_.offset});
  }
  std::vector<std::byte> on_gpu(uint64_t offset, uint64_t length) {
    std::vector<std::byte> bytes(length);
    gpus_.peek(allocated_.data + offset, bytes);
    return bytes;
  }

  MovingService service_;
  engine::SeededRandom random_{1};
  sim::SimDeviceMemory gpus_{random_};
  engine::DeviceSpan allocated_;
  engine::DmaBuf dma_buf_;
  const Reserved shown_{kBytes};
  TwoNodes nodes_;
};

TEST_F(AnnouncedTest, host_memory_is_registered_once_also_on_a_device_that_opens_later) {
  std::vector<std::byte> memory(kBytes);
  nodes_.near.rails->announce({memory});
  join();
  const uint64_t before = nodes_.near.device->registrations;
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(call({memory.data() + kInto, kLength}, Access::place).ok());
  }
  EXPECT_EQ(nodes_.near.device->registrations, before + 1);
  EXPECT_EQ(std::memcmp(memory.data() + kInto, service_.bytes.data(), kLength), 0);
  nodes_.near.rails->take_back(memory);
  EXPECT_TRUE(call({memory.data(), kLength}, Access::place).ok());
  EXPECT_EQ(nodes_.near.device->registrations, before + 2);
}

TEST_F(AnnouncedTest, bytes_land_in_gpu_memory_and_beside_them_nothing) {
  join();
  announce_gpu();
  const auto before = on_gpu(0, kBytes);
  ASSERT_TRUE(call(exposed(), Access::place).ok());
  EXPECT_EQ(on_gpu(kInto, kLength), service_.bytes);
  EXPECT_EQ(on_gpu(0, kInto), std::vector(before.begin(), before.begin() + kInto));
  const auto behind = static_cast<ptrdiff_t>(kInto + kLength);
  EXPECT_EQ(on_gpu(kInto + kLength, kBytes - kInto - kLength),
            std::vector(before.begin() + behind, before.end()));
  EXPECT_EQ(nodes_.wire.calls_to(kService), 0u);
  nodes_.near.rails->take_back(shown_.bytes());
}

TEST_F(AnnouncedTest, bytes_are_fetched_from_gpu_memory) {
  join();
  announce_gpu();
  const auto sent = pattern(kLength, 77);
  gpus_.poke(allocated_.data + kInto, sent);
  ASSERT_TRUE(call(exposed(), Access::fetch).ok());
  EXPECT_EQ(service_.bytes, sent);
  nodes_.near.rails->take_back(shown_.bytes());
}

// Its pages stay, and are nobody else's.
TEST_F(AnnouncedTest, gpu_memory_may_be_released_while_a_card_knows_it) {
  join();
  announce_gpu();
  ASSERT_TRUE(gpus_.release(allocated_).ok());
  EXPECT_TRUE(call(exposed(), Access::place).ok());
  nodes_.near.rails->take_back(shown_.bytes());
}

TEST_F(AnnouncedTest, where_windows_do_not_close_at_once_gpu_memory_is_registered_for_each_call) {
  join();
  nodes_.near.device->set_closes_at_once(false);
  announce_gpu();
  const uint64_t before = nodes_.near.device->registrations;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(call(exposed(), Access::place).ok());
  EXPECT_EQ(nodes_.near.device->registrations, before + 3);
  EXPECT_EQ(on_gpu(kInto, kLength), service_.bytes);
  nodes_.near.rails->take_back(shown_.bytes());
}

TEST_F(AnnouncedTest, gpu_memory_that_the_card_does_not_take_goes_by_no_card) {
  join();
  nodes_.near.device->takes_device_memory = false;
  announce_gpu();
  EXPECT_EQ(call(exposed(), Access::place), Status(Code::not_supported));
  EXPECT_EQ(nodes_.wire.calls_to(kService), 1u);
  // It is not asked again.
  nodes_.near.device->takes_device_memory = true;
  EXPECT_EQ(call(exposed(), Access::place), Status(Code::not_supported));
  nodes_.near.rails->take_back(shown_.bytes());
}

TEST_F(AnnouncedTest, gpu_memory_that_nobody_announced_goes_by_no_card) {
  join();
  EXPECT_EQ(call(exposed(), Access::place), Status(Code::not_supported));
  std::vector<std::byte> memory(kBytes);
  nodes_.near.rails->announce({memory});
  EXPECT_EQ(call({memory.data(), kLength, engine::kNoBuffer, MemoryKind::device}, Access::place),
            Status(Code::not_supported))
      << "it is the host's";
  nodes_.near.rails->take_back(memory);
}

}  // namespace
}  // namespace penstock::rails
