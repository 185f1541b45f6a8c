// Many iovs and rings in one process, and large ones: what they cost grows with their use.
#include "shared_memory.h"
#include "tests/node_fixture.h"

#include <sys/resource.h>

namespace penstock::usrbio {
namespace {

class Many : public Usrbio {};

struct Pair {
  hf3fs_iov iov{};
  hf3fs_ior ior{};
};

// As most programs are started.
class FewDescriptors {
 public:
  FewDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{std::min<rlim_t>(1024, before_.rlim_max), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(Many, iovs_and_rings_of_one_process_are_served) {
  constexpr size_t kPairs = 1500;
  const FewDescriptors limit;
  const std::string bytes = random_bytes(64 * kKiB, 31);
  const int fd = make_file("many", bytes);
  std::vector<Pair> pairs(kPairs);
  for (Pair& pair : pairs) {
    ASSERT_EQ(hf3fs_iovcreate(&pair.iov, mount_.c_str(), 64 * kKiB, 0, -1), 0);
    ASSERT_EQ(hf3fs_iorcreate4(&pair.ior, mount_.c_str(), 8, true, 0, 0, -1, 0), 0);
  }
  for (Pair& pair : pairs) {
    ASSERT_GE(hf3fs_prep_io(&pair.ior, &pair.iov, true, pair.iov.base, fd, 0, 4096, nullptr), 0);
    ASSERT_EQ(hf3fs_submit_ios(&pair.ior), 0);
  }
  const timespec until = realtime_in(60s);
  for (Pair& pair : pairs) {
    hf3fs_cqe cqe{};
    ASSERT_EQ(hf3fs_wait_for_ios(&pair.ior, &cqe, 1, 1, &until), 1);
    ASSERT_EQ(cqe.result, 4096);
    ASSERT_EQ(std::memcmp(pair.iov.base, bytes.data(), 4096), 0);
  }
  for (Pair& pair : pairs) {
    hf3fs_iordestroy(&pair.ior);
    hf3fs_iovdestroy(&pair.iov);
  }
}

TEST_F(Many, operations_of_one_list_are_served_by_one_ring) {
  constexpr int kList = 40'000;
  constexpr size_t kPiece = 512;
  const std::string bytes = random_bytes(64 * kKiB, 34);
  const int fd = make_file("list", bytes);
  make_iov(kList * kPiece);
  make_ring(true, kList);
  EXPECT_EQ(hf3fs_io_entries(&ior_), kList);
  for (int i = 0; i < kList; ++i) {
    const size_t at = static_cast<size_t>(i) * kPiece;
    ASSERT_GE(prepare(true, at, fd, at % bytes.size(), kPiece), 0) << i;
  }
  EXPECT_EQ(prepare(true, 0, fd, 0, kPiece), -EAGAIN) << "one more than there is room for";
  ASSERT_EQ(hf3fs_submit_ios(&ior_), 0);
  const timespec until = realtime_in(120s);
  std::vector<hf3fs_cqe> cqes(kList);
  ASSERT_EQ(hf3fs_wait_for_ios(&ior_, cqes.data(), kList, kList, &until), kList);
  for (const hf3fs_cqe& cqe : cqes) ASSERT_EQ(cqe.result, static_cast<int64_t>(kPiece));
  for (size_t at = 0; at < kList * kPiece; at += kPiece) {
    ASSERT_EQ(std::memcmp(iov_.base + at, bytes.data() + at % bytes.size(), kPiece), 0) << at;
  }
}

TEST_F(Many, entries_of_one_ring_are_up_to_262144) {
  const std::string bytes = random_bytes(4096, 35);
  const int fd = make_file("deep", bytes);
  make_iov();
  hf3fs_ior too_large{};
  EXPECT_EQ(hf3fs_iorcreate4(&too_large, mount_.c_str(), 262'145, true, 0, 0, -1, 0), -EINVAL);
  make_ring(true, 262'144);
  EXPECT_EQ(transfer(true, 0, fd, 0, 4096), 4096);
  EXPECT_EQ(std::memcmp(iov_.base, bytes.data(), bytes.size()), 0);
}

TEST_F(Many, ring_that_is_given_up_in_use_is_as_new_for_the_next) {
  const int fd = make_file("again", random_bytes(64 * kKiB, 32));
  make_iov();
  for (int round = 0; round < 50; ++round) {
    make_ring(true, 16);
    ASSERT_EQ(prepare(true, 0, fd, 0, 4096), 0);
    ASSERT_EQ(hf3fs_submit_ios(&ior_), 0);
    ASSERT_EQ(prepare(true, 4096, fd, 0, 4096), 1) << "never submitted";
    hf3fs_iordestroy(&ior_);
  }
  make_ring(true, 16);
  EXPECT_EQ(wait(1, 20ms), 0) << "a completion of another ring";
  EXPECT_EQ(transfer(true, 0, fd, 0, 8192), 8192);
}

TEST_F(Many, memory_of_a_large_iov_is_made_when_it_is_used) {
  const std::string bytes = random_bytes(kMiB, 33);
  const int fd = make_file("large", bytes);
  make_iov(kGiB);
  const std::string name = "/dev/shm/" + std::string(kMemoryPrefix) + hyphenated(uuid_of(iov_.id));
  const auto made = [&] {
    struct stat facts {};
    EXPECT_EQ(::stat(name.c_str(), &facts), 0) << name;
    return static_cast<uint64_t>(facts.st_blocks) * 512;
  };
  EXPECT_EQ(made(), 0u);
  make_ring(true);
  ASSERT_EQ(transfer(true, 512 * kMiB, fd, 0, kMiB), static_cast<int64_t>(kMiB));
  EXPECT_EQ(std::memcmp(iov_.base + 512 * kMiB, bytes.data(), bytes.size()), 0);
  EXPECT_GE(made(), kMiB);
  EXPECT_LE(made(), 8 * kMiB);
}

}  // namespace
}  // namespace penstock::usrbio
