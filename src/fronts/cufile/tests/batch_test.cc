#include "rig.h"

#include <cstring>
#include <map>
#include <pthread.h>
#include <thread>

namespace penstock::cufile {
namespace {

class Batches : public Cufile {
 protected:
  Batches() : fd_(make_file("a")), file_(handle_of(fd_.get())) {}

  CUfileIOParams_t io(CUfileOpcode_t opcode, uint64_t offset, uint64_t length, uint64_t at,
                      uintptr_t cookie) const {
    CUfileIOParams_t params{};
    params.mode = CUFILE_BATCH;
    params.u.batch.devPtr_base = gpu_;
    params.u.batch.file_offset = static_cast<off_t>(offset);
    params.u.batch.devPtr_offset = static_cast<off_t>(at);
    params.u.batch.size = length;
    params.fh = file_;
    params.opcode = opcode;
    params.cookie = reinterpret_cast<void*>(cookie);
    return params;
  }
  static CUfileBatchHandle_t set_up(unsigned entries) {
    CUfileBatchHandle_t batch = nullptr;
    EXPECT_EQ(cuFileBatchIOSetUp(&batch, entries).err, CU_FILE_SUCCESS);
    return batch;
  }
  // What has ended by its cookie, after `min` have, or the time.
  std::map<uintptr_t, CUfileIOEvents_t> take(CUfileBatchHandle_t batch, unsigned min,
                                             unsigned max = 128, timespec timeout = {20, 0}) {
    std::vector<CUfileIOEvents_t> events(max);
    EXPECT_EQ(cuFileBatchIOGetStatus(batch, min, &max, events.data(), &timeout).err,
              CU_FILE_SUCCESS);
    std::map<uintptr_t, CUfileIOEvents_t> out;
    for (unsigned i = 0; i < max; ++i) {
      out[reinterpret_cast<uintptr_t>(events[i].cookie)] = events[i];
    }
    EXPECT_EQ(out.size(), max);
    return out;
  }

  UniqueFd fd_;
  CUfileHandle_t file_;
};

TEST_F(Batches, operations_of_a_batch_end_each_with_its_bytes) {
  const CUfileBatchHandle_t batch = set_up(128);
  for (int round = 0; round < 4; ++round) {
    std::vector<CUfileIOParams_t> params;
    for (uint64_t i = 0; i < 128; ++i) {
      params.push_back(io(CUFILE_READ, i * 5000, 4096 + i, i * 10'000, i + 1));
    }
    ASSERT_EQ(cuFileBatchIOSubmit(batch, 128, params.data(), 0).err, CU_FILE_SUCCESS);
    const auto events = take(batch, 128);
    ASSERT_EQ(events.size(), 128);
    for (uint64_t i = 0; i < 128; ++i) {
      EXPECT_EQ(events.at(i + 1).status, CUFILE_COMPLETE);
      EXPECT_EQ(events.at(i + 1).ret, 4096 + i);
      EXPECT_EQ(gpu_bytes(i * 10'000, 4096 + i), content(i * 5000, 4096 + i));
    }
    EXPECT_TRUE(take(batch, 0).empty());
  }
  cuFileBatchIODestroy(batch);
}

TEST_F(Batches, reads_writes_and_host_memory_mix) {
  const CUfileBatchHandle_t batch = set_up(4);
  Content host(10'000);
  const Content other = content(0, 7000, 5);
  devices_.poke(gpu_ + kMiB, other);
  std::vector<CUfileIOParams_t> params = {io(CUFILE_READ, 0, 10'000, 0, 1),
                                          io(CUFILE_WRITE, 2 * kMiB, 7000, kMiB, 2),
                                          io(CUFILE_READ, 50'000, 10'000, 0, 3)};
  params[2].u.batch.devPtr_base = host.data();
  ASSERT_EQ(cuFileBatchIOSubmit(batch, 3, params.data(), 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(take(batch, 3).size(), 3);
  EXPECT_EQ(gpu_bytes(0, 10'000), content(0, 10'000));
  EXPECT_EQ(file_bytes("a", 2 * kMiB, 7000), other);
  EXPECT_EQ(host, content(50'000, 10'000));
  cuFileBatchIODestroy(batch);
}

TEST_F(Batches, entries_fail_and_are_short_alone) {
  const CUfileBatchHandle_t batch = set_up(8);
  std::vector<CUfileIOParams_t> params = {
      io(CUFILE_READ, 0, 4096, 0, 1),          io(CUFILE_READ, 0, 4096, kGpuBytes - 100, 2),
      io(CUFILE_READ, 1ULL << 40, 4096, 0, 3), io(CUFILE_READ, kFileBytes - 10, 4096, 8192, 4),
      io(CUFILE_READ, 0, 4096, 0, 5),          io(CUFILE_READ, 0, 0, 0, 6),
  };
  const int no_opcode = 7;
  std::memcpy(&params[4].opcode, &no_opcode, sizeof no_opcode);
  ASSERT_EQ(cuFileBatchIOSubmit(batch, 6, params.data(), 0).err, CU_FILE_SUCCESS);
  const auto events = take(batch, 6);
  const auto result = [&](uintptr_t cookie) {
    return std::pair(events.at(cookie).status, static_cast<ssize_t>(events.at(cookie).ret));
  };
  EXPECT_EQ(result(1), std::pair(CUFILE_COMPLETE, ssize_t{4096}));
  EXPECT_EQ(result(2), std::pair(CUFILE_FAILED, ssize_t{-CU_FILE_CUDA_POINTER_RANGE_ERROR}));
  EXPECT_EQ(result(3), std::pair(CUFILE_COMPLETE, ssize_t{0}));
  EXPECT_EQ(result(4), std::pair(CUFILE_COMPLETE, ssize_t{10}));
  EXPECT_EQ(result(5), std::pair(CUFILE_FAILED, ssize_t{-CU_FILE_INVALID_VALUE}));
  EXPECT_EQ(result(6), std::pair(CUFILE_COMPLETE, ssize_t{0}));
  cuFileBatchIODestroy(batch);
}

TEST_F(Batches, statistics_tell_what_the_last_batch_has_moved) {
  EXPECT_EQ(cuFileSetStatsLevel(3).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileStatsStart().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileStatsReset().err, CU_FILE_SUCCESS);
  const CUfileBatchHandle_t batch = set_up(4);
  for (int round = 0; round < 2; ++round) {
    std::vector<CUfileIOParams_t> params = {
        io(CUFILE_READ, 0, 4096, 0, 1), io(CUFILE_READ, 5000, 10'000, 8192, 2),
        io(CUFILE_WRITE, 0, 3000, 0, 3), io(CUFILE_READ, kFileBytes, 4096, 0, 4)};
    ASSERT_EQ(cuFileBatchIOSubmit(batch, 4, params.data(), 0).err, CU_FILE_SUCCESS);
    EXPECT_EQ(take(batch, 4).size(), 4);
  }
  CUfileStatsLevel3_t all{};
  ASSERT_EQ(cuFileGetStatsL3(&all).err, CU_FILE_SUCCESS);
  EXPECT_EQ(all.detailed.basic.batch_read_bytes, 2 * 14'096);
  EXPECT_EQ(all.detailed.basic.last_batch_read_bytes, 14'096);
  EXPECT_EQ(all.detailed.basic.last_batch_write_bytes, 3000);
  const CUfilePerGpuStats_t& gpu = all.per_gpu_stats[0];
  EXPECT_EQ(gpu.n_total_reads, 6);
  EXPECT_EQ(gpu.n_dr_reads + gpu.n_posix_reads, 4) << "reads at the end of the file move nothing";
  cuFileBatchIODestroy(batch);
}

// While it lives no thread can be started: its stack would be larger than any address space.
class NoThreads {
 public:
  NoThreads() {
    ::pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    ::pthread_attr_init(&huge);
    ::pthread_attr_setstacksize(&huge, size_t{1} << 50);
    EXPECT_EQ(::pthread_setattr_default_np(&huge), 0);
    ::pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_;
};

TEST_F(Batches, operations_on_host_memory_fail_without_threads_and_the_batch_goes_on) {
  const CUfileBatchHandle_t batch = set_up(2);
  Content host(10'000);
  std::vector<CUfileIOParams_t> params = {io(CUFILE_READ, 0, 10'000, 0, 1),
                                          io(CUFILE_READ, 50'000, 10'000, 0, 2)};
  params[1].u.batch.devPtr_base = host.data();
  {
    const NoThreads none;
    ASSERT_EQ(cuFileBatchIOSubmit(batch, 2, params.data(), 0).err, CU_FILE_SUCCESS);
    const auto events = take(batch, 2);
    EXPECT_EQ(events.at(1).status, CUFILE_COMPLETE);
    EXPECT_EQ(events.at(2).status, CUFILE_FAILED);
    EXPECT_EQ(static_cast<ssize_t>(events.at(2).ret), -EAGAIN);
  }
  ASSERT_EQ(cuFileBatchIOSubmit(batch, 2, params.data(), 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(take(batch, 2).at(2).status, CUFILE_COMPLETE);
  EXPECT_EQ(host, content(50'000, 10'000));
  cuFileBatchIODestroy(batch);
}

TEST_F(Batches, all_or_none_are_taken) {
  CUfileBatchHandle_t batch = nullptr;
  EXPECT_EQ(cuFileBatchIOSetUp(&batch, 0).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileBatchIOSetUp(&batch, 129).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileBatchIOSetUp(nullptr, 1).err, CU_FILE_INVALID_VALUE);
  batch = set_up(3);
  std::vector<CUfileIOParams_t> params;
  for (uintptr_t i = 1; i <= 4; ++i) params.push_back(io(CUFILE_READ, 0, 4096, 0, i));
  EXPECT_EQ(cuFileBatchIOSubmit(batch, 4, params.data(), 0).err, CU_FILE_BATCH_FULL);
  EXPECT_EQ(cuFileBatchIOSubmit(batch, 0, params.data(), 0).err,
            CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(cuFileBatchIOSubmit(batch, 1, nullptr, 0).err, CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  params[1].fh = nullptr;
  EXPECT_EQ(cuFileBatchIOSubmit(batch, 3, params.data(), 0).err,
            CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  params[1].fh = file_;
  params[2].mode = static_cast<CUfileBatchMode_t>(0);
  EXPECT_EQ(cuFileBatchIOSubmit(batch, 3, params.data(), 0).err,
            CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_TRUE(take(batch, 0).empty());
  // An ended operation keeps its place until its status was given.
  ASSERT_EQ(cuFileBatchIOSubmit(batch, 2, params.data(), 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(take(batch, 2, 1 + 1).size(), 2);
  ASSERT_EQ(cuFileBatchIOSubmit(batch, 2, params.data(), 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(take(batch, 1, 1).size(), 1);
  params[2].mode = CUFILE_BATCH;
  EXPECT_EQ(cuFileBatchIOSubmit(batch, 2, &params[2], 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileBatchIOSubmit(batch, 1, params.data(), 0).err, CU_FILE_BATCH_FULL);
  EXPECT_EQ(take(batch, 3, 3).size(), 3);
  cuFileBatchIODestroy(batch);
}

TEST_F(Batches, status_waits_for_its_time_and_no_longer) {
  constexpr std::chrono::milliseconds kCopy{100};
  devices_.faults.delay_min = devices_.faults.delay_max = kCopy;
  const CUfileBatchHandle_t batch = set_up(2);
  CUfileIOParams_t one = io(CUFILE_READ, 0, 4096, 0, 1);
  const auto begun = std::chrono::steady_clock::now();
  ASSERT_EQ(cuFileBatchIOSubmit(batch, 1, &one, 0).err, CU_FILE_SUCCESS);
  const size_t early = take(batch, 1, 2, {0, 5'000'000}).size();
  // A busy machine may come to look only when the copy is over.
  if (std::chrono::steady_clock::now() < begun + kCopy) {
    EXPECT_EQ(early, 0);
  }
  // More than there can be: what is in flight.
  EXPECT_EQ(take(batch, 2, 2).size(), 1 - early);
  unsigned count = 1;
  CUfileIOEvents_t event{};
  timespec bad{0, 1'000'000'000};
  EXPECT_EQ(cuFileBatchIOGetStatus(batch, 2, &count, &event, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileBatchIOGetStatus(batch, 0, nullptr, &event, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileBatchIOGetStatus(batch, 0, &count, nullptr, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileBatchIOGetStatus(batch, 0, &count, &event, &bad).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileBatchIOGetStatus(nullptr, 0, &count, &event, nullptr).err, CU_FILE_INVALID_VALUE);
  cuFileBatchIODestroy(batch);
  EXPECT_EQ(cuFileBatchIOSubmit(batch, 1, &one, 0).err, CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR);
  EXPECT_EQ(cuFileBatchIOGetStatus(batch, 0, &count, &event, nullptr).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileBatchIOCancel(batch).err, CU_FILE_INVALID_VALUE);
  cuFileBatchIODestroy(batch);
}

TEST_F(Batches, cancelled_operations_end) {
  // So that few have ended before they are cancelled, on a busy machine too.
  devices_.faults.delay_min = devices_.faults.delay_max = std::chrono::milliseconds(200);
  const CUfileBatchHandle_t batch = set_up(100);
  std::vector<CUfileIOParams_t> params;
  // More than there are slots for.
  for (uintptr_t i = 0; i < 100; ++i) params.push_back(io(CUFILE_WRITE, 0, 2 * kMiB, 0, i + 1));
  ASSERT_EQ(cuFileBatchIOSubmit(batch, 100, params.data(), 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileBatchIOCancel(batch).err, CU_FILE_SUCCESS);
  const auto events = take(batch, 100);
  ASSERT_EQ(events.size(), 100);
  int cancelled = 0;
  for (const auto& [cookie, event] : events) cancelled += event.status == CUFILE_CANCELED ? 1 : 0;
  EXPECT_GT(cancelled, 50);
  ASSERT_EQ(cuFileBatchIOSubmit(batch, 100, params.data(), 0).err, CU_FILE_SUCCESS);
  cuFileBatchIODestroy(batch);
}

TEST_F(Batches, close_ends_what_is_in_flight) {
  devices_.faults.delay_min = devices_.faults.delay_max = std::chrono::milliseconds(20);
  const CUfileBatchHandle_t batch = set_up(10);
  std::vector<CUfileIOParams_t> params;
  for (uintptr_t i = 0; i < 10; ++i) params.push_back(io(CUFILE_READ, 0, 2 * kMiB, 0, i + 1));
  ASSERT_EQ(cuFileBatchIOSubmit(batch, 10, params.data(), 0).err, CU_FILE_SUCCESS);
  cuFileHandleDeregister(file_);
  EXPECT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileBatchIOSubmit(batch, 10, params.data(), 0).err, CU_FILE_DRIVER_NOT_INITIALIZED);
}

TEST_F(Batches, threads_share_a_batch) {
  const CUfileBatchHandle_t batch = set_up(64);
  std::atomic<int> submitted{0};
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (uintptr_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      while (taken < 2000) {
        CUfileIOParams_t one = io(CUFILE_READ, t * 4096, 8192, t * 8192, t);
        if (submitted < 2000 && cuFileBatchIOSubmit(batch, 1, &one, 0).err == CU_FILE_SUCCESS) {
          ++submitted;
        }
        CUfileIOEvents_t events[16];
        unsigned count = 16;
        timespec timeout{0, 100'000};
        ASSERT_EQ(cuFileBatchIOGetStatus(batch, 1, &count, events, &timeout).err, CU_FILE_SUCCESS);
        for (unsigned i = 0; i < count; ++i) ASSERT_EQ(events[i].status, CUFILE_COMPLETE);
        taken += static_cast<int>(count);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, submitted);
  cuFileBatchIODestroy(batch);
}

}  // namespace
}  // namespace penstock::cufile
