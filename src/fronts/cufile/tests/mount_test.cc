// Files of a Penstock mount, with a real node.
#include "mount_backend.h"
#include "rig.h"

#include <filesystem>
#include <thread>
#include <utility>

#include "penstock/testing_node.h"

namespace penstock::cufile {
namespace {

class Mounts : public Cufile {
 protected:
  static constexpr uint64_t kLargeBytes = 70 * kMiB;

  static void SetUpTestSuite() {
    reason_ = test::NodeProcess::why_no_mount();
    if (!reason_.empty()) return;
    node_ = new test::NodeProcess({.arguments = {"--capacity", "1073741824"}});
    ASSERT_TRUE(node_->start()) << node_->ending();
  }
  static void TearDownTestSuite() { delete std::exchange(node_, nullptr); }
  void SetUp() override {
    if (!reason_.empty()) GTEST_SKIP() << reason_;
    ASSERT_FALSE(HasFatalFailure());
    directory_ = node_->mount();
    fd_ = make_file("a");
    file_ = handle_of(fd_.get());
    EXPECT_EQ(cuFileSetStatsLevel(3).err, CU_FILE_SUCCESS);
    EXPECT_EQ(cuFileStatsStart().err, CU_FILE_SUCCESS);
  }
  void TearDown() override {
    while (cuFileUseCount() > 0) cuFileDriverClose();
  }

  static inline test::NodeProcess* node_ = nullptr;
  static inline std::string reason_;
  UniqueFd fd_;
  CUfileHandle_t file_ = nullptr;
};

TEST_F(Mounts, file_bytes_go_by_ring) {
  struct stat facts {};
  ASSERT_EQ(::fstat(fd_.get(), &facts), 0);
  EXPECT_EQ(front::mount_point_of(facts.st_dev), node_->mount());
  for (const bool registered : {false, true}) {
    if (registered) {
      ASSERT_EQ(cuFileBufRegister(gpu_, kGpuBytes, 0).err, CU_FILE_SUCCESS);
    }
    for (const uint64_t offset : {0, 1, 4096, 1'048'577}) {
      for (const uint64_t length : {1, 4095, 4096, 70'000, 2'000'000}) {
        ASSERT_EQ(cuFileRead(file_, gpu_, length, static_cast<off_t>(offset), 9),
                  static_cast<ssize_t>(length));
        ASSERT_EQ(gpu_bytes(9, length), content(offset, length));
      }
    }
    const Content other = content(0, 300'000, registered ? 1 : 2);
    devices_.poke(gpu_ + 5, other);
    ASSERT_EQ(cuFileWrite(file_, gpu_, 300'000, 12'345, 5), 300'000);
    ASSERT_EQ(file_bytes("a", 12'345, 300'000), other);
    const Content before = content(12'345, 300'000);
    ASSERT_EQ(::pwrite(fd_.get(), before.data(), before.size(), 12'345), 300'000);
  }
  EXPECT_EQ(cuFileRead(file_, gpu_, 8192, kFileBytes - 100, 0), 100);
  EXPECT_EQ(cuFileRead(file_, gpu_, 8192, kFileBytes, 0), 0);
  Content host(50'000);
  EXPECT_EQ(cuFileRead(file_, host.data(), 50'000, 77, 0), 50'000);
  EXPECT_EQ(host, content(77, 50'000));
}

TEST_F(Mounts, batches_and_streams_go_by_ring) {
  CUfileBatchHandle_t batch = nullptr;
  ASSERT_EQ(cuFileBatchIOSetUp(&batch, 64).err, CU_FILE_SUCCESS);
  std::vector<CUfileIOParams_t> params(64);
  for (uint64_t i = 0; i < 64; ++i) {
    params[i].mode = CUFILE_BATCH;
    params[i].u.batch.devPtr_base = gpu_;
    params[i].u.batch.file_offset = static_cast<off_t>(i * 5000);
    params[i].u.batch.devPtr_offset = static_cast<off_t>(i * 10'000);
    params[i].u.batch.size = 4096 + i;
    params[i].fh = file_;
    params[i].opcode = CUFILE_READ;
  }
  ASSERT_EQ(cuFileBatchIOSubmit(batch, 64, params.data(), 0).err, CU_FILE_SUCCESS);
  std::vector<CUfileIOEvents_t> events(64);
  unsigned count = 64;
  timespec timeout{30, 0};
  ASSERT_EQ(cuFileBatchIOGetStatus(batch, 64, &count, events.data(), &timeout).err,
            CU_FILE_SUCCESS);
  ASSERT_EQ(count, 64);
  for (uint64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(events[i].status, CUFILE_COMPLETE);
    EXPECT_EQ(gpu_bytes(i * 10'000, 4096 + i), content(i * 5000, 4096 + i));
  }
  ASSERT_EQ(cuFileBatchIOSubmit(batch, 64, params.data(), 0).err, CU_FILE_SUCCESS);
  cuFileBatchIODestroy(batch);

  const engine::DeviceStream stream = devices_.make_stream();
  size_t size = 100'000;
  off_t from = 3;
  off_t at = 0;
  ssize_t got = 0;
  ASSERT_EQ(
      cuFileReadAsync(file_, gpu_, &size, &from, &at, &got, static_cast<CUstream>(stream)).err,
      CU_FILE_SUCCESS);
  devices_.synchronize(stream);
  EXPECT_EQ(got, 100'000);
  EXPECT_EQ(gpu_bytes(0, 100'000), content(3, 100'000));
}

TEST_F(Mounts, any_number_of_ranges_can_be_read_into_without_registration) {
  for (uint64_t i = 0; i < 1500; ++i) {
    ASSERT_EQ(cuFileRead(file_, gpu_ + i * 4096, 4096, 0, 0), 4096) << i << ": errno " << errno;
  }
}

TEST_F(Mounts, threads_share_the_mount) {
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      engine::SeededRandom random(t);
      for (int i = 0; i < 40; ++i) {
        const uint64_t offset = random.below(kFileBytes - 100'000);
        const uint64_t length = 1 + random.below(100'000);
        const bool arrived = cuFileRead(file_, gpu_ + t * kMiB, length, static_cast<off_t>(offset),
                                        0) == static_cast<ssize_t>(length) &&
                             gpu_bytes(t * kMiB, length) == content(offset, length);
        good += arrived ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 320);
}

TEST_F(Mounts, the_death_of_the_node_ends_operations) {
  test::NodeProcess other({.arguments = {"--capacity", "1073741824"}});
  ASSERT_TRUE(other.start()) << other.ending();
  ::setenv("PENSTOCK_RECONNECT_SECONDS", "1", 1);
  directory_ = other.mount();
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t file = handle_of(fd.get());
  EXPECT_EQ(cuFileRead(file, gpu_, 100'000, 0, 0), 100'000);
  CUfileBatchHandle_t batch = nullptr;
  ASSERT_EQ(cuFileBatchIOSetUp(&batch, 8).err, CU_FILE_SUCCESS);
  other.kill();
  std::vector<CUfileIOParams_t> params(8);
  for (CUfileIOParams_t& one : params) {
    one.mode = CUFILE_BATCH;
    one.u.batch.devPtr_base = gpu_;
    one.u.batch.size = kMiB;
    one.fh = file;
    one.opcode = CUFILE_READ;
  }
  ASSERT_EQ(cuFileBatchIOSubmit(batch, 8, params.data(), 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileRead(file, gpu_, 100'000, 0, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
  std::vector<CUfileIOEvents_t> events(8);
  unsigned count = 8;
  timespec timeout{30, 0};
  ASSERT_EQ(cuFileBatchIOGetStatus(batch, 8, &count, events.data(), &timeout).err, CU_FILE_SUCCESS);
  EXPECT_EQ(count, 8);
  for (const CUfileIOEvents_t& event : events) EXPECT_EQ(event.status, CUFILE_FAILED);
  ::unsetenv("PENSTOCK_RECONNECT_SECONDS");
  cuFileBatchIODestroy(batch);
  cuFileHandleDeregister(file);
  // Files of other mounts go on.
  EXPECT_EQ(cuFileRead(file_, gpu_, 4096, 0, 0), 4096);
}

}  // namespace
}  // namespace penstock::cufile
