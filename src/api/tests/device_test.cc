// GPU memory through the C interface, with simulated GPUs.
#include "client.h"
#include "devices.h"
#include "library_threads.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <thread>

#include "penstock/sim.h"
#include "penstock/testing_node.h"

namespace penstock::api {
namespace {

class DeviceRegions : public testing::Test {
 protected:
  void SetUp() override {
    replace_devices(&gpus_);
    ASSERT_EQ(client_.open_store(scratch_.store()), 0) << penstock_last_error();
    client_.prepare(8 * kMiB);
    file_ = client_.open("/a", O_RDWR | O_CREAT);
    test::fill({content_.data(), kFileBytes}, 1);
    std::copy(content_.begin(), content_.end(), client_.memory());
    ASSERT_EQ(client_.run(client_.io(PENSTOCK_WRITE, file_, 0, kFileBytes)),
              static_cast<int64_t>(kFileBytes));
    ASSERT_EQ(penstock_region_create_device(client_.session, 0, 16 * kMiB, &gpu_), 0)
        << penstock_last_error();
  }
  void TearDown() override {
    penstock_close(std::exchange(client_.session, nullptr));
    replace_devices(nullptr);
  }

  penstock_io io(uint8_t operation, uint64_t offset, uint64_t length, uint64_t to,
                 uint64_t user_data = 0) const {
    penstock_io out = client_.io(operation, file_, offset, length, to, user_data);
    out.region = gpu_;
    return out;
  }
  std::byte* address(uint64_t offset) const {
    return static_cast<std::byte*>(penstock_region_base(gpu_)) + offset;
  }
  bool holds(uint64_t at, uint64_t offset, uint64_t length) {
    std::vector<std::byte> got(length);
    gpus_.peek(address(at), got);
    return std::equal(got.begin(), got.end(), content_.begin() + static_cast<int64_t>(offset));
  }

  static constexpr uint64_t kFileBytes = 5 * kMiB + 777;
  test::ScratchDirectory scratch_;
  engine::SeededRandom random_{1};
  sim::SimDeviceMemory gpus_{random_};
  std::vector<std::byte> content_ = std::vector<std::byte>(kFileBytes);
  Client client_;
  penstock_region* gpu_ = nullptr;
  penstock_file file_ = -1;
};

TEST_F(DeviceRegions, file_bytes_arrive_in_gpu_memory) {
  EXPECT_EQ(penstock_region_gpu(gpu_), 0);
  EXPECT_EQ(penstock_region_gpu(client_.region), -1);
  penstock_route route = 0;
  EXPECT_EQ(client_.run(io(PENSTOCK_READ, 0, kFileBytes, 0), &route),
            static_cast<int64_t>(kFileBytes));
  EXPECT_EQ(route, PENSTOCK_ROUTE_DEVICE_SLOTS);
  EXPECT_TRUE(holds(0, 0, kFileBytes));
  EXPECT_EQ(client_.run(io(PENSTOCK_READ, 4099, 12345, 7)), 12345);
  EXPECT_TRUE(holds(7, 4099, 12345));
  EXPECT_EQ(client_.run(io(PENSTOCK_READ, kFileBytes - 10, 4096, 1)), 10);
  EXPECT_EQ(client_.run(io(PENSTOCK_READ, kFileBytes, 4096, 1)), 0);
}

TEST_F(DeviceRegions, gpu_memory_of_others_can_be_registered_within_its_allocation_only) {
  const Outcome<engine::DeviceSpan> span = gpus_.allocate(engine::DeviceId(1), kMiB);
  penstock_region* region = nullptr;
  ASSERT_EQ(penstock_region_register_device(client_.session, span->data + 100, 50'000, &region), 0);
  EXPECT_EQ(penstock_region_gpu(region), 1);
  penstock_io read = io(PENSTOCK_READ, 3, 50'000, 0);
  read.region = region;
  EXPECT_EQ(client_.run(read), 50'000);
  read.length = 50'001;
  EXPECT_EQ(client_.run(read), -EINVAL);
  EXPECT_EQ(penstock_region_release(region), 0);
  EXPECT_EQ(penstock_region_register_device(client_.session, span->data, 2 * kMiB, &region),
            -EINVAL);
  EXPECT_NE(std::string(penstock_last_error()).find("leaves its allocation"), std::string::npos);
  EXPECT_EQ(penstock_region_register_device(client_.session, client_.memory(), 4096, &region),
            -EINVAL);
  EXPECT_NE(std::string(penstock_last_error()).find("not one of GPU memory"), std::string::npos);
  EXPECT_EQ(penstock_region_create_device(client_.session, 7, 4096, &region), -EINVAL);
  EXPECT_EQ(penstock_region_create_device(client_.session, 0, kGiB, &region), -ENOMEM);
}

TEST_F(DeviceRegions, gpu_memory_is_written_to_the_file) {
  std::vector<std::byte> content(3 * kMiB + 5);
  test::fill({content.data(), content.size()}, 9);
  gpus_.poke(address(11), content);
  penstock_io write = io(PENSTOCK_WRITE, 4000, content.size(), 11);
  write.flags = PENSTOCK_DURABLE;
  EXPECT_EQ(client_.run(write), static_cast<int64_t>(content.size()));
  EXPECT_EQ(client_.run(client_.io(PENSTOCK_READ, file_, 4000, content.size())),
            static_cast<int64_t>(content.size()));
  EXPECT_TRUE(test::is_content({client_.memory(), content.size()}, 9));
}

TEST_F(DeviceRegions, operations_on_host_and_gpu_memory_share_a_lane) {
  std::vector<penstock_completion> completions(64);
  for (int round = 0; round < 20; ++round) {
    for (uint64_t i = 0; i < 60; ++i) {
      penstock_io one = i % 2 == 0 ? io(PENSTOCK_READ, i * 4096, 4096, i * 5000, i)
                                   : client_.io(PENSTOCK_READ, file_, i * 4096, 4096, i * 4096, i);
      ASSERT_EQ(penstock_prepare(client_.ring, &one), 0) << penstock_last_error();
    }
    ASSERT_EQ(penstock_submit(client_.ring), 60);
    ASSERT_EQ(penstock_wait(client_.ring, completions.data(), 64, 60, Client::in_seconds(60)), 60);
    std::vector<bool> seen(60, false);
    for (int i = 0; i < 60; ++i) {
      const auto& completion = completions[static_cast<size_t>(i)];
      EXPECT_EQ(completion.result, 4096);
      EXPECT_FALSE(seen[completion.user_data]);
      seen[completion.user_data] = true;
    }
    for (uint64_t i = 0; i < 60; i += 2) EXPECT_TRUE(holds(i * 5000, i * 4096, 4096));
  }
}

TEST_F(DeviceRegions, threads_with_lanes_of_their_own_do_not_mix_bytes) {
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      engine::SeededRandom random(t);
      for (int i = 0; i < 100; ++i) {
        const uint64_t offset = random.below(kFileBytes - 70'000);
        const uint64_t length = 1 + random.below(i % 10 == 0 ? 70'000 : 5'000);
        const bool arrived = client_.run(io(PENSTOCK_READ, offset, length, t * kMiB, t)) ==
                                 static_cast<int64_t>(length) &&
                             holds(t * kMiB, offset, length);
        good += arrived ? 1 : 0;
      }
      penstock_ring_leave(client_.ring);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 300);
}

TEST_F(DeviceRegions, forced_route_that_is_not_possible_is_refused) {
  penstock_io read = io(PENSTOCK_READ, 0, 4096, 0);
  read.route = PENSTOCK_ROUTE_DEVICE_PEER;
  EXPECT_EQ(client_.run(read), -EOPNOTSUPP);
  read.route = PENSTOCK_ROUTE_DEVICE_SLOTS;
  EXPECT_EQ(client_.run(read), 4096);
  read.route = 200;
  EXPECT_EQ(client_.run(read), -EINVAL);
  penstock_io host = client_.io(PENSTOCK_READ, file_, 0, 4096);
  host.route = PENSTOCK_ROUTE_DEVICE_SLOTS;
  EXPECT_EQ(client_.run(host), -EINVAL);
}

TEST_F(DeviceRegions, bytes_that_do_not_verify_in_gpu_memory_fail_that_operation_only) {
  gpus_.faults.flip_permille = 1000;
  EXPECT_EQ(client_.run(io(PENSTOCK_READ, 0, kMiB, 0)), -EIO);
  gpus_.faults.flip_permille = 0;
  EXPECT_EQ(client_.run(io(PENSTOCK_READ, 0, kMiB, 0)), static_cast<int64_t>(kMiB));
  EXPECT_TRUE(holds(0, 0, kMiB));
}

TEST_F(DeviceRegions, memory_that_was_freed_gives_einval_and_a_lost_gpu_eio) {
  const Outcome<engine::DeviceSpan> span = gpus_.allocate(engine::DeviceId(1), kMiB);
  penstock_region* region = nullptr;
  ASSERT_EQ(penstock_region_register_device(client_.session, span->data, kMiB, &region), 0);
  ASSERT_TRUE(gpus_.release(*span).ok());
  penstock_io read = io(PENSTOCK_READ, 0, 4096, 0);
  read.region = region;
  EXPECT_EQ(client_.run(read), -EINVAL);
  EXPECT_EQ(penstock_region_release(region), 0);
  gpus_.lose(engine::DeviceId(0));
  EXPECT_EQ(client_.run(io(PENSTOCK_READ, 0, 4096, 0)), -EIO);
}

TEST_F(DeviceRegions, release_waits_for_operations_on_the_region) {
  gpus_.faults.delay_min = gpus_.faults.delay_max = std::chrono::milliseconds(30);
  const penstock_io read = io(PENSTOCK_READ, 0, kMiB, 0);
  ASSERT_EQ(penstock_prepare(client_.ring, &read), 0);
  ASSERT_EQ(penstock_submit(client_.ring), 1);
  EXPECT_EQ(penstock_region_release(gpu_), 0);
  penstock_completion completion{};
  ASSERT_EQ(penstock_wait(client_.ring, &completion, 1, 1, Client::in_seconds(60)), 1);
  EXPECT_EQ(completion.result, static_cast<int64_t>(kMiB));
}

TEST_F(DeviceRegions, operations_that_are_prepared_when_their_region_is_released_end_with_einval) {
  const penstock_io read = io(PENSTOCK_READ, 0, 4096, 0, 1);
  ASSERT_EQ(penstock_prepare(client_.ring, &read), 0);
  penstock_piece piece{.offset = 0, .region_offset = 0, .length = 4096, .done = 0};
  penstock_gather list{};
  list.file = file_;
  list.region = gpu_;
  list.pieces = &piece;
  list.count = 1;
  list.user_data = 2;
  ASSERT_EQ(penstock_prepare_gather(client_.ring, &list), 0) << penstock_last_error();
  const penstock_io other = client_.io(PENSTOCK_READ, file_, 0, 4096, 0, 3);
  ASSERT_EQ(penstock_prepare(client_.ring, &other), 0);
  EXPECT_EQ(penstock_region_release(gpu_), 0);
  ASSERT_EQ(penstock_submit(client_.ring), 3);
  penstock_completion completions[3];
  ASSERT_EQ(penstock_wait(client_.ring, completions, 3, 3, Client::in_seconds(60)), 3);
  for (const penstock_completion& completion : completions) {
    EXPECT_EQ(completion.result, completion.user_data == 3 ? 4096 : -EINVAL);
  }
}

TEST_F(DeviceRegions, deadline_and_cancel_end_operations) {
  gpus_.faults.delay_min = gpus_.faults.delay_max = std::chrono::milliseconds(5);
  penstock_io read = io(PENSTOCK_READ, 0, kFileBytes, 0, 5);
  read.deadline = penstock_now() + 1'000'000;
  EXPECT_EQ(client_.run(read), -ETIMEDOUT);
  read.deadline = 0;
  ASSERT_EQ(penstock_prepare(client_.ring, &read), 0);
  ASSERT_EQ(penstock_submit(client_.ring), 1);
  EXPECT_EQ(penstock_cancel(client_.ring, 5), 1);
  penstock_completion completion{};
  ASSERT_EQ(penstock_wait(client_.ring, &completion, 1, 1, Client::in_seconds(60)), 1);
  EXPECT_TRUE(completion.result == -ECANCELED ||
              completion.result == static_cast<int64_t>(kFileBytes));
}

TEST_F(DeviceRegions, ring_and_session_end_with_operations_in_flight) {
  gpus_.faults.delay_min = gpus_.faults.delay_max = std::chrono::milliseconds(20);
  for (uint64_t i = 0; i < 10; ++i) {
    const penstock_io read = io(PENSTOCK_READ, 0, kMiB, i * kMiB, i);
    ASSERT_EQ(penstock_prepare(client_.ring, &read), 0);
  }
  ASSERT_EQ(penstock_submit(client_.ring), 10);
  EXPECT_EQ(penstock_ring_destroy(client_.ring), 0);
  ASSERT_EQ(penstock_ring_create(client_.session, 64, 2, &client_.ring), 0);
  const penstock_io read = io(PENSTOCK_READ, 0, kMiB, 0);
  ASSERT_EQ(penstock_prepare(client_.ring, &read), 0);
  ASSERT_EQ(penstock_submit(client_.ring), 1);
}

TEST_F(DeviceRegions, exported_memory_is_the_same_memory_where_it_is_imported) {
  penstock_device_handle handle{};
  ASSERT_EQ(penstock_region_export(gpu_, &handle), 0) << penstock_last_error();
  penstock_region* again = nullptr;
  ASSERT_EQ(penstock_region_import(client_.session, &handle, &again), 0);
  EXPECT_EQ(penstock_region_size(again), penstock_region_size(gpu_));
  penstock_io read = io(PENSTOCK_READ, 0, 4096, 40);
  read.region = again;
  EXPECT_EQ(client_.run(read), 4096);
  EXPECT_TRUE(holds(40, 0, 4096));
  EXPECT_EQ(penstock_region_release(again), 0);
  EXPECT_EQ(penstock_region_export(client_.region, &handle), -EINVAL);
  handle.length = 3;
  EXPECT_EQ(penstock_region_import(client_.session, &handle, &again), -EPROTO);
  handle.length = 4000;
  EXPECT_EQ(penstock_region_import(client_.session, &handle, &again), -EINVAL);
  ::close(handle.fd);
}

// With a node cache, in an agent of its own.
class CachedDeviceReads : public testing::Test {
 protected:
  void SetUp() override {
    replace_devices(&gpus_);
    ASSERT_TRUE(agent_.start());
    ASSERT_EQ(client_.connect(scratch_.store()), 0) << penstock_last_error();
    client_.prepare(8 * kMiB);
    file_ = client_.open("/a", O_RDWR | O_CREAT);
    write(1);
    ASSERT_EQ(penstock_region_create_device(client_.session, 0, 16 * kMiB, &gpu_), 0);
    warm();
  }
  void TearDown() override {
    penstock_close(std::exchange(client_.session, nullptr));
    replace_devices(nullptr);
  }

  void write(uint64_t seed) {
    test::fill({client_.memory(), kFileBytes}, seed);
    ASSERT_EQ(client_.run(client_.io(PENSTOCK_WRITE, file_, 0, kFileBytes)),
              static_cast<int64_t>(kFileBytes));
  }
  int64_t read(uint64_t offset, uint64_t length, uint64_t to, penstock_route only = 0) {
    penstock_io io = client_.io(PENSTOCK_READ, file_, offset, length, to);
    io.region = gpu_;
    io.route = only;
    return client_.run(io, &route_);
  }
  // Until the cache is mapped and pinned here, which happens in the background.
  void warm() {
    ASSERT_TRUE(test::eventually([this] {
      EXPECT_EQ(client_.run(client_.io(PENSTOCK_WARM, file_, 0, kFileBytes)),
                static_cast<int64_t>(kFileBytes));
      EXPECT_EQ(read(kFileBytes - 1, 1, 0), 1);
      return route_ == PENSTOCK_ROUTE_DEVICE_GATHER || HasFailure();
    }));
  }
  // Whoever reads the disk from now on finds bytes that do not verify.
  void spoil_disk() {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(scratch_.store() + "/targets")) {
      if (!entry.is_regular_file() || !entry.path().filename().string().starts_with("data"))
        continue;
      const std::vector<char> garbage(entry.file_size(), '\x5a');
      std::ofstream(entry.path(), std::ios::in | std::ios::binary)
          .write(garbage.data(), static_cast<std::streamsize>(garbage.size()));
    }
  }
  bool holds(uint64_t at, uint64_t offset, uint64_t length, uint64_t seed) {
    std::vector<std::byte> all(kFileBytes);
    test::fill({all.data(), kFileBytes}, seed);
    std::vector<std::byte> got(length);
    gpus_.peek(static_cast<std::byte*>(penstock_region_base(gpu_)) + at, got);
    return std::equal(got.begin(), got.end(), all.begin() + static_cast<int64_t>(offset));
  }

  static constexpr uint64_t kFileBytes = 3 * kMiB + 777;
  test::ScratchDirectory scratch_;
  test::AgentProcess agent_{scratch_.store(), 16 * kMiB};
  engine::SeededRandom random_{1};
  sim::SimDeviceMemory gpus_{random_};
  Client client_;
  penstock_region* gpu_ = nullptr;
  penstock_file file_ = -1;
  penstock_route route_ = 0;
};

TEST_F(CachedDeviceReads, take_the_route_that_fits_or_the_one_that_is_wanted) {
  EXPECT_EQ(read(4096, 4096, 5), 4096);
  EXPECT_EQ(route_, PENSTOCK_ROUTE_DEVICE_GATHER);
  EXPECT_TRUE(holds(5, 4096, 4096, 1));
  EXPECT_EQ(read(0, kFileBytes, 0), static_cast<int64_t>(kFileBytes));
  EXPECT_TRUE(holds(0, 0, kFileBytes, 1));
  for (const penstock_route only :
       {PENSTOCK_ROUTE_DEVICE_CACHE, PENSTOCK_ROUTE_DEVICE_GATHER, PENSTOCK_ROUTE_DEVICE_SLOTS}) {
    EXPECT_EQ(read(123, kMiB, 77, only), static_cast<int64_t>(kMiB));
    EXPECT_EQ(route_, only);
    EXPECT_TRUE(holds(77, 123, kMiB, 1));
  }
  EXPECT_EQ(read(kFileBytes - 10, 4096, 0), 10);
  EXPECT_EQ(read(kFileBytes, 4096, 0), 0);
}

// More than goes through the library's memory at once.
TEST_F(CachedDeviceReads, of_files_in_a_list_leave_the_disk_alone) {
  const penstock_file uncached = client_.open("/b", O_RDWR | O_CREAT);
  ASSERT_EQ(client_.run(client_.io(PENSTOCK_WRITE, uncached, 0, 4096)), 4096);
  spoil_disk();
  ASSERT_EQ(client_.run(client_.io(PENSTOCK_READ, uncached, 0, 4096)), -EIO);
  std::vector<penstock_file_read> files(5);
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].path = "/a";
    files[i].region = gpu_;
    files[i].region_offset = i * (kFileBytes + 1);
    files[i].length = kFileBytes;
  }
  EXPECT_EQ(penstock_read_files(client_.session, files.data(), files.size()), 5);
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(files[i].result, static_cast<int64_t>(kFileBytes)) << i;
    EXPECT_TRUE(holds(i * (kFileBytes + 1), 0, kFileBytes, 1)) << i;
  }
}

// Rooms that are too large to be taken for the size of the file.
TEST_F(CachedDeviceReads, of_files_in_a_list_come_into_the_cache_when_they_are_read_again) {
  constexpr uint64_t kBytes = 100'000;
  test::fill({client_.memory(), kBytes}, 1);
  std::vector<std::byte> plain(kBytes);
  penstock_file_read list[2] = {};
  list[0].path = "/c";
  list[0].region = gpu_;
  list[1].path = "/d";
  list[1].buffer = plain.data();
  for (penstock_file_read& one : list) {
    one.length = kBytes;
    penstock_new_file made{};
    made.path = one.path;
    made.region = client_.region;
    made.length = kBytes;
    made.mode = 0600;
    made.uid = made.gid = UINT32_MAX;
    made.times[0].tv_nsec = made.times[1].tv_nsec = UTIME_NOW;
    ASSERT_EQ(penstock_create_files(client_.session, &made, 1), 1);
  }
  gpus_.faults.flip_verified_alone = true;
  for (int time = 0; time < 3; ++time) {
    // Only what comes from the cache is verified on the GPU, and fetched anew when it is wrong
    // there.
    gpus_.faults.flip_permille = time == 1 ? 1000 : 0;
    const uint64_t copies = gpus_.copies();
    if (time == 2) spoil_disk();
    ASSERT_EQ(penstock_read_files(client_.session, list, 2), 2) << time;
    for (const penstock_file_read& one : list) ASSERT_EQ(one.result, static_cast<int64_t>(kBytes));
    EXPECT_EQ(gpus_.copies() - copies, time == 1 ? 2U : 1U);
  }
  EXPECT_TRUE(holds(0, 0, kBytes, 1));
  EXPECT_TRUE(test::is_content({plain.data(), kBytes}, 1));
}

// Rooms that are smaller than the file end within a block, which has no checksum for them.
TEST_F(CachedDeviceReads, of_files_in_a_list_are_verified_to_the_last_byte_and_end_there) {
  constexpr uint64_t kRooms[] = {1, 4095, 4096, 4097, 65535, 65536, 65537, kMiB + 5};
  std::vector<penstock_file_read> files(std::size(kRooms));
  uint64_t at = 3;
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].path = "/a";
    files[i].region = gpu_;
    files[i].region_offset = at;
    files[i].length = kRooms[i];
    at += kRooms[i] + 1;
  }
  const std::vector<std::byte> untouched(at, std::byte{0xee});
  gpus_.poke(static_cast<std::byte*>(penstock_region_base(gpu_)), untouched);
  // Straight from the cache, in one operation; what comes to the GPU otherwise than it is there
  // comes once more, from the disk.
  gpus_.faults.flip_verified_alone = true;
  for (const uint32_t flips : {0, 1000}) {
    gpus_.faults.flip_permille = flips;
    const uint64_t copies = gpus_.copies();
    EXPECT_EQ(penstock_read_files(client_.session, files.data(), files.size()),
              static_cast<ssize_t>(files.size()));
    for (const penstock_file_read& file : files) {
      EXPECT_EQ(file.result, static_cast<int64_t>(file.length));
      EXPECT_EQ(file.size, kFileBytes);
      EXPECT_TRUE(holds(file.region_offset, 0, file.length, 1)) << file.length;
      std::byte behind{};
      gpus_.peek(
          static_cast<std::byte*>(penstock_region_base(gpu_)) + file.region_offset + file.length,
          {&behind, 1});
      EXPECT_EQ(behind, std::byte{0xee}) << file.length;
    }
    EXPECT_EQ(gpus_.copies() - copies > 1, flips != 0);
  }
}

TEST_F(CachedDeviceReads, of_a_list_arrive_as_one_operation) {
  std::vector<penstock_piece> pieces;
  for (uint64_t i = 0; i < 3000; ++i) {
    const uint64_t offset = random_.below(kFileBytes);
    pieces.push_back({offset, i * 4096, 1 + static_cast<uint32_t>(i % 4096), 0});
  }
  penstock_gather gather{};
  gather.file = file_;
  gather.count = static_cast<uint32_t>(pieces.size());
  gather.pieces = pieces.data();
  gather.region = gpu_;
  gather.user_data = 9;
  ASSERT_EQ(penstock_prepare_gather(client_.ring, &gather), 0) << penstock_last_error();
  ASSERT_EQ(penstock_submit(client_.ring), 1);
  penstock_completion completion{};
  ASSERT_EQ(penstock_wait(client_.ring, &completion, 1, 1, Client::in_seconds(60)), 1);
  EXPECT_EQ(completion.user_data, 9U);
  EXPECT_EQ(completion.route, PENSTOCK_ROUTE_DEVICE_GATHER);
  int64_t sum = 0;
  std::vector<std::byte> all(kFileBytes);
  test::fill({all.data(), kFileBytes}, 1);
  for (const penstock_piece& piece : pieces) {
    ASSERT_EQ(piece.done, std::min<uint64_t>(piece.length, kFileBytes - piece.offset));
    std::vector<std::byte> got(piece.done);
    gpus_.peek(static_cast<std::byte*>(penstock_region_base(gpu_)) + piece.region_offset, got);
    ASSERT_TRUE(
        std::equal(got.begin(), got.end(), all.begin() + static_cast<int64_t>(piece.offset)));
    sum += piece.done;
  }
  EXPECT_EQ(completion.result, sum);

  const auto refused = [&](auto change) {
    penstock_gather wrong = gather;
    change(wrong);
    return penstock_prepare_gather(client_.ring, &wrong);
  };
  EXPECT_EQ(refused([](penstock_gather& g) { g.count = 0; }), -EINVAL);
  EXPECT_EQ(refused([](penstock_gather& g) { g.count = 65537; }), -EINVAL);
  EXPECT_EQ(refused([](penstock_gather& g) { g.pieces = nullptr; }), -EINVAL);
  EXPECT_EQ(refused([](penstock_gather& g) { g.file = 99; }), -EBADF);
  EXPECT_EQ(refused([&](penstock_gather& g) { g.region = client_.region; }), -EOPNOTSUPP);
  pieces[7].region_offset = 16 * kMiB - 1;
  EXPECT_EQ(refused([](penstock_gather&) {}), -EINVAL);
}

// The first lane has used the session's transfers; so few have others beside them, and more share.
TEST_F(CachedDeviceReads, of_a_few_lanes_do_not_share_a_loop) {
  penstock_ring* ring = nullptr;
  ASSERT_EQ(penstock_ring_create(client_.session, 64, 8, &ring), 0);
  const int before = count_library_threads();
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (uint64_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 200; ++i) {
        penstock_completion done[8];
        for (uint64_t k = 0; k < 8; ++k) {
          penstock_io io = client_.io(PENSTOCK_READ, file_, (i * 8 + k) % 700 * 4096, 4096,
                                      (t * 8 + k) * 4096, k);
          io.region = gpu_;
          if (penstock_prepare(ring, &io) != 0) return;
        }
        if (penstock_submit(ring) != 8) return;
        if (penstock_wait(ring, done, 8, 8, Client::in_seconds(60)) != 8) return;
        for (const penstock_completion& one : done) good += one.result == 4096 ? 1 : 0;
      }
      if (holds((t * 8 + 7) * 4096, (199 * 8 + 7) % 700 * 4096, 4096, 1)) ++good;
      penstock_ring_leave(ring);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 6 * 1601);
  EXPECT_EQ(count_library_threads(), before + 3);
  EXPECT_EQ(penstock_ring_destroy(ring), 0);
}

// Of all lanes, whatever carries them out.
TEST_F(CachedDeviceReads, of_every_lane_are_waited_for_by_who_releases_their_memory) {
  for (int round = 0; round < 10; ++round) {
    penstock_region* region = nullptr;
    ASSERT_EQ(penstock_region_create_device(client_.session, 0, kMiB, &region), 0);
    std::vector<std::thread> threads;
    std::atomic<int> ready{0};
    std::atomic<bool> released{false};
    std::atomic<int> wrong{0};
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        penstock_ring* ring = nullptr;
        if (penstock_ring_create(client_.session, 64, 1, &ring) != 0) ++wrong;
        penstock_io io = client_.io(PENSTOCK_READ, file_, 0, 64 * kKiB, 0);
        io.region = region;
        for (uint32_t k = 0; k < 32; ++k) wrong += penstock_prepare(ring, &io) == 0 ? 0 : 1;
        ++ready;
        while (!released && ready < 100) {
          if (penstock_submit(ring) < 0) ++wrong;
          std::this_thread::yield();
        }
        penstock_completion done[32];
        wrong += penstock_wait(ring, done, 32, 32, Client::in_seconds(60)) == 32 ? 0 : 1;
        for (const penstock_completion& one : done) {
          wrong += one.result == 64 * int64_t{kKiB} || one.result == -EINVAL ? 0 : 1;
        }
        if (penstock_ring_destroy(ring) != 0) ++wrong;
      });
    }
    while (ready < 3) std::this_thread::yield();
    EXPECT_EQ(penstock_region_release(region), 0);
    released = true;
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

TEST_F(CachedDeviceReads, are_never_older_than_a_write_that_returned) {
  for (uint64_t seed = 2; seed < 12; ++seed) {
    write(seed);
    ASSERT_EQ(read(0, kFileBytes, 0), static_cast<int64_t>(kFileBytes));
    ASSERT_TRUE(holds(0, 0, kFileBytes, seed));
    ASSERT_EQ(client_.run(client_.io(PENSTOCK_WARM, file_, 0, kFileBytes)),
              static_cast<int64_t>(kFileBytes));
    ASSERT_EQ(read(0, kFileBytes, 0), static_cast<int64_t>(kFileBytes));
    ASSERT_TRUE(holds(0, 0, kFileBytes, seed));
  }
  ASSERT_EQ(penstock_ftruncate(client_.session, file_, 1000), 0);
  EXPECT_EQ(read(0, kFileBytes, 0), 1000);
}

TEST_F(CachedDeviceReads, go_on_through_the_disk_and_the_next_cache_when_the_agent_was_killed) {
  ASSERT_EQ(penstock_fsync(client_.session, file_), 0);
  agent_.kill();
  ASSERT_TRUE(agent_.start());
  EXPECT_EQ(read(0, kFileBytes, 0), static_cast<int64_t>(kFileBytes));
  EXPECT_TRUE(holds(0, 0, kFileBytes, 1));
  warm();
  EXPECT_EQ(read(100, 5000, 0), 5000);
  EXPECT_TRUE(holds(0, 100, 5000, 1));
}

// All of it: the session maps the cache slab by slab.
TEST(CacheThatGpusCannotReach, is_read_by_the_processor_all_the_same) {
  constexpr uint64_t kFileBytes = 6 * kMiB;
  test::ScratchDirectory scratch;
  test::AgentProcess agent{scratch.store(), 16 * kMiB};
  engine::SeededRandom random(1);
  sim::SimDeviceMemory gpus(random);
  gpus.faults.refuse_read_only_pins = true;
  replace_devices(&gpus);
  ASSERT_TRUE(agent.start());
  Client client;
  ASSERT_EQ(client.connect(scratch.store()), 0) << penstock_last_error();
  client.prepare(8 * kMiB);
  const penstock_file file = client.open("/a", O_RDWR | O_CREAT);
  test::fill({client.memory(), kFileBytes}, 1);
  ASSERT_EQ(client.run(client.io(PENSTOCK_WRITE, file, 0, kFileBytes)),
            static_cast<int64_t>(kFileBytes));
  penstock_region* gpu = nullptr;
  ASSERT_EQ(penstock_region_create_device(client.session, 0, kMiB, &gpu), 0);
  EXPECT_TRUE(test::eventually([&] {
    EXPECT_EQ(client.run(client.io(PENSTOCK_WARM, file, 0, kFileBytes)),
              static_cast<int64_t>(kFileBytes));
    uint64_t hits = 0;
    for (uint64_t at = 0; at < kFileBytes; at += 65536) {
      penstock_route route = 0;
      EXPECT_EQ(client.run(client.io(PENSTOCK_READ, file, at, 4096), &route), 4096);
      if (route == static_cast<penstock_route>(engine::Route::cache)) ++hits;
    }
    return hits == kFileBytes / 65536 || testing::Test::HasFailure();
  }));
  penstock_close(std::exchange(client.session, nullptr));
  replace_devices(nullptr);
}

TEST(WithoutDevices, calls_say_why_there_is_no_gpu) {
  const Outcome<engine::DeviceMemory*> real = devices();
  if (real) GTEST_SKIP() << "there is a GPU";
  test::ScratchDirectory scratch;
  Client client;
  ASSERT_EQ(client.open_store(scratch.store()), 0);
  penstock_region* region = nullptr;
  const int error = penstock_region_create_device(client.session, 0, 4096, &region);
  EXPECT_TRUE(error == -ENOENT || error == -EOPNOTSUPP) << error;
  EXPECT_NE(std::string(penstock_last_error()).find("CUDA"), std::string::npos);
}

TEST(DevicesAcrossAgents, transfers_end_before_the_session_is_said_to_be_dead) {
  engine::SeededRandom random(1);
  sim::SimDeviceMemory gpus(random);
  replace_devices(&gpus);
  test::ScratchDirectory scratch;
  ASSERT_EQ(::setenv("PENSTOCK_RECONNECT_SECONDS", "1", 1), 0);
  {
    test::AgentProcess agent(scratch.store());
    ASSERT_TRUE(agent.start());
    Client client;
    ASSERT_EQ(client.connect(scratch.store()), 0) << penstock_last_error();
    client.prepare(8 * kMiB);
    const penstock_file file = client.open("/a", O_RDWR | O_CREAT);
    ASSERT_EQ(client.run(client.io(PENSTOCK_WRITE, file, 0, 4 * kMiB)),
              static_cast<int64_t>(4 * kMiB));
    penstock_region* gpu = nullptr;
    ASSERT_EQ(penstock_region_create_device(client.session, 0, 8 * kMiB, &gpu), 0);
    agent.kill();
    for (uint64_t i = 0; i < 4; ++i) {
      penstock_io read = client.io(PENSTOCK_READ, file, i * kMiB, kMiB, i * kMiB, i);
      read.region = gpu;
      ASSERT_EQ(penstock_prepare(client.ring, &read), 0);
    }
    ASSERT_EQ(penstock_submit(client.ring), 4);
    int ended = 0;
    penstock_completion completions[4];
    int count = 0;
    while (ended < 4 &&
           (count = penstock_wait(client.ring, completions, 4, 1, Client::in_seconds(60))) > 0) {
      for (int i = 0; i < count; ++i) EXPECT_EQ(completions[i].result, -ECONNRESET);
      ended += count;
    }
    EXPECT_EQ(ended, 4);
    EXPECT_EQ(penstock_wait(client.ring, completions, 4, 1, Client::in_seconds(60)), -ECONNRESET);
  }
  ::unsetenv("PENSTOCK_RECONNECT_SECONDS");
  replace_devices(nullptr);
}

TEST(DevicesAcrossAgents, transfers_go_on_when_a_successor_comes) {
  engine::SeededRandom random(1);
  sim::SimDeviceMemory gpus(random);
  replace_devices(&gpus);
  test::ScratchDirectory scratch;
  {
    test::AgentProcess agent(scratch.store());
    ASSERT_TRUE(agent.start());
    Client client;
    ASSERT_EQ(client.connect(scratch.store()), 0) << penstock_last_error();
    client.prepare(8 * kMiB);
    const penstock_file file = client.open("/a", O_RDWR | O_CREAT);
    test::fill({client.memory(), 4 * kMiB}, 1);
    penstock_io write = client.io(PENSTOCK_WRITE, file, 0, 4 * kMiB);
    write.flags = PENSTOCK_DURABLE;
    ASSERT_EQ(client.run(write), static_cast<int64_t>(4 * kMiB));
    penstock_region* gpu = nullptr;
    ASSERT_EQ(penstock_region_create_device(client.session, 0, 8 * kMiB, &gpu), 0);
    penstock_io read = client.io(PENSTOCK_READ, file, 0, 4 * kMiB);
    read.region = gpu;
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(penstock_prepare(client.ring, &read), 0);
      ASSERT_EQ(penstock_submit(client.ring), 1);
      agent.kill();
      ASSERT_TRUE(agent.start());
      penstock_completion completion{};
      ASSERT_EQ(penstock_wait(client.ring, &completion, 1, 1, Client::in_seconds(60)), 1);
      EXPECT_EQ(completion.result, static_cast<int64_t>(4 * kMiB));
      std::vector<std::byte> got(4 * kMiB);
      gpus.peek(static_cast<std::byte*>(penstock_region_base(gpu)), got);
      EXPECT_TRUE(test::is_content({got.data(), got.size()}, 1));
    }
  }
  replace_devices(nullptr);
}

}  // namespace
}  // namespace penstock::api
