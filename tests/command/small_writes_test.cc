// Small writes through a mount wait in the node for a moment: what becomes of them when it is
// killed, and when its disk is full.
#include "mount_command.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <vector>

#include "penstock/base.h"

namespace penstock::test {
namespace {

class SmallWrites : public MountCommand {
 protected:
  void start() {
    const Output up = penstock({"up", store_, "--background", "--mount", place_});
    ASSERT_EQ(up.exit_code, 0) << up.err;
  }
};

TEST_F(SmallWrites, a_kill_takes_them_with_their_length) {
  start();
  std::string all;
  {
    const UniqueFd file(::open((place_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644));
    for (int i = 0; i < 4000; ++i) {
      const std::string line = fmt::format("{:015}\n", i);
      ASSERT_EQ(::write(file.get(), line.data(), line.size()), 16);
      all += line;
      if (i == 999) {
        ASSERT_EQ(::fsync(file.get()), 0);
      }
    }
    kill_node();
  }
  start();
  const std::string found = read_file(place_ + "/log");
  EXPECT_GE(found.size(), 16'000u);
  EXPECT_EQ(found, all.substr(0, found.size()));
}

TEST_F(SmallWrites, an_orderly_end_takes_none) {
  start();
  std::string all;
  const UniqueFd file(::open((place_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644));
  for (int i = 0; i < 1000; ++i) {
    const std::string line = fmt::format("{:015}\n", i);
    ASSERT_EQ(::write(file.get(), line.data(), line.size()), 16);
    all += line;
  }
  // The file stays open: nothing but the end of the node brings the bytes to the disk.
  ASSERT_EQ(penstock({"down", store_}).exit_code, 0);
  start();
  EXPECT_EQ(read_file(place_ + "/log"), all);
}

// The store lies on a file system of its own, with room for some small writes to wait.
class SmallWritesOnAFullDisk : public SmallWrites {
 protected:
  static constexpr size_t kPiece = 16 * 1024;

  void SetUp() override {
    if (!enter_namespace()) GTEST_SKIP() << "needs to be root, with mounts of its own";
    ASSERT_EQ(::mount("none", scratch_.path().c_str(), "tmpfs", 0, "size=220m"), 0);
    SmallWrites::SetUp();
    if (!IsSkipped()) start();
  }
  void TearDown() override {
    SmallWrites::TearDown();
    ::umount2(scratch_.path().c_str(), MNT_DETACH);
  }

  static std::string piece(uint64_t number) {
    std::string bytes(kPiece, '\0');
    for (size_t i = 0; i < kPiece; ++i) bytes[i] = static_cast<char>(1 + (number * 31 + i) % 251);
    return bytes;
  }
  // Writes piece after piece until the disk is full, or so many; returns how many were taken.
  static uint64_t write_pieces(int fd, uint64_t first, uint64_t most) {
    for (uint64_t i = 0; i < most; ++i) {
      const std::string bytes = piece(first + i);
      const ssize_t put = ::write(fd, bytes.data(), kPiece);
      if (put != static_cast<ssize_t>(kPiece)) return i;
    }
    return most;
  }
  // A new file with so many pieces, which wait or are synced, as soon as its target takes them:
  // each goes on by itself in its own time once there is room. Nothing when they are refused for
  // too long.
  static UniqueFd open_with_pieces(const std::string& path, uint64_t pieces, bool synced) {
    UniqueFd file;
    const bool taken = eventually([&] {
      file.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644));
      if (!file || write_pieces(file.get(), 0, pieces) != pieces) return false;
      return !synced || ::fsync(file.get()) == 0;
    });
    return taken ? std::move(file) : UniqueFd();
  }
  static void expect_pieces(const std::string& path, uint64_t count) {
    std::ifstream file(path, std::ios::binary);
    std::string bytes(kPiece, '\0');
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_TRUE(file.read(bytes.data(), kPiece)) << "ends within piece " << i << " of " << count;
      ASSERT_EQ(bytes, piece(i)) << "piece " << i;
    }
  }
  // Takes all that is left beside the store.
  void fill() {
    std::ofstream file(filler_, std::ios::binary);
    const std::string bytes(64 * 1024, 'x');
    while (file.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush()) continue;
  }
  const std::string filler_ = scratch_ / "filler";
};

TEST_F(SmallWritesOnAFullDisk, are_refused_at_the_write_and_none_before_is_lost) {
  const std::string path = place_ + "/f";
  uint64_t taken = 0;
  {
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT, 0644));
    taken = write_pieces(file.get(), 0, 20'000);
    ASSERT_LT(taken, 20'000u) << "the disk was never full";
    EXPECT_EQ(errno, ENOSPC);
  }
  ASSERT_GT(taken, 4000u) << "too few to have waited anywhere";
  expect_pieces(path, taken);
}

// Somebody else takes the room while they wait. What a program was told of as safe is there.
TEST_F(SmallWritesOnAFullDisk, are_not_lost_silently_when_another_takes_the_room) {
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    const std::string path = fmt::format("{}/f{}", place_, round);
    UniqueFd file = open_with_pieces(path, 40, false);
    ASSERT_TRUE(file) << "writes are still refused";
    uint64_t taken = 40;
    fill();
    const uint64_t more = write_pieces(file.get(), taken, 20'000);
    ASSERT_LT(more, 20'000u) << "the disk was never full";
    EXPECT_EQ(errno, ENOSPC);
    taken += more;
    const bool synced = ::fsync(file.get()) == 0;
    EXPECT_TRUE(synced || errno == ENOSPC) << errno;
    const bool closed = ::close(file.release()) == 0;
    if (synced && closed) expect_pieces(path, taken);
    fs::remove(filler_);
    ASSERT_EQ(::unlink(path.c_str()), 0);
    // It goes on by itself.
    const std::string next = place_ + "/next";
    ASSERT_TRUE(open_with_pieces(next, 20, true)) << "writes are still refused";
    expect_pieces(next, 20);
  }
}

}  // namespace
}  // namespace penstock::test
