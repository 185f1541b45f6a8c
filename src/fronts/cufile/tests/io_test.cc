// Files, buffers, and reads and writes that wait for their end.
#include "rig.h"

#include <optional>
#include <sys/socket.h>
#include <thread>

namespace penstock::cufile {
namespace {

TEST_F(Cufile, file_bytes_arrive_and_leave_at_every_alignment) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  for (const bool registered : {false, true}) {
    if (registered) {
      ASSERT_EQ(cuFileBufRegister(gpu_, kGpuBytes, 0).err, CU_FILE_SUCCESS);
    }
    for (const uint64_t offset : {0, 1, 4095, 4096, 100'000, 1'048'576, 1'048'577}) {
      for (const uint64_t length : {1, 100, 4095, 4096, 4097, 70'000, 2'000'000}) {
        const auto at = static_cast<off_t>(offset % 7 * 100);
        ASSERT_EQ(cuFileRead(handle, gpu_, length, static_cast<off_t>(offset), at),
                  static_cast<ssize_t>(length));
        ASSERT_EQ(gpu_bytes(static_cast<uint64_t>(at), length), content(offset, length));
      }
    }
    const Content other = content(0, 300'000, registered ? 1 : 2);
    devices_.poke(gpu_ + 5, other);
    ASSERT_EQ(cuFileWrite(handle, gpu_, 300'000, 12'345, 5), 300'000);
    ASSERT_EQ(file_bytes("a", 12'345, 300'000), other);
    const Content before = content(12'345, 300'000);
    ASSERT_EQ(::pwrite(fd.get(), before.data(), before.size(), 12'345), 300'000);
  }
}

TEST_F(Cufile, write_has_what_the_default_stream_was_given_before) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  const Content late = content(0, 5000, 9);
  const auto fill_late = [&] {
    devices_.enqueue(nullptr, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      devices_.poke(gpu_, late);
    });
  };
  fill_late();
  ASSERT_EQ(cuFileWrite(handle, gpu_, 5000, 0, 0), 5000);
  EXPECT_EQ(file_bytes("a", 0, 5000), late);
  devices_.poke(gpu_, Content(5000));
  fill_late();
  CUfileBatchHandle_t batch = nullptr;
  ASSERT_EQ(cuFileBatchIOSetUp(&batch, 1).err, CU_FILE_SUCCESS);
  CUfileIOParams_t write{};
  write.mode = CUFILE_BATCH;
  write.fh = handle;
  write.opcode = CUFILE_WRITE;
  write.u.batch.devPtr_base = gpu_;
  write.u.batch.file_offset = 20'000;
  write.u.batch.size = 5000;
  ASSERT_EQ(cuFileBatchIOSubmit(batch, 1, &write, 0).err, CU_FILE_SUCCESS);
  unsigned count = 1;
  CUfileIOEvents_t event{};
  ASSERT_EQ(cuFileBatchIOGetStatus(batch, 1, &count, &event, nullptr).err, CU_FILE_SUCCESS);
  EXPECT_EQ(event.ret, 5000U);
  EXPECT_EQ(file_bytes("a", 20'000, 5000), late);
  cuFileBatchIODestroy(batch);
}

TEST_F(Cufile, host_memory_works_registered_or_not) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  Content host(100'000);
  ASSERT_EQ(cuFileRead(handle, host.data(), 50'000, 77, 3), 50'000);
  EXPECT_TRUE(std::equal(host.begin() + 3, host.begin() + 50'003, content(77, 50'000).begin()));
  ASSERT_EQ(cuFileBufRegister(host.data(), host.size(), 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileWrite(handle, host.data(), 50'000, 1'000'000, 3), 50'000);
  EXPECT_EQ(file_bytes("a", 1'000'000, 50'000), content(77, 50'000));
  EXPECT_EQ(cuFileRead(handle, host.data(), 100'000, 0, 1), -CU_FILE_INVALID_MAPPING_RANGE);
  EXPECT_EQ(cuFileBufDeregister(host.data()).err, CU_FILE_SUCCESS);
}

TEST_F(Cufile, reads_are_short_at_the_end_of_the_file) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  EXPECT_EQ(cuFileRead(handle, gpu_, 8192, kFileBytes - 100, 0), 100);
  EXPECT_EQ(cuFileRead(handle, gpu_, 8192, kFileBytes, 0), 0);
  EXPECT_EQ(cuFileRead(handle, gpu_, 8192, 1LL << 40, 0), 0);
  EXPECT_EQ(cuFileRead(handle, gpu_, 0, 0, 0), 0);
  EXPECT_EQ(cuFileWrite(handle, gpu_, 0, 0, 0), 0);
}

TEST_F(Cufile, what_is_no_file_is_not_registered) {
  const UniqueFd good = make_file("a");
  CUfileHandle_t handle = nullptr;
  EXPECT_EQ(try_register(-1, &handle), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(try_register(987, &handle), CU_FILE_INVALID_VALUE);
  const UniqueFd directory(::open(directory_.c_str(), O_RDONLY));
  EXPECT_EQ(try_register(directory.get(), &handle), CU_FILE_INVALID_FILE_TYPE);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  EXPECT_EQ(try_register(reader.get(), &handle), CU_FILE_INVALID_FILE_TYPE);
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  EXPECT_EQ(try_register(socket.get(), &handle), CU_FILE_INVALID_FILE_TYPE);
  const UniqueFd appending(::open(path("a").c_str(), O_WRONLY | O_APPEND));
  EXPECT_EQ(try_register(appending.get(), &handle), CU_FILE_INVALID_FILE_OPEN_FLAG);
  const UniqueFd name_only(::open(path("a").c_str(), O_PATH));
  EXPECT_EQ(try_register(name_only.get(), &handle), CU_FILE_INVALID_FILE_OPEN_FLAG);
  CUfileDescr_t other{};
  other.type = CU_FILE_HANDLE_TYPE_USERSPACE_FS;
  other.handle.fd = good.get();
  EXPECT_EQ(cuFileHandleRegister(&handle, &other).err, CU_FILE_IO_NOT_SUPPORTED);
}

TEST_F(Cufile, a_descriptor_is_registered_once_and_outlives_its_close) {
  UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  CUfileHandle_t other = nullptr;
  EXPECT_EQ(try_register(fd.get(), &other), CU_FILE_HANDLE_ALREADY_REGISTERED);
  const int number = fd.get();
  fd.reset();
  EXPECT_EQ(cuFileRead(handle, gpu_, 4096, 0, 0), 4096);
  // Another file may have the number now.
  UniqueFd next = make_file("b");
  ASSERT_EQ(::dup2(next.get(), number), number);
  const UniqueFd moved(number);
  if (next.get() == number) (void)next.release();
  const CUfileHandle_t second = handle_of(number);
  EXPECT_NE(second, handle);
  cuFileHandleDeregister(handle);
  EXPECT_EQ(cuFileRead(handle, gpu_, 4096, 0, 0), -CU_FILE_HANDLE_NOT_REGISTERED);
  EXPECT_EQ(errno, CU_FILE_HANDLE_NOT_REGISTERED);
  EXPECT_EQ(cuFileRead(second, gpu_, 4096, 0, 0), 4096);
  cuFileHandleDeregister(second);
  cuFileHandleDeregister(second);
  cuFileHandleDeregister(nullptr);
  EXPECT_EQ(try_register(number, &other), CU_FILE_SUCCESS);
}

TEST_F(Cufile, buffers_are_registered_once_by_their_base) {
  EXPECT_EQ(cuFileBufRegister(gpu_, kMiB, 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileBufRegister(gpu_, kMiB, 0).err, CU_FILE_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(cuFileBufRegister(gpu_ + 4096, 4096, 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileBufDeregister(gpu_ + 4096).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileBufDeregister(gpu_ + 4096).err, CU_FILE_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(cuFileBufRegister(gpu_ + 1, kGpuBytes, 0).err, CU_FILE_CUDA_POINTER_RANGE_ERROR);
  EXPECT_EQ(cuFileBufDeregister(gpu_).err, CU_FILE_SUCCESS);
}

TEST_F(Cufile, ranges_are_held_to_their_buffer_or_allocation) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  ASSERT_EQ(cuFileBufRegister(gpu_, kMiB, 0).err, CU_FILE_SUCCESS);
  for (const bool write : {false, true}) {
    const auto io = [&](std::byte* base, size_t size, off_t at) {
      return write ? cuFileWrite(handle, base, size, 0, at) : cuFileRead(handle, base, size, 0, at);
    };
    EXPECT_EQ(io(gpu_, kMiB, 0), static_cast<ssize_t>(kMiB));
    EXPECT_EQ(io(gpu_, kMiB, 1), -CU_FILE_INVALID_MAPPING_RANGE);
    EXPECT_EQ(io(gpu_, 1, kMiB), -CU_FILE_INVALID_MAPPING_RANGE);
    EXPECT_EQ(io(gpu_ + 2 * kMiB, kGpuBytes, 0), -CU_FILE_CUDA_POINTER_RANGE_ERROR);
    EXPECT_EQ(io(gpu_ + kGpuBytes - 100, 101, 0), -CU_FILE_CUDA_POINTER_RANGE_ERROR);
    EXPECT_EQ(io(gpu_ + kGpuBytes - 100, 100, 0), 100);
  }
}

TEST_F(Cufile, impossible_requests_are_refused) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  const auto bogus = reinterpret_cast<CUfileHandle_t>(uintptr_t{0x1234});
  const auto far = reinterpret_cast<CUfileHandle_t>(UINTPTR_MAX);
  const struct {
    CUfileHandle_t handle;
    void* base;
    size_t size;
    off_t file_offset;
    off_t buffer_offset;
    CUfileOpError error;
  } kRequests[] = {
      {nullptr, gpu_, 1, 0, 0, CU_FILE_HANDLE_NOT_REGISTERED},
      {bogus, gpu_, 1, 0, 0, CU_FILE_HANDLE_NOT_REGISTERED},
      {far, gpu_, 1, 0, 0, CU_FILE_HANDLE_NOT_REGISTERED},
      {handle, nullptr, 1, 0, 0, CU_FILE_INVALID_VALUE},
      {handle, gpu_, 1, -1, 0, CU_FILE_INVALID_VALUE},
      {handle, gpu_, 1, 0, -1, CU_FILE_INVALID_VALUE},
      {handle, gpu_, SIZE_MAX, 0, 0, CU_FILE_INVALID_VALUE},
      {handle, gpu_, 4096, INT64_MAX, 0, CU_FILE_INVALID_VALUE},
      {handle, gpu_, 4096, 0, INT64_MAX, CU_FILE_INVALID_VALUE},
  };
  for (const auto& one : kRequests) {
    EXPECT_EQ(cuFileRead(one.handle, one.base, one.size, one.file_offset, one.buffer_offset),
              -one.error);
    EXPECT_EQ(cuFileWrite(one.handle, one.base, one.size, one.file_offset, one.buffer_offset),
              -one.error);
  }
}

TEST_F(Cufile, a_file_is_used_as_it_was_opened) {
  const UniqueFd reading = make_file("a", kFileBytes, O_RDONLY);
  const UniqueFd writing(::open(path("a").c_str(), O_WRONLY));
  const CUfileHandle_t to_read = handle_of(reading.get());
  const CUfileHandle_t to_write = handle_of(writing.get());
  EXPECT_EQ(cuFileWrite(to_read, gpu_, 4096, 0, 0), -CU_FILE_INVALID_FILE_OPEN_FLAG);
  EXPECT_EQ(cuFileRead(to_write, gpu_, 4096, 0, 0), -CU_FILE_INVALID_FILE_OPEN_FLAG);
  EXPECT_EQ(cuFileRead(to_read, gpu_, 4096, 0, 0), 4096);
  EXPECT_EQ(cuFileWrite(to_write, gpu_, 4096, 0, 0), 4096);
}

// Allocations go round the simulated memory until the place of `gone` comes again.
std::optional<engine::DeviceSpan> allocate_again(sim::SimDeviceMemory& devices,
                                                 const engine::DeviceSpan& gone) {
  for (int i = 0; i < 200; ++i) {
    const engine::DeviceSpan next = *devices.allocate(gone.device, gone.length);
    if (next.data == gone.data) return next;
    EXPECT_TRUE(devices.release(next).ok());
  }
  return std::nullopt;
}

TEST_F(Cufile, memory_that_is_allocated_again_at_its_place_is_found_anew) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  const engine::DeviceSpan first = *devices_.allocate(engine::DeviceId(1), kMiB);
  EXPECT_EQ(cuFileRead(handle, first.data, 4096, 0, 0), 4096);
  ASSERT_TRUE(devices_.release(first).ok());
  EXPECT_LT(cuFileRead(handle, first.data, 4096, 0, 0), 0);
  if (!allocate_again(devices_, first)) GTEST_SKIP() << "the place did not come again";
  EXPECT_EQ(cuFileRead(handle, first.data, 4096, 0, 0), 4096);
}

TEST_F(Cufile, memory_that_is_allocated_again_at_its_place_can_be_registered_anew) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  const engine::DeviceSpan first = *devices_.allocate(engine::DeviceId(1), kMiB);
  ASSERT_EQ(cuFileBufRegister(first.data, kMiB, 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileBufRegister(first.data, kMiB, 0).err, CU_FILE_MEMORY_ALREADY_REGISTERED);
  ASSERT_TRUE(devices_.release(first).ok());
  if (!allocate_again(devices_, first)) GTEST_SKIP() << "the place did not come again";
  EXPECT_EQ(cuFileBufRegister(first.data, kMiB, 0).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileRead(handle, first.data, 4096, 0, 0), 4096);
  EXPECT_EQ(cuFileBufDeregister(first.data).err, CU_FILE_SUCCESS);
}

// The kernel takes numbers only.
TEST_F(Cufile, what_a_file_refuses_is_not_the_fault_of_the_memory) {
  const UniqueFd fd(::open("/proc/self/oom_score_adj", O_RDWR));
  ASSERT_TRUE(fd);
  const CUfileHandle_t handle = handle_of(fd.get());
  devices_.poke(gpu_, content(0, 8));
  errno = 0;
  EXPECT_EQ(cuFileWrite(handle, gpu_, 8, 0, 0), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Cufile, errors_of_devices_and_files_are_told_apart) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  EXPECT_EQ(cuFileRead(handle, gpu_, 4096, 0, 0), 4096);
  devices_.lose(devices_.find(gpu_, 1)->device);
  EXPECT_EQ(cuFileRead(handle, gpu_, 4096, 0, 0), -1);
  EXPECT_EQ(errno, EIO);
}

TEST_F(Cufile, threads_read_write_and_register_side_by_side) {
  const UniqueFd fd = make_file("a");
  const CUfileHandle_t handle = handle_of(fd.get());
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      engine::SeededRandom random(t);
      std::byte* const mine = gpu_ + t * kMiB;
      const UniqueFd own(::open(path("a").c_str(), O_RDONLY));
      for (int i = 0; i < 40; ++i) {
        const uint64_t offset = random.below(kFileBytes - 100'000);
        const uint64_t length = 1 + random.below(100'000);
        const bool registers = i % 3 == 0;
        if (registers) cuFileBufRegister(mine, kMiB, 0);
        const CUfileHandle_t used = i % 4 == 0 ? handle_of(own.get()) : handle;
        const bool arrived = cuFileRead(used, mine, length, static_cast<off_t>(offset), 0) ==
                                 static_cast<ssize_t>(length) &&
                             gpu_bytes(t * kMiB, length) == content(offset, length);
        good += arrived ? 1 : 0;
        if (used != handle) cuFileHandleDeregister(used);
        if (registers) cuFileBufDeregister(mine);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 320);
}

}  // namespace
}  // namespace penstock::cufile
