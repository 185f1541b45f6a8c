// Reads and writes in the order of a stream.
#include "rig.h"

#include <thread>

namespace penstock::cufile {
namespace {

class Streams : public Cufile {
 protected:
  Streams() : fd_(make_file("a")), file_(handle_of(fd_.get())), stream_(devices_.make_stream()) {}
  ~Streams() override { devices_.synchronize(stream_); }

  CUstream stream() const { return static_cast<CUstream>(stream_); }

  UniqueFd fd_;
  CUfileHandle_t file_;
  engine::DeviceStream stream_;
};

TEST_F(Streams, operations_come_between_what_was_enqueued_before_and_after) {
  size_t size = 100'000;
  off_t from = 5;
  off_t at = 7;
  ssize_t written = -7;
  ssize_t read = -7;
  const Content bytes = content(0, size, 3);
  Content seen;
  devices_.enqueue(stream_, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    devices_.poke(gpu_ + at, bytes);
  });
  ASSERT_EQ(cuFileWriteAsync(file_, gpu_, &size, &from, &at, &written, stream()).err,
            CU_FILE_SUCCESS);
  EXPECT_EQ(written, -7);
  devices_.enqueue(stream_, [&] { devices_.poke(gpu_ + at, content(0, 100'000, 4)); });
  ASSERT_EQ(cuFileReadAsync(file_, gpu_, &size, &from, &at, &read, stream()).err, CU_FILE_SUCCESS);
  devices_.enqueue(stream_, [&] { seen = gpu_bytes(7, 100'000); });
  devices_.synchronize(stream_);
  EXPECT_EQ(written, 100'000);
  EXPECT_EQ(read, 100'000);
  EXPECT_EQ(seen, bytes);
  EXPECT_EQ(file_bytes("a", 5, 100'000), bytes);
}

TEST_F(Streams, sizes_and_offsets_are_read_when_the_stream_is_there) {
  size_t size = 1;
  off_t from = 0;
  off_t at = 0;
  ssize_t got = 0;
  devices_.enqueue(stream_, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    size = 5000;
    from = 12'345;
    at = 100;
  });
  ASSERT_EQ(cuFileReadAsync(file_, gpu_, &size, &from, &at, &got, stream()).err, CU_FILE_SUCCESS);
  devices_.synchronize(stream_);
  EXPECT_EQ(got, 5000);
  EXPECT_EQ(gpu_bytes(100, 5000), content(12'345, 5000));
}

TEST_F(Streams, what_a_stream_says_is_fixed_is_read_at_once) {
  ASSERT_EQ(cuFileStreamRegister(stream(), CU_FILE_STREAM_FIXED_AND_ALIGNED).err, CU_FILE_SUCCESS);
  size_t size = 8192;
  off_t from = 4096;
  off_t at = 0;
  ssize_t got = 0;
  devices_.enqueue(stream_, [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  ASSERT_EQ(cuFileReadAsync(file_, gpu_, &size, &from, &at, &got, stream()).err, CU_FILE_SUCCESS);
  size = 1;
  from = -1;
  at = -1;
  devices_.synchronize(stream_);
  EXPECT_EQ(got, 8192);
  EXPECT_EQ(gpu_bytes(0, 8192), content(4096, 8192));
  EXPECT_EQ(cuFileStreamRegister(stream(), 0).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileStreamDeregister(stream()).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileStreamDeregister(stream()).err, CU_FILE_INVALID_VALUE);
  EXPECT_EQ(cuFileStreamRegister(stream(), 16).err, CU_FILE_INVALID_VALUE);
}

TEST_F(Streams, the_default_stream_waits_for_the_end) {
  size_t size = 4096;
  off_t from = 0;
  off_t at = 0;
  ssize_t got = 0;
  ASSERT_EQ(cuFileReadAsync(file_, gpu_, &size, &from, &at, &got, nullptr).err, CU_FILE_SUCCESS);
  EXPECT_EQ(got, 4096);
  EXPECT_EQ(gpu_bytes(0, 4096), content(0, 4096));
  Content host(1000);
  size = 1000;
  ASSERT_EQ(cuFileReadAsync(file_, host.data(), &size, &from, &at, &got, nullptr).err,
            CU_FILE_SUCCESS);
  EXPECT_EQ(host, content(0, 1000));
}

TEST_F(Streams, errors_are_where_the_bytes_would_be) {
  size_t size = kGpuBytes + 1;
  off_t from = 0;
  off_t at = 0;
  ssize_t got = 0;
  ASSERT_EQ(cuFileReadAsync(file_, gpu_, &size, &from, &at, &got, nullptr).err, CU_FILE_SUCCESS);
  EXPECT_EQ(got, -CU_FILE_CUDA_POINTER_RANGE_ERROR);
  size = 4096;
  from = -1;
  ASSERT_EQ(cuFileReadAsync(file_, gpu_, &size, &from, &at, &got, nullptr).err, CU_FILE_SUCCESS);
  EXPECT_EQ(got, -CU_FILE_INVALID_VALUE);
  from = 1LL << 40;
  ASSERT_EQ(cuFileReadAsync(file_, gpu_, &size, &from, &at, &got, nullptr).err, CU_FILE_SUCCESS);
  EXPECT_EQ(got, 0);
  devices_.lose(devices_.find(gpu_, 1)->device);
  from = 0;
  ASSERT_EQ(cuFileReadAsync(file_, gpu_, &size, &from, &at, &got, nullptr).err, CU_FILE_SUCCESS);
  EXPECT_EQ(got, -1);
}

TEST_F(Streams, bad_arguments_and_captured_streams_are_refused) {
  size_t size = 4096;
  off_t zero = 0;
  ssize_t got = 0;
  const auto read = [&](CUfileHandle_t file, void* base, size_t* bytes, off_t* from, off_t* at,
                        ssize_t* out) {
    return cuFileReadAsync(file, base, bytes, from, at, out, stream()).err;
  };
  EXPECT_EQ(read(nullptr, gpu_, &size, &zero, &zero, &got), CU_FILE_HANDLE_NOT_REGISTERED);
  EXPECT_EQ(read(file_, nullptr, &size, &zero, &zero, &got), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(read(file_, gpu_, nullptr, &zero, &zero, &got), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(read(file_, gpu_, &size, nullptr, &zero, &got), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(read(file_, gpu_, &size, &zero, nullptr, &got), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(read(file_, gpu_, &size, &zero, &zero, nullptr), CU_FILE_INVALID_VALUE);
  devices_.capture(stream_);
  EXPECT_EQ(read(file_, gpu_, &size, &zero, &zero, &got), CU_FILE_ASYNC_NOT_SUPPORTED);
}

TEST_F(Streams, what_a_stream_comes_to_after_the_close_ends_with_an_error) {
  size_t size = 4096;
  off_t zero = 0;
  ssize_t got = 0;
  std::atomic<bool> go{false};
  devices_.enqueue(stream_, [&] { go.wait(false); });
  ASSERT_EQ(cuFileReadAsync(file_, gpu_, &size, &zero, &zero, &got, stream()).err, CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileDriverClose().err, CU_FILE_SUCCESS);
  go = true;
  go.notify_all();
  devices_.synchronize(stream_);
  EXPECT_EQ(got, -CU_FILE_DRIVER_CLOSING);
}

TEST_F(Streams, many_operations_in_many_streams_keep_their_order) {
  constexpr int kStreams = 4;
  constexpr int kEach = 100;
  struct Args {
    size_t size = 0;
    off_t from = 0;
    off_t at = 0;
    ssize_t got = 0;
  };
  std::vector<Args> all(kStreams * kEach);
  std::atomic<int> good{0};
  std::vector<engine::DeviceStream> streams;
  for (int s = 0; s < kStreams; ++s) streams.push_back(devices_.make_stream());
  engine::SeededRandom random(5);
  for (int i = 0; i < kEach; ++i) {
    for (int s = 0; s < kStreams; ++s) {
      Args& args = all[static_cast<size_t>(i * kStreams + s)];
      args.size = 1 + random.below(20'000);
      args.from = static_cast<off_t>(random.below(kFileBytes - 20'000));
      args.at = s * static_cast<off_t>(kMiB);
      ASSERT_EQ(cuFileReadAsync(file_, gpu_, &args.size, &args.from, &args.at, &args.got,
                                static_cast<CUstream>(streams[static_cast<size_t>(s)]))
                    .err,
                CU_FILE_SUCCESS);
      devices_.enqueue(streams[static_cast<size_t>(s)], [&] {
        const bool arrived = args.got == static_cast<ssize_t>(args.size) &&
                             gpu_bytes(static_cast<uint64_t>(args.at), args.size) ==
                                 content(static_cast<uint64_t>(args.from), args.size);
        good += arrived ? 1 : 0;
      });
    }
  }
  for (engine::DeviceStream stream : streams) devices_.synchronize(stream);
  EXPECT_EQ(good, kStreams * kEach);
}

}  // namespace
}  // namespace penstock::cufile
