// GPU memory against a real agent, with simulated GPUs. A child process sees the same simulated
// memory as its parent, as far as that was allocated before the fork: so it stands for any other
// process.
#include "tests/node_fixture.h"

#include <functional>
#include <sys/mount.h>
#include <sys/stat.h>

#include "penstock/gpu.h"
#include "penstock/sim.h"

namespace penstock::usrbio {
namespace {

// For the whole process, as its sessions are, and never destroyed.
sim::SimDeviceMemory& gpus() {
  static auto* const random = new engine::SeededRandom(1);
  static auto* const memory = new sim::SimDeviceMemory(*random, {.memory_bytes = 256 * kMiB});
  return *memory;
}

class DeviceIovs : public Usrbio {
 protected:
  static void SetUpTestSuite() {
    gpu::replace_devices(&gpus());
    ::setenv("PENSTOCK_RECONNECT_SECONDS", "2", 1);
    Usrbio::SetUpTestSuite();
  }
  void make_device_iov(size_t size = kIovBytes, int gpu = 1) {
    ASSERT_EQ(hf3fs_iovcreate_device(&iov_, mount_.c_str(), size, 0, gpu), 0);
    std::memcpy(id_.data(), iov_.id, id_.size());
  }
  static std::string bytes_at(const void* address, size_t length) {
    std::vector<std::byte> got(length);
    gpus().peek(static_cast<const std::byte*>(address), got);
    return {reinterpret_cast<const char*>(got.data()), length};
  }
  static void set(void* address, const std::string& bytes) {
    gpus().poke(static_cast<std::byte*>(address), std::as_bytes(std::span(bytes)));
  }
  static bool exists(const void* address) { return gpus().find(address, 1).has_value(); }
  int open(hf3fs_iov& iov, size_t size = kIovBytes, int gpu = 1) {
    return hf3fs_iovopen_device(&iov, id_.data(), mount_.c_str(), size, 0, gpu);
  }
  int wrap(hf3fs_iov& iov, void* base, size_t size, int gpu = 0) {
    return hf3fs_iovwrap_device(&iov, base, id_.data(), mount_.c_str(), size, 0, gpu);
  }

  Uuid id_ = random_uuid();
};

TEST_F(DeviceIovs, file_bytes_arrive_in_created_memory) {
  const std::string bytes = random_bytes(300'000, 1);
  const int fd = make_file("device-read", bytes);
  make_device_iov();
  EXPECT_TRUE(hf3fs_gdr_available());
  EXPECT_EQ(hf3fs_gdr_device_count(), 2);
  EXPECT_EQ(iov_.numa, 1);
  EXPECT_EQ(iov_.size, kIovBytes);
  EXPECT_EQ(hf3fs_iov_mem_type(&iov_), HF3FS_MEM_DEVICE);
  EXPECT_EQ(hf3fs_iov_device_id(&iov_), 1);
  const hf3fs_iov copy = iov_;
  EXPECT_EQ(hf3fs_iov_device_id(&copy), 1);
  make_ring(true);
  EXPECT_EQ(transfer(true, 77, fd, 4099, 100'000), 100'000);
  EXPECT_EQ(bytes_at(iov_.base + 77, 100'000), bytes.substr(4099, 100'000));
  EXPECT_EQ(transfer(true, 0, fd, 299'000, 5000), 1000) << "where the file ends";
  EXPECT_EQ(transfer(true, 0, fd, 300'000, 5000), 0);
  EXPECT_EQ(prepare(true, kIovBytes - 99, fd, 0, 100), -EINVAL);
  EXPECT_EQ(prepare(false, 0, fd, 0, 100), -EINVAL) << "the ring is for reads";
  const void* const memory = iov_.base;
  hf3fs_iovdestroy(&iov_);
  EXPECT_FALSE(exists(memory));
  EXPECT_EQ(hf3fs_iov_mem_type(&copy), HF3FS_MEM_HOST) << "it is no iov any more";
}

TEST_F(DeviceIovs, memory_is_written_to_the_file_in_order_with_the_default_stream) {
  const int fd = make_file("device-write", "");
  make_device_iov();
  make_ring(false);
  const std::string bytes = random_bytes(50'001, 2);
  gpus().enqueue(nullptr, [&] {
    std::this_thread::sleep_for(50ms);
    set(iov_.base + 3, bytes);
  });
  EXPECT_EQ(hf3fs_iovsync(&iov_, 0), 0);
  EXPECT_EQ(transfer(false, 3, fd, 0, bytes.size()), static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(hf3fs_iovsync(&iov_, 1), 0);
  EXPECT_EQ(hf3fs_iovsync(&iov_, 2), -EINVAL);
  std::string got(bytes.size(), '\0');
  EXPECT_EQ(::pread(fd, got.data(), got.size(), 0), static_cast<ssize_t>(got.size()));
  EXPECT_EQ(got, bytes);
}

TEST_F(DeviceIovs, host_and_device_memory_share_a_ring_and_its_batches) {
  const std::string bytes = random_bytes(64 * 4096, 3);
  const int fd = make_file("device-mixed", bytes);
  make_device_iov();
  hf3fs_iov host{};
  ASSERT_EQ(hf3fs_iovcreate(&host, mount_.c_str(), kIovBytes, 0, -1), 0);
  make_ring(true, 64, 8);
  for (size_t i = 0; i < 64; ++i) {
    const hf3fs_iov& to = i % 3 == 0 ? host : iov_;
    ASSERT_GE(hf3fs_prep_io(&ior_, &to, true, to.base + i * 4096, fd, i * 4096, 4096, &cqes_[i]),
              0);
  }
  EXPECT_EQ(prepare(true, 0, fd, 0, 1), -EAGAIN);
  ASSERT_EQ(hf3fs_submit_ios(&ior_), 0);
  ASSERT_EQ(wait(64), 64);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(cqes_[i].result, 4096);
  for (size_t i = 0; i < 64; ++i) {
    const std::string want = bytes.substr(i * 4096, 4096);
    EXPECT_EQ(i % 3 == 0 ? std::string(reinterpret_cast<char*>(host.base) + i * 4096, 4096)
                         : bytes_at(iov_.base + i * 4096, 4096),
              want);
  }
  hf3fs_iovdestroy(&host);
}

TEST_F(DeviceIovs, operation_larger_than_a_native_one_ends_as_one) {
  const std::string bytes = random_bytes(70 * kMiB, 4);
  const int fd = make_file("device-large", bytes);
  make_device_iov(80 * kMiB);
  make_ring(true);
  EXPECT_EQ(transfer(true, 1, fd, 0, 80 * kMiB - 1), static_cast<int64_t>(bytes.size()));
  EXPECT_TRUE(bytes_at(iov_.base + 1, bytes.size()) == bytes);
}

TEST_F(DeviceIovs, another_process_opens_memory_by_its_id) {
  const std::string bytes = random_bytes(64 * kKiB, 5);
  make_file("device-shared", bytes);
  make_device_iov();
  const auto child = [&] {
    hf3fs_iov theirs{};
    hf3fs_ior ring{};
    if (open(theirs, kIovBytes + 1) != -EINVAL) return 1;
    if (open(theirs, kIovBytes, 0) != -EINVAL) return 2;
    if (open(theirs, kIovBytes, 5) != -ENODEV) return 3;
    if (open(theirs) != 0) return 4;
    if (hf3fs_iov_device_id(&theirs) != 1) return 5;
    const int fd = ::open(node_->path("device-shared").c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || hf3fs_reg_fd(fd, 0) > 0) return 6;
    if (hf3fs_iorcreate(&ring, mount_.c_str(), 8, true, 0, -1) != 0) return 7;
    if (hf3fs_prep_io(&ring, &theirs, true, theirs.base, fd, 0, 64 * kKiB, nullptr) < 0) return 8;
    hf3fs_submit_ios(&ring);
    hf3fs_cqe cqe{};
    const timespec until = realtime_in(60s);
    if (hf3fs_wait_for_ios(&ring, &cqe, 1, 1, &until) != 1 || cqe.result != 64 * 1024) return 9;
    hf3fs_iovunlink(&theirs);  // not its to hide
    hf3fs_iordestroy(&ring);
    hf3fs_iovdestroy(&theirs);
    return open(theirs) == 0 ? 0 : 10;
  };
  EXPECT_EQ(in_child(child), 0);
  EXPECT_EQ(bytes_at(iov_.base, bytes.size()), bytes);
  hf3fs_iovunlink(&iov_);
  EXPECT_EQ(in_child([&] {
              hf3fs_iov theirs{};
              return open(theirs) == -ENOENT && theirs.base == nullptr ? 0 : 1;
            }),
            0);
}

TEST_F(DeviceIovs, another_user_cannot_open_memory) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  make_device_iov();
  EXPECT_EQ(in_child([&] {
              if (::setresgid(65534, 65534, 65534) != 0) return 1;
              if (::setresuid(65534, 65534, 65534) != 0) return 2;
              hf3fs_iov theirs{};
              return open(theirs) == -EACCES ? 0 : 3;
            }),
            0);
}

TEST_F(DeviceIovs, memory_stays_with_who_opened_it) {
  make_device_iov();
  hf3fs_iov opened{};
  ASSERT_EQ(open(opened, 4096), 0);
  EXPECT_EQ(opened.size, 4096U);
  hf3fs_iovdestroy(&iov_);
  hf3fs_iov late{};
  EXPECT_EQ(open(late), -ENOENT);
  const std::string bytes = random_bytes(4096, 6);
  const int fd = make_file("device-stays", bytes);
  make_ring(true);
  ASSERT_GE(hf3fs_prep_io(&ior_, &opened, true, opened.base, fd, 0, 4096, nullptr), 0);
  ASSERT_EQ(hf3fs_submit_ios(&ior_), 0);
  ASSERT_EQ(wait(1), 1);
  EXPECT_EQ(bytes_at(opened.base, 4096), bytes);
  const void* const memory = opened.base;
  hf3fs_iovdestroy(&opened);
  EXPECT_FALSE(exists(memory));
}

TEST_F(DeviceIovs, wrapped_memory_is_a_part_of_the_callers_and_stays_its) {
  const auto span = gpus().allocate(engine::DeviceId(0), kMiB);
  auto* const part = reinterpret_cast<uint8_t*>(span->data) + 4097;
  hf3fs_iov again{};
  ASSERT_EQ(wrap(iov_, part, 100'000), 0);
  EXPECT_EQ(iov_.base, part);
  EXPECT_EQ(std::memcmp(iov_.id, id_.data(), 16), 0);
  EXPECT_EQ(hf3fs_iov_device_id(&iov_), 0);
  EXPECT_EQ(wrap(again, part + 1, 1000), -EEXIST) << "other memory under the same id";
  EXPECT_EQ(again.iovh, nullptr);
  ASSERT_EQ(wrap(again, part, 100'000), 0) << "the same once more";
  hf3fs_iovdestroy(&again);

  const std::string bytes = random_bytes(100'000, 7);
  const int fd = make_file("device-wrapped", bytes);
  make_ring(true);
  EXPECT_EQ(transfer(true, 0, fd, 0, 100'000), 100'000);
  EXPECT_EQ(bytes_at(part, 100'000), bytes);
  hf3fs_iov slice = iov_;
  slice.iovh = nullptr;
  slice.base += 10;
  slice.size = 20;
  EXPECT_EQ(hf3fs_iov_device_id(&slice), 0);
  EXPECT_GE(hf3fs_prep_io(&ior_, &slice, true, slice.base, fd, 0, 20, nullptr), 0);
  ASSERT_EQ(hf3fs_submit_ios(&ior_), 0);
  EXPECT_EQ(wait(1), 1);
  ASSERT_EQ(open(again, 100'000, 0), 0);
  EXPECT_EQ(again.base, part);
  hf3fs_iovdestroy(&again);
  hf3fs_iovdestroy(&iov_);
  EXPECT_EQ(open(again, 100'000, 0), -ENOENT);
  EXPECT_TRUE(exists(part));
  EXPECT_TRUE(gpus().release(*span).ok());
}

TEST_F(DeviceIovs, threads_wrap_the_same_memory_at_once) {
  const auto span = gpus().allocate(engine::DeviceId(0), kMiB);
  for (int round = 0; round < 20; ++round) {
    std::array<hf3fs_iov, 4> iovs{};
    std::array<int, 4> results{};
    std::vector<std::thread> threads;
    for (size_t i = 0; i < iovs.size(); ++i) {
      threads.emplace_back([&, i] { results[i] = wrap(iovs[i], span->data, kMiB); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(results, (std::array<int, 4>{}));
    for (hf3fs_iov& iov : iovs) hf3fs_iovdestroy(&iov);
  }
  EXPECT_TRUE(gpus().release(*span).ok());
}

TEST_F(DeviceIovs, memory_that_cannot_be_shared_is_wrapped_for_this_process_only) {
  const auto span = gpus().allocate(engine::DeviceId(0), kMiB);
  gpus().shareable = false;
  EXPECT_EQ(wrap(iov_, span->data, kMiB), 0);
  hf3fs_iov created{};
  EXPECT_EQ(hf3fs_iovcreate_device(&created, mount_.c_str(), 4096, 0, 0), -EOPNOTSUPP)
      << "a created one is there to be opened";
  gpus().shareable = true;
  EXPECT_EQ(open(created, 4096, 0), -ENOENT);
  const int fd = make_file("device-private", "abc");
  make_ring(true);
  EXPECT_EQ(transfer(true, 5, fd, 0, 10), 3);
  EXPECT_EQ(bytes_at(iov_.base + 5, 3), "abc");
  hf3fs_iovunlink(&iov_);
  hf3fs_iovdestroy(&iov_);
  EXPECT_TRUE(gpus().release(*span).ok());
}

TEST_F(DeviceIovs, calls_that_cannot_succeed_say_why) {
  const auto create = [&](size_t size, int gpu, const std::string& mount) {
    const int result = hf3fs_iovcreate_device(&iov_, mount.c_str(), size, 0, gpu);
    EXPECT_TRUE(result < 0 && iov_.base == nullptr && iov_.iovh == nullptr);
    return result;
  };
  EXPECT_EQ(create(4096, 2, mount_), -ENODEV);
  EXPECT_EQ(create(4096, -1, mount_), -ENODEV);
  EXPECT_EQ(create(kGiB, 0, mount_), -ENOMEM);
  EXPECT_EQ(create(4096, 0, "/tmp"), -ENOENT);
  EXPECT_EQ(open(iov_), -ENOENT);
  const auto span = gpus().allocate(engine::DeviceId(0), kMiB);
  EXPECT_EQ(wrap(iov_, span->data, kMiB, 1), -EINVAL) << "memory of another GPU";
  EXPECT_EQ(wrap(iov_, span->data, 2 * kMiB), -EINVAL);
  EXPECT_EQ(wrap(iov_, &iov_, 8), -EINVAL) << "host memory";
  EXPECT_EQ(wrap(iov_, span->data, kMiB), 0) << "nothing of the failures is left";
  hf3fs_iovdestroy(&iov_);
  EXPECT_TRUE(gpus().release(*span).ok());
}

TEST_F(DeviceIovs, a_ring_that_forbids_holes_refuses_reads_into_gpu_memory) {
  const int fd = make_file("device-holes", "abc");
  make_device_iov();
  make_ring(true, 8, 0, 0, HF3FS_IOR_FORBID_READ_HOLES);
  EXPECT_EQ(prepare(true, 0, fd, 0, 3), -EOPNOTSUPP);
}

// Last, since the agent dies.
TEST_F(DeviceIovs, memory_outlives_agents_and_is_found_with_each_of_them) {
  const std::string bytes = random_bytes(64 * kKiB, 8);
  make_file("device-death", bytes);
  make_device_iov();
  const auto found_by_child = [&] {
    return in_child([&] {
      hf3fs_iov theirs{};
      return test::eventually([&] { return open(theirs) == 0; }) ? 0 : 1;
    });
  };
  const auto restart = [&](
                           std::chrono::milliseconds pause,
                           const std::function<void()>& meanwhile = [] {}) {
    hf3fs_iordestroy(&ior_);
    drop_files();
    node_->kill();
    std::this_thread::sleep_for(pause);
    meanwhile();
    ASSERT_TRUE(node_->start()) << node_->ending();
  };
  const auto works = [&](const std::string& name) {
    const int fd = make_file(name, bytes);
    make_ring(true);
    EXPECT_EQ(transfer(true, 0, fd, 0, bytes.size()), static_cast<int64_t>(bytes.size()));
    EXPECT_EQ(bytes_at(iov_.base, bytes.size()), bytes);
  };
  restart(0ms);
  EXPECT_EQ(found_by_child(), 0);
  // The session is given up, and another takes its place; the mount has another device number, as
  // somebody else has taken its own meanwhile.
  const std::string other = node_->scratch() + "/other";
  ASSERT_EQ(::mkdir(other.c_str(), 0700), 0);
  restart(3s, [&] { EXPECT_EQ(::mount("none", other.c_str(), "tmpfs", 0, "size=64k"), 0); });
  works("device-reborn");
  EXPECT_EQ(found_by_child(), 0);
  EXPECT_EQ(::umount(other.c_str()), 0);
  hf3fs_iovunlink(&iov_);
  EXPECT_EQ(in_child([&] {
              hf3fs_iov theirs{};
              return open(theirs) == -ENOENT ? 0 : 1;
            }),
            0);
  const void* const memory = iov_.base;
  hf3fs_iovdestroy(&iov_);
  EXPECT_FALSE(exists(memory));
}

}  // namespace
}  // namespace penstock::usrbio
