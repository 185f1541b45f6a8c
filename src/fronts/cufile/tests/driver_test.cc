// The driver, its parameters and its statistics.
#include "rig.h"

#include <cstring>
#include <functional>
#include <sys/wait.h>
#include <thread>

namespace penstock::cufile {
namespace {

using test::in_child;

TEST_F(Cufile, opens_count_and_the_last_close_closes) {
  EXPECT_EQ(cuFileUseCount(), 0);
  EXPECT_EQ(cuFileDriverClose().err, CU_FILE_DRIVER_NOT_INITIALIZED);
  EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileUseCount(), 2);
  EXPECT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileUseCount(), 1);
#undef cuFileDriverClose
  // What programs call that were built with an old header.
  EXPECT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
#define cuFileDriverClose cuFileDriverClose_v2
  EXPECT_EQ(cuFileUseCount(), 0);
}

TEST_F(Cufile, first_use_opens_the_driver_once) {
  const UniqueFd fd = make_file("a");
  handle_of(fd.get());
  EXPECT_EQ(cuFileUseCount(), 1);
  EXPECT_EQ(cuFileBufRegister(gpu_, 4096, 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileUseCount(), 1);
  EXPECT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileUseCount(), 2);
}

TEST_F(Cufile, close_gives_up_files_and_buffers) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  EXPECT_EQ(cuFileBufRegister(gpu_, 4096, 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileBufDeregister(gpu_).err, CU_FILE_DRIVER_NOT_INITIALIZED);
  cuFileHandleDeregister(handle);
  EXPECT_EQ(cuFileRead(handle, gpu_, 4096, 0, 0), -CU_FILE_HANDLE_NOT_REGISTERED);
  EXPECT_EQ(cuFileUseCount(), 1);
  const CUfileHandle_t again = handle_of(fd.get());
  EXPECT_EQ(cuFileBufRegister(gpu_, 4096, 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileRead(again, gpu_, 4096, 0, 0), 4096);
}

TEST_F(Cufile, close_waits_for_reads_in_flight) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  devices_.faults.delay_min = devices_.faults.delay_max = std::chrono::milliseconds(20);
  std::vector<std::thread> threads;
  std::atomic<int> odd{0};
  for (uint64_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        const ssize_t got = cuFileRead(handle, gpu_, 100'000, 0, static_cast<off_t>(t * kMiB));
        if (got != 100'000 && got != -CU_FILE_HANDLE_NOT_REGISTERED) ++odd;
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const CUfileOpError closed = cuFileDriverClose().err;
    EXPECT_TRUE(closed == CU_FILE_SUCCESS || closed == CU_FILE_DRIVER_NOT_INITIALIZED);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(odd, 0);
}

TEST_F(Cufile, close_goes_on_beside_calls_of_all_kinds) {
  std::atomic<bool> stop{false};
  std::atomic<int> batches{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        CUfileDrvProps_t properties{};
        CUfileBatchHandle_t batch = nullptr;
        cuFileDriverGetProperties(&properties);
        cuFileDriverSetMaxCacheSize(1024);
        if (cuFileBatchIOSetUp(&batch, 4).err == CU_FILE_SUCCESS) {
          cuFileBatchIODestroy(batch);
          ++batches;
        }
        cuFileBufRegister(gpu_, 4096, 0);
      }
    });
  }
  int odd = 0;
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    const CUfileOpError closed = cuFileDriverClose().err;
    odd += closed == CU_FILE_SUCCESS || closed == CU_FILE_DRIVER_NOT_INITIALIZED ? 0 : 1;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(odd, 0);
  EXPECT_GT(batches, 0) << "nothing was done beside the closing";
  // And it can be opened and used after all that.
  const UniqueFd fd = make_file("a");
  EXPECT_EQ(cuFileRead(handle_of(fd.get()), gpu_, 4096, 0, 0), 4096);
  EXPECT_EQ(gpu_bytes(0, 4096), content(0, 4096));
}

TEST_F(Cufile, calls_fail_in_a_forked_child) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  EXPECT_EQ(in_child([&] {
              CUfileHandle_t other = nullptr;
              if (cuFileRead(handle, gpu_, 4096, 0, 0) != -CU_FILE_DRIVER_NOT_INITIALIZED) return 1;
              if (try_register(fd.get(), &other) != CU_FILE_DRIVER_NOT_INITIALIZED) return 2;
              if (cuFileDriverOpen().err != CU_FILE_DRIVER_NOT_INITIALIZED) return 3;
              if (cuFileDriverClose().err != CU_FILE_DRIVER_NOT_INITIALIZED) return 4;
              if (cuFileUseCount() != 0) return 5;
              cuFileHandleDeregister(handle);
              size_t value = 0;
              if (cuFileGetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, &value).err !=
                  CU_FILE_DRIVER_NOT_INITIALIZED) {
                return 6;
              }
              return 0;
            }),
            0);
  EXPECT_EQ(cuFileRead(handle, gpu_, 4096, 0, 0), 4096);
}

TEST(CufileWithoutGpu, calls_say_what_cuda_says) {
  if (gpu::devices()) GTEST_SKIP() << "there is a GPU";
  const CUfileError_t opened = cuFileDriverOpen();
  EXPECT_EQ(opened.err, CU_FILE_CUDA_DRIVER_ERROR);
  EXPECT_EQ(opened.cu_err, CUDA_ERROR_NO_DEVICE);
  std::byte bytes[16];
  EXPECT_EQ(cuFileRead(nullptr, bytes, 16, 0, 0), -CU_FILE_CUDA_DRIVER_ERROR);
  EXPECT_EQ(cuFileBufRegister(bytes, 16, 0).err, CU_FILE_CUDA_DRIVER_ERROR);
  int version = 0;
  EXPECT_EQ(cuFileGetVersion(&version).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileUseCount(), 0);
}

TEST_F(Cufile, properties_and_limits) {
  CUfileDrvProps_t properties{};
  EXPECT_EQ(cuFileDriverSetPollMode(true, 8).err, CU_FILE_DRIVER_NOT_INITIALIZED);
  ASSERT_EQ(cuFileDriverGetProperties(&properties).err, CU_FILE_SUCCESS);
  EXPECT_EQ(properties.max_batch_io_size, 128);
  EXPECT_NE(properties.fflags & 1U << CU_FILE_BATCH_IO_SUPPORTED, 0);
  EXPECT_EQ(cuFileDriverSetPollMode(true, 8).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverSetMaxDirectIOSize(1024).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverSetMaxDirectIOSize(0).err, CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
  EXPECT_EQ(cuFileDriverSetMaxDirectIOSize(1023).err, CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
  EXPECT_EQ(cuFileDriverSetMaxDirectIOSize(size_t{1} << 40).err, CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
  EXPECT_EQ(cuFileDriverSetMaxCacheSize(1024).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileDriverGetProperties(&properties).err, CU_FILE_SUCCESS);
  EXPECT_EQ(properties.nvfs.poll_thresh_size, 8);
  EXPECT_EQ(properties.nvfs.max_direct_io_size, 1024);
  EXPECT_NE(properties.nvfs.dcontrolflags & 1U << CU_FILE_USE_POLL_MODE, 0);
  EXPECT_EQ(cuFileDriverSetMaxPinnedMemSize(64).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileBufRegister(gpu_, 64 * kKiB + 1, 0).err, CU_FILE_INVALID_MAPPING_SIZE);
  EXPECT_EQ(cuFileBufRegister(gpu_, 64 * kKiB, 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileBufRegister(gpu_ + kMiB, 1, 0).err, CU_FILE_INVALID_MAPPING_SIZE);
  EXPECT_EQ(cuFileBufDeregister(gpu_).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileBufRegister(gpu_ + kMiB, 1, 0).err, CU_FILE_SUCCESS);
  size_t aperture = 1;
  EXPECT_EQ(cuFileGetBARSizeInKB(0, &aperture).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileGetBARSizeInKB(99, &aperture).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetBARSizeInKB(-1, &aperture).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetBARSizeInKB(0, nullptr).err, CU_FILE_INVALID_VALUE);
}

TEST_F(Cufile, parameters_are_staged_while_the_driver_is_closed) {
  size_t value = 0;
  size_t least = 0;
  size_t most = 0;
  bool flag = false;
  char text[16];
  EXPECT_EQ(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 64).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileSetParameterSizeT(CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB, 1).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileSetParameterBool(CUFILE_PARAM_FORCE_ODIRECT_MODE, true).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileSetParameterString(CUFILE_PARAM_LOGGING_LEVEL, "WARN").err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileGetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, &value).err,
            CU_FILE_SUCCESS);
  EXPECT_EQ(value, 64);
  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 32).err,
            CU_FILE_DRIVER_ALREADY_OPEN);
  EXPECT_EQ(cuFileGetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, &value).err,
            CU_FILE_SUCCESS);
  EXPECT_EQ(value, 64);
  // It was outside its limits.
  EXPECT_EQ(cuFileGetParameterSizeT(CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB, &value).err,
            CU_FILE_SUCCESS);
  EXPECT_EQ(value, 4);
  EXPECT_EQ(cuFileGetParameterBool(CUFILE_PARAM_FORCE_ODIRECT_MODE, &flag).err, CU_FILE_SUCCESS);
  EXPECT_TRUE(flag);
  EXPECT_EQ(cuFileGetParameterString(CUFILE_PARAM_LOGGING_LEVEL, text, 4).err,
            CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileGetParameterString(CUFILE_PARAM_LOGGING_LEVEL, text, 5).err, CU_FILE_SUCCESS);
  EXPECT_STREQ(text, "WARN");
  EXPECT_EQ(cuFileGetParameterMinMaxValue(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, &least, &most).err,
            CU_FILE_SUCCESS);
  EXPECT_EQ(least, 1);
  EXPECT_EQ(most, 256);
}

TEST_F(Cufile, parameters_stay_staged_when_the_driver_cannot_open) {
  EXPECT_EQ(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 64).err, CU_FILE_SUCCESS);
  gpu::replace_devices(nullptr);
  if (gpu::devices()) GTEST_SKIP() << "there is a GPU";
  EXPECT_NE(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  gpu::replace_devices(&devices_);
  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  size_t value = 0;
  EXPECT_EQ(cuFileGetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, &value).err,
            CU_FILE_SUCCESS);
  EXPECT_EQ(value, 64);
}

TEST_F(Cufile, bad_arguments_are_refused) {
  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  size_t size = 0;
  bool flag = false;
  char text[8];
  const auto no_size = static_cast<CUFileSizeTConfigParameter_t>(12);
  const auto no_bool = static_cast<CUFileBoolConfigParameter_t>(15);
  const auto no_string = static_cast<CUFileStringConfigParameter_t>(3);
  const struct {
    const char* what;
    CUfileError_t got;
  } kCalls[] = {
      {"version", cuFileGetVersion(nullptr)},
      {"properties", cuFileDriverGetProperties(nullptr)},
      {"size parameter", cuFileGetParameterSizeT(no_size, &size)},
      {"size place", cuFileGetParameterSizeT(CUFILE_PARAM_PROFILE_STATS, nullptr)},
      {"set size", cuFileSetParameterSizeT(no_size, 1)},
      {"bool parameter", cuFileGetParameterBool(no_bool, &flag)},
      {"set bool", cuFileSetParameterBool(no_bool, true)},
      {"string parameter", cuFileGetParameterString(no_string, text, 8)},
      {"string length", cuFileGetParameterString(CUFILE_PARAM_LOG_DIR, text, -1)},
      {"set string", cuFileSetParameterString(CUFILE_PARAM_LOG_DIR, nullptr)},
      {"limits",
       cuFileGetParameterMinMaxValue(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, &size, nullptr)},
      {"pool", cuFileSetParameterPosixPoolSlabArray(nullptr, &size, 1)},
      {"pool length", cuFileGetParameterPosixPoolSlabArray(&size, &size, 0)},
      {"level", cuFileSetStatsLevel(4)},
      {"level below", cuFileSetStatsLevel(-1)},
      {"level place", cuFileGetStatsLevel(nullptr)},
      {"statistics", cuFileGetStatsL1(nullptr)},
      {"handle place", cuFileHandleRegister(nullptr, nullptr)},
      {"buffer", cuFileBufRegister(nullptr, 4096, 0)},
      {"buffer length", cuFileBufRegister(gpu_, 0, 0)},
      {"no buffer", cuFileBufDeregister(nullptr)},
  };
  for (const auto& call : kCalls) EXPECT_EQ(call.got.err, CU_FILE_INVALID_VALUE) << call.what;
}

TEST_F(Cufile, statistics_count_what_was_done) {
  const UniqueFd fd = make_file("a");
  CUfileStatsLevel1_t basic{};
  CUfileStatsLevel2_t detailed{};
  CUfileStatsLevel3_t all{};
  EXPECT_EQ(cuFileGetStatsL1(&basic).err, CU_FILE_DRIVER_NOT_INITIALIZED);
  EXPECT_EQ(cuFileStatsStart().err, CU_FILE_DRIVER_NOT_INITIALIZED);
  ASSERT_EQ(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileSetStatsLevel(1).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileStatsReset().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileStatsStart().err, CU_FILE_SUCCESS);
  const CUfileHandle_t handle = handle_of(fd.get());
  EXPECT_EQ(cuFileRead(handle, gpu_, 4096, 0, 0), 4096);
  EXPECT_EQ(cuFileRead(handle, gpu_, 10'000, 1, 0), 10'000);
  EXPECT_EQ(cuFileWrite(handle, gpu_, 5'000, 0, 0), 5'000);
  ASSERT_EQ(cuFileGetStatsL1(&basic).err, CU_FILE_SUCCESS);
  EXPECT_EQ(basic.read_ops.ok, 2);
  EXPECT_EQ(basic.read_bytes, 14'096);
  EXPECT_EQ(basic.write_ops.ok, 1);
  EXPECT_EQ(basic.write_bytes, 5'000);
  EXPECT_EQ(basic.hdl_register_ops.ok, 1);
  EXPECT_EQ(cuFileGetStatsL2(&detailed).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileSetStatsLevel(3).err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileGetStatsL2(&detailed).err, CU_FILE_SUCCESS);
  uint64_t sizes = 0;
  for (const uint64_t count : detailed.read_size_kb_hist) sizes += count;
  EXPECT_EQ(sizes, 2);
  EXPECT_EQ(detailed.read_size_kb_hist[3], 1);
  ASSERT_EQ(cuFileGetStatsL3(&all).err, CU_FILE_SUCCESS);
  EXPECT_EQ(all.num_gpus, 2);
  EXPECT_EQ(all.per_gpu_stats[0].n_total_reads, 2);
  EXPECT_EQ(all.per_gpu_stats[0].n_unaligned_reads, 1);
  EXPECT_EQ(all.per_gpu_stats[0].writes_bytes, 5'000);
  EXPECT_EQ(all.per_gpu_stats[1].n_total_reads, 0);
  EXPECT_EQ(cuFileStatsStop().err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileRead(handle, gpu_, 4096, 0, 0), 4096);
  ASSERT_EQ(cuFileGetStatsL1(&basic).err, CU_FILE_SUCCESS);
  EXPECT_EQ(basic.read_ops.ok, 2);
  EXPECT_EQ(cuFileStatsReset().err, CU_FILE_SUCCESS);
  ASSERT_EQ(cuFileGetStatsL1(&basic).err, CU_FILE_SUCCESS);
  EXPECT_EQ(basic.read_ops.ok, 0);
  EXPECT_EQ(cuFileSetStatsLevel(0).err, CU_FILE_SUCCESS);
}

}  // namespace
}  // namespace penstock::cufile
