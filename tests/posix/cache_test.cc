// What a program changes through the mount is seen at once by one that reads through the node
// cache.
#include "mounted_node.h"
#include "penstock.h"

#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base.h"

namespace penstock::posix {
namespace {

constexpr uint64_t kFileBytes = 300'000;
constexpr uint64_t kRegionBytes = 1 * kMiB;
constexpr penstock_route kRouteCache = 6;

class CacheTest : public PosixTest {
 protected:
  void SetUp() override {
    PosixTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(penstock_connect(node().store().c_str(), &session_), 0) << penstock_last_error();
    ASSERT_EQ(penstock_region_create(session_, kRegionBytes, &region_), 0);
    ASSERT_EQ(penstock_ring_create(session_, 8, 1, &ring_), 0);
    path_ = directory("cache");
    expected_.assign(kFileBytes, 'a');
    mounted_.reset(::open((path_ + "/f").c_str(), O_RDWR | O_CREAT, 0644));
    ASSERT_TRUE(mounted_);
    write(0, expected_);
  }
  void TearDown() override { penstock_close(session_); }

  void write(uint64_t offset, const std::string& bytes) {
    ASSERT_EQ(::pwrite(mounted_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes.size()));
    if (offset + bytes.size() > expected_.size()) expected_.resize(offset + bytes.size(), '\0');
    expected_.replace(offset, bytes.size(), bytes);
  }
  penstock_completion run(uint8_t operation, uint64_t length) {
    penstock_io io{};
    io.operation = operation;
    io.file = file_;
    io.length = length;
    io.region = region_;
    penstock_completion done{};
    EXPECT_EQ(penstock_prepare(ring_, &io), 0);
    EXPECT_EQ(penstock_submit(ring_), 1);
    EXPECT_EQ(penstock_wait(ring_, &done, 1, 1, PENSTOCK_FOREVER), 1);
    return done;
  }
  // Reads the whole file by ring, whatever answers, and then makes sure that the cache does.
  void check(const std::string& what) {
    const penstock_completion now = run(PENSTOCK_READ, kRegionBytes);
    ASSERT_EQ(now.result, static_cast<int64_t>(expected_.size())) << what;
    ASSERT_EQ(std::memcmp(penstock_region_base(region_), expected_.data(), expected_.size()), 0)
        << what;
    const bool is_cached = test::eventually([&] {
      EXPECT_EQ(run(PENSTOCK_WARM, kRegionBytes).result, static_cast<int64_t>(expected_.size()));
      // Whether the file ends at an extent's border only the node knows.
      const penstock_completion cached = run(PENSTOCK_READ, expected_.size());
      EXPECT_EQ(cached.result, now.result) << what;
      EXPECT_EQ(std::memcmp(penstock_region_base(region_), expected_.data(), expected_.size()), 0)
          << what;
      return cached.route == kRouteCache || HasFailure();
    });
    ASSERT_TRUE(is_cached) << what;
  }
  void open_by_name() {
    if (file_ >= 0) penstock_file_close(session_, file_);
    file_ = penstock_open(session_, "/cache/f", O_RDONLY, 0);
    ASSERT_GE(file_, 0) << penstock_last_error();
  }

  penstock_session* session_ = nullptr;
  penstock_region* region_ = nullptr;
  penstock_ring* ring_ = nullptr;
  penstock_file file_ = -1;
  std::string path_, expected_;
  UniqueFd mounted_;
};

TEST_F(CacheTest, sees_bytes_written_through_the_mount) {
  open_by_name();
  check("at first");
  for (uint64_t i = 0; i < 100; ++i) {
    write(i * 7919 % (kFileBytes - 10'000),
          std::string(i * 37 % 9000 + 1, static_cast<char>('b' + i % 20)));
    check("write " + std::to_string(i));
  }
}

TEST_F(CacheTest, sees_lengths_changed_through_the_mount) {
  open_by_name();
  check("at first");
  const auto cut = [&](uint64_t length) {
    ASSERT_EQ(::ftruncate(mounted_.get(), static_cast<off_t>(length)), 0);
    expected_.resize(length, '\0');
    check("length " + std::to_string(length));
  };
  // Into an extent, to its border, away from it, behind it, and a hole in between.
  for (const uint64_t length :
       {200'000u, 131'072u, 131'073u, 70'000u, 500'000u, 65'536u, 400'000u}) {
    cut(length);
  }
  write(600'000, "behind the end");
  check("a write behind the end");
#ifdef FALLOC_FL_PUNCH_HOLE
  if (::fallocate(mounted_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 10'000, 100'000) ==
      0) {
    expected_.replace(10'000, 100'000, 100'000, '\0');
    check("a hole");
  }
#endif
  mounted_.reset(::open((path_ + "/f").c_str(), O_RDWR | O_TRUNC));
  expected_.clear();
  EXPECT_EQ(run(PENSTOCK_READ, kRegionBytes).result, 0);
}

TEST_F(CacheTest, follows_names_changed_through_the_mount) {
  open_by_name();
  check("at first");
  for (int i = 0; i < 20; ++i) {
    const std::string fresh = path_ + "/fresh";
    mounted_.reset(::open(fresh.c_str(), O_RDWR | O_CREAT, 0644));
    ASSERT_TRUE(mounted_);
    expected_.clear();
    write(0, std::string(100'000 + static_cast<size_t>(i), static_cast<char>('b' + i)));
    ASSERT_EQ(::rename(fresh.c_str(), (path_ + "/f").c_str()), 0);
    open_by_name();
    check("name " + std::to_string(i));
  }
}

}  // namespace
}  // namespace penstock::posix
