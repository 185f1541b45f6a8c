// What every engine::DeviceMemory does: the simulated one everywhere, CUDA's where there is a GPU.
#include <array>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <functional>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "penstock/gpu.h"
#include "penstock/sim.h"

namespace penstock::sim {
namespace {

using engine::BlockCheck;
using engine::CopyDirection;
using engine::CopyMeans;
using engine::CopyOp;
using engine::CopyPiece;
using engine::DeviceId;
using engine::DeviceSpan;

constexpr size_t kHostBytes = 16 * kMiB;

class Bench {
 public:
  virtual ~Bench() = default;
  virtual engine::DeviceMemory* memory() = 0;
};

class SimBench final : public Bench {
 public:
  engine::DeviceMemory* memory() override { return &memory_; }

 private:
  engine::SeededRandom random_{1};
  SimDeviceMemory memory_{random_};
};

class CudaBench final : public Bench {
 public:
  engine::DeviceMemory* memory() override {
    const Outcome<engine::DeviceMemory*> devices = gpu::devices();
    return devices ? *devices : nullptr;
  }
};

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Bench>()> make;
  CopyMeans means;
};

class DeviceMemoryConformance : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    bench_ = GetParam().make();
    memory_ = bench_->memory();
    if (memory_ == nullptr) GTEST_SKIP() << "no GPU";
    void* const host =
        ::mmap(nullptr, kHostBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(host, MAP_FAILED);
    host_ = {static_cast<std::byte*>(host), kHostBytes};
    ASSERT_TRUE(memory_->pin(host_, false));
    lanes_ = memory_->make_lanes(loop_);
    loop_.add(*lanes_);
  }

  void TearDown() override {
    if (lanes_ != nullptr) loop_.remove(*lanes_);
    lanes_.reset();
    if (host_.data() == nullptr) return;
    memory_->unpin(host_);
    ::munmap(host_.data(), host_.size());
  }

  DeviceSpan allocate(uint64_t length) {
    Outcome<DeviceSpan> span = memory_->allocate(DeviceId(0), length);
    EXPECT_TRUE(span) << (span ? "" : span.error().message);
    return span ? *span : DeviceSpan{};
  }

  // Drives the loop until `left` operations have completed.
  void wait(const int& left) {
    const engine::Time limit = loop_.clock().now() + std::chrono::seconds(30);
    while (left > 0 && loop_.clock().now() < limit) loop_.poll();
    ASSERT_EQ(left, 0);
  }

  void start(CopyOp& op, int& left) {
    op.owner = &left;
    op.completion = [](engine::Op& done) { --done.owner_as<int>(); };
    lanes_->submit(op);
  }

  Status run(CopyDirection direction, std::vector<CopyPiece> pieces,
             std::vector<BlockCheck> checks = {}, uint64_t allocation = 0) {
    CopyOp op;
    op.direction = direction;
    op.means = GetParam().means;
    op.pieces = pieces;
    op.checks = checks;
    op.allocation = allocation;
    int left = 1;
    start(op, left);
    EXPECT_EQ(left, 1) << "completed inside submit()";
    wait(left);
    first_bad_ = op.first_bad;
    return op.status;
  }
  Status put(const std::byte* host, std::byte* device, uint64_t length) {
    return run(CopyDirection::to_device, {{host, device, length}});
  }
  Status get(const std::byte* device, std::byte* host, uint64_t length) {
    return run(CopyDirection::from_device, {{device, host, length}});
  }

  void fill_host(size_t length) {
    for (size_t i = 0; i < length; ++i) host_[i] = static_cast<std::byte>(mix64(i) >> 5);
  }

  std::unique_ptr<Bench> bench_;
  engine::DeviceMemory* memory_ = nullptr;
  engine::SeededRandom random_{7};
  engine::FutexParker parker_{engine::system_clock()};
  engine::Loop loop_{engine::system_clock(), random_, parker_};
  std::unique_ptr<engine::CopyLanes> lanes_;
  MutableBytes host_;
  uint32_t first_bad_ = 0;
};

TEST_P(DeviceMemoryConformance, devices_say_what_they_are) {
  ASSERT_FALSE(memory_->devices().empty());
  for (const engine::DeviceFacts& facts : memory_->devices()) {
    EXPECT_FALSE(facts.name.empty());
    EXPECT_GT(facts.memory_bytes, 0U);
    EXPECT_GT(facts.multiprocessors, 0U);
  }
}

TEST_P(DeviceMemoryConformance, address_is_found_within_its_allocation_only) {
  const DeviceSpan span = allocate(3 * kMiB);
  const Result<DeviceSpan> inside = memory_->find(span.data + 5, 100);
  ASSERT_TRUE(inside);
  EXPECT_EQ(inside->allocation, span.allocation);
  EXPECT_EQ(inside->device, DeviceId(0));
  EXPECT_EQ(inside->data, span.data + 5);
  EXPECT_EQ(memory_->find(span.data, 1 * kGiB).error(), Code::invalid_argument);
  EXPECT_EQ(memory_->find(host_.data(), 1).error(), Code::not_found);
  EXPECT_EQ(memory_->find(nullptr, 1).error(), Code::not_found);
  EXPECT_TRUE(memory_->release(span).ok());
}

TEST_P(DeviceMemoryConformance, bytes_come_back_whatever_the_alignment_and_length) {
  const DeviceSpan span = allocate(4 * kMiB);
  fill_host(2 * kMiB);
  std::byte* const back = host_.data() + 8 * kMiB;
  for (const uint64_t length : {1, 2, 3, 4, 15, 16, 17, 127, 511, 4095, 4096, 4097, 65536 + 13}) {
    for (const auto& [from, to] : {std::pair(0, 0), {1, 0}, {0, 1}, {3, 7}, {4, 8}, {13, 2}}) {
      std::memset(back, 0, length + 32);
      ASSERT_TRUE(put(host_.data() + from, span.data + to, length).ok());
      ASSERT_TRUE(get(span.data + to, back + from, length).ok());
      ASSERT_EQ(std::memcmp(back + from, host_.data() + from, length), 0)
          << length << " bytes from " << from << " to " << to;
      ASSERT_EQ(back[from + static_cast<int>(length)], std::byte{0});
    }
  }
  EXPECT_TRUE(memory_->release(span).ok());
}

TEST_P(DeviceMemoryConformance, pieces_leave_what_is_beside_them_alone) {
  const DeviceSpan span = allocate(kMiB);
  fill_host(kMiB);
  std::byte* const zeros = host_.data() + 2 * kMiB;
  ASSERT_TRUE(put(zeros, span.data, kMiB).ok());
  std::vector<CopyPiece> pieces;
  for (uint64_t i = 0; i < 500; ++i) {
    pieces.push_back({host_.data() + i * 1000, span.data + i * 2000 + i % 17, 1 + i * 3});
  }
  ASSERT_TRUE(run(CopyDirection::to_device, pieces).ok());
  std::byte* const back = host_.data() + 4 * kMiB;
  ASSERT_TRUE(get(span.data, back, kMiB).ok());
  std::vector<std::byte> expected(kMiB);
  for (const CopyPiece& piece : pieces) {
    std::memcpy(&expected[static_cast<size_t>(piece.destination - span.data)], piece.source,
                piece.length);
  }
  EXPECT_EQ(std::memcmp(back, expected.data(), kMiB), 0);
  EXPECT_TRUE(memory_->release(span).ok());
}

TEST_P(DeviceMemoryConformance, checks_pass_for_what_was_meant) {
  const DeviceSpan span = allocate(kMiB);
  fill_host(kMiB);
  std::vector<BlockCheck> checks;
  uint64_t at = 0;
  for (uint32_t length = 1; length <= 4096; length += 1 + length / 16) {
    checks.push_back({span.data + at, length, crc32c({host_.data() + at, length})});
    at += length;
  }
  ASSERT_LT(at, kMiB);
  for (uint32_t i = 0; i < 200; ++i) {
    const uint64_t block = uint64_t{i} * 4096;
    checks.push_back({span.data + block, 4096, crc32c({host_.data() + block, 4096})});
  }
  EXPECT_TRUE(
      run(CopyDirection::to_device, {{host_.data(), span.data, kMiB}}, checks, span.allocation)
          .ok());
  EXPECT_TRUE(memory_->release(span).ok());
}

TEST_P(DeviceMemoryConformance, first_failed_check_is_named_when_bytes_are_wrong) {
  const DeviceSpan span = allocate(kMiB);
  fill_host(kMiB);
  for (const uint32_t bad : {0U, 1U, 77U, 255U}) {
    std::vector<BlockCheck> checks;
    for (uint32_t i = 0; i < 256; ++i) {
      const uint64_t block = uint64_t{i} * 4096;
      checks.push_back({span.data + block, 4096, crc32c({host_.data() + block, 4096})});
    }
    checks[bad].crc32c ^= 0x10000;
    checks[255].crc32c ^= 1;
    const Status status = run(CopyDirection::to_device, {{host_.data(), span.data, kMiB}}, checks);
    EXPECT_EQ(status, Code::corrupt);
    EXPECT_EQ(first_bad_, bad);
    // The next operation is not blamed for it.
    EXPECT_TRUE(put(host_.data(), span.data, 4096).ok());
    checks.resize(1);
    checks[0].crc32c = crc32c({host_.data(), 4096});
    EXPECT_TRUE(run(CopyDirection::to_device, {{host_.data(), span.data, 4096}}, checks).ok());
  }
  EXPECT_TRUE(memory_->release(span).ok());
}

// Of bytes that something else has brought there.
TEST_P(DeviceMemoryConformance, checks_stand_behind_a_copy_of_one_byte_from_the_device) {
  const DeviceSpan span = allocate(kMiB);
  fill_host(kMiB);
  ASSERT_TRUE(put(host_.data(), span.data, kMiB).ok());
  ASSERT_TRUE(memory_->settle_writes(DeviceId(0)).ok());
  std::vector<BlockCheck> checks;
  for (uint64_t at = 0; at < kMiB; at += 4096) {
    checks.push_back({span.data + at, 4096, crc32c({host_.data() + at, 4096})});
  }
  std::byte* const byte = host_.data() + kMiB;
  *byte = ~host_[0];
  const auto look = [&] {
    return run(CopyDirection::from_device, {{span.data, byte, 1}}, checks, span.allocation);
  };
  EXPECT_TRUE(look().ok());
  EXPECT_EQ(*byte, host_[0]);
  checks[200].crc32c ^= 1;
  EXPECT_EQ(look(), Code::corrupt);
  EXPECT_EQ(first_bad_, 200u);
  EXPECT_TRUE(memory_->release(span).ok());
}

TEST_P(DeviceMemoryConformance, pieces_that_are_checked_themselves_pass_or_are_named) {
  const DeviceSpan span = allocate(kMiB);
  fill_host(kMiB);
  std::vector<CopyPiece> pieces;
  uint64_t at = 0;
  for (uint32_t i = 0; i < 200; ++i) {
    const uint64_t length = 1 + (i * 53) % 4096;
    pieces.push_back({host_.data() + at, span.data + at + i % 7, length,
                      crc32c({host_.data() + at, length}), 1});
    at += length + 8;
  }
  EXPECT_TRUE(run(CopyDirection::to_device, pieces).ok());
  for (const uint32_t bad : {199U, 100U, 0U}) {
    pieces[bad].crc32c ^= 4;
    EXPECT_EQ(run(CopyDirection::to_device, pieces), Code::corrupt);
    EXPECT_EQ(first_bad_, bad);
  }
  EXPECT_TRUE(memory_->release(span).ok());
}

TEST_P(DeviceMemoryConformance, copy_is_refused_when_its_memory_was_released) {
  const DeviceSpan span = allocate(3 * kMiB);
  ASSERT_TRUE(memory_->release(span).ok());
  EXPECT_EQ(run(CopyDirection::to_device, {{host_.data(), span.data, 4096}}, {}, span.allocation),
            Code::invalid_argument);
  EXPECT_EQ(memory_->find(span.data, 1).error(), Code::not_found);
  EXPECT_EQ(memory_->release(span), Code::invalid_argument);
  // Others go on.
  const DeviceSpan other = allocate(kMiB);
  EXPECT_TRUE(put(host_.data(), other.data, 4096).ok());
  EXPECT_TRUE(memory_->release(other).ok());
}

TEST_P(DeviceMemoryConformance, thousands_of_operations_complete_each_with_its_bytes) {
  const DeviceSpan span = allocate(8 * kMiB);
  fill_host(8 * kMiB);
  constexpr size_t kOps = 4000;
  std::deque<CopyOp> ops(kOps);
  std::vector<std::array<CopyPiece, 3>> pieces(kOps);
  std::vector<BlockCheck> checks(kOps);
  int left = kOps;
  for (size_t i = 0; i < kOps; ++i) {
    const uint64_t from = random_.below(4 * kMiB);
    std::byte* const to = span.data + i * 2048;
    pieces[i] = {{{host_.data() + from, to, 700},
                  {host_.data() + from + 700, to + 700, 500},
                  {host_.data() + from + 1200, to + 1200, 336}}};
    checks[i] = {to, 1536, crc32c({host_.data() + from, 1536})};
    ops[i].means = i % 5 == 0 ? CopyMeans::copy_engine : GetParam().means;
    ops[i].pieces = pieces[i];
    ops[i].checks = {&checks[i], 1};
    start(ops[i], left);
    if (i % 64 == 0) loop_.poll();
  }
  EXPECT_TRUE(lanes_->busy());
  wait(left);
  EXPECT_FALSE(lanes_->busy());
  for (const CopyOp& op : ops) ASSERT_TRUE(op.status.ok()) << op.status.name();
  EXPECT_TRUE(memory_->release(span).ok());
}

TEST_P(DeviceMemoryConformance, allocation_fails_when_the_memory_is_full) {
  const uint64_t all = memory_->devices()[0].memory_bytes;
  const Outcome<DeviceSpan> span = memory_->allocate(DeviceId(0), all + kMiB);
  ASSERT_FALSE(span);
  EXPECT_EQ(span.error().status, Code::no_memory);
  EXPECT_EQ(memory_->allocate(DeviceId(63), kMiB).error().status, Code::invalid_argument);
  EXPECT_EQ(memory_->allocate(DeviceId(0), 0).error().status, Code::invalid_argument);
}

TEST_P(DeviceMemoryConformance, imported_memory_is_the_exported_one) {
  const DeviceSpan span = allocate(3 * kMiB);
  Outcome<engine::DeviceHandle> handle = memory_->export_handle(span);
  ASSERT_TRUE(handle) << handle.error().message;
  EXPECT_LE(handle->bytes.size(), engine::kDeviceHandleBytesMax);
  const Outcome<DeviceSpan> again = memory_->import_handle(*handle);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->length, span.length);
  fill_host(64 * kKiB);
  ASSERT_TRUE(put(host_.data(), span.data + kMiB, 64 * kKiB).ok());
  std::byte* const back = host_.data() + kMiB;
  ASSERT_TRUE(get(again->data + kMiB, back, 64 * kKiB).ok());
  EXPECT_EQ(std::memcmp(back, host_.data(), 64 * kKiB), 0);
  // The memory lives as long as any handle of it.
  ASSERT_TRUE(memory_->release(span).ok());
  ASSERT_TRUE(get(again->data + kMiB, back, 64 * kKiB).ok());
  EXPECT_EQ(std::memcmp(back, host_.data(), 64 * kKiB), 0);
  EXPECT_TRUE(memory_->release(*again).ok());
  handle->bytes.resize(3);
  EXPECT_FALSE(memory_->import_handle(*handle));
}

TEST_P(DeviceMemoryConformance, a_part_that_was_exported_is_imported_as_that_part) {
  const DeviceSpan span = allocate(3 * kMiB);
  const Result<DeviceSpan> part = memory_->find(span.data + kMiB + 512, 64 * kKiB);
  ASSERT_TRUE(part);
  const Outcome<engine::DeviceHandle> handle = memory_->export_handle(*part);
  ASSERT_TRUE(handle) << handle.error().message;
  const Outcome<DeviceSpan> again = memory_->import_handle(*handle);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->length, 64 * kKiB);
  fill_host(64 * kKiB);
  ASSERT_TRUE(put(host_.data(), part->data, 64 * kKiB).ok());
  std::byte* const back = host_.data() + kMiB;
  ASSERT_TRUE(get(again->data, back, 64 * kKiB).ok());
  EXPECT_EQ(std::memcmp(back, host_.data(), 64 * kKiB), 0);
  EXPECT_TRUE(memory_->release(*again).ok());
  EXPECT_TRUE(memory_->release(span).ok());
}

TEST_P(DeviceMemoryConformance, dma_buf_of_a_part_leads_to_that_part) {
  const DeviceSpan span = allocate(3 * kMiB);
  const Result<DeviceSpan> part = memory_->find(span.data + kMiB + 512, 64 * kKiB);
  ASSERT_TRUE(part);
  const Outcome<engine::DmaBuf> shown = memory_->export_dma_buf(*part);
  if (const std::string& why = memory_->devices()[0].no_dma_buf; !why.empty()) {
    ASSERT_FALSE(shown);
    EXPECT_EQ(shown.error().status, Code::not_supported);
    EXPECT_NE(shown.error().message.find(why), std::string::npos);
    EXPECT_TRUE(memory_->release(span).ok());
    GTEST_SKIP() << why;
  }
  ASSERT_TRUE(shown) << shown.error().message;
  EXPECT_GE(shown->fd.get(), 0);
  EXPECT_TRUE(memory_->release(span).ok());
  EXPECT_FALSE(memory_->export_dma_buf(*part)) << "of memory that is not allocated any more";
}

TEST_P(DeviceMemoryConformance, pinning_twice_is_refused) {
  const Outcome<void> again = memory_->pin(host_, false);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().status, Code::in_use);
}

TEST_P(DeviceMemoryConformance, memory_that_may_only_be_read_can_be_pinned) {
  const UniqueFd fd(::memfd_create("penstock-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(fd.get(), kMiB), 0);
  void* const writable = ::mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  std::memcpy(writable, "penstock", 8);
  ASSERT_EQ(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
  void* const mapped = ::mmap(nullptr, kMiB, PROT_READ, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const MutableBytes memory(static_cast<std::byte*>(mapped), kMiB);
  const Outcome<void> pinned = memory_->pin(memory, true);
  ASSERT_TRUE(pinned) << pinned.error().message;
  const DeviceSpan span = allocate(kMiB);
  ASSERT_TRUE(put(memory.data(), span.data, kMiB).ok());
  ASSERT_TRUE(get(span.data, host_.data(), 8).ok());
  EXPECT_EQ(std::memcmp(host_.data(), "penstock", 8), 0);
  memory_->unpin(memory);
  EXPECT_TRUE(memory_->release(span).ok());
  ::munmap(mapped, kMiB);
  ::munmap(writable, kMiB);
}

INSTANTIATE_TEST_SUITE_P(
    All, DeviceMemoryConformance,
    testing::Values(
        Kind{"simulated", [] { return std::make_unique<SimBench>(); }, CopyMeans::copy_engine},
        Kind{"cuda_copies", [] { return std::make_unique<CudaBench>(); }, CopyMeans::copy_engine},
        Kind{"cuda_kernels", [] { return std::make_unique<CudaBench>(); }, CopyMeans::kernel}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace penstock::sim
