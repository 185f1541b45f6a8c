// What `penstock status` says of a disk that somebody else has filled, and that it says no more of
// it when there is room again.
#include "raw_session.h"
#include "watched_node.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "penstock/json.h"
#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::test {
namespace {

namespace fs = std::filesystem;
using agent::RawRing;
using agent::RawSession;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kDiskLine = "the disk is full: writes end with ENOSPC until there is room";
constexpr const char* kMetadataLine = "databases that take no changes, mostly for want of space";

class FullDiskStatus : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0 || ::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("small", scratch_.path().c_str(), "tmpfs", 0, "size=96m") != 0) {
      GTEST_SKIP() << "mounting a small file system is not allowed here";
    }
    log::set_level(log::Level::off);
    const Output up = penstock({"up", store_, "--background", "--capacity", "32MiB"});
    ASSERT_EQ(up.exit_code, 0) << up.err;
  }
  void TearDown() override {
    penstock({"down", store_});
    ::umount2(scratch_.path().c_str(), MNT_DETACH);
  }

  std::string status() const { return penstock({"status", store_}).out; }
  Json status_json() const { return parse_json(penstock({"status", store_, "--json"}).out); }

  // Takes all the room that is left on the file system.
  void fill() const {
    std::ofstream file(filler_, std::ios::binary | std::ios::app);
    for (const size_t piece : {size_t{kMiB}, size_t{4096}}) {
      const std::string bytes(piece, 'x');
      while (file.write(bytes.data(), static_cast<std::streamsize>(piece)).flush()) continue;
      file.clear();
    }
  }
  // The databases have taken room before, which they use up first.
  static bool ends(const std::function<bool()>& act) {
    for (int i = 0; i < 200'000; ++i) {
      if (!act()) return true;
    }
    return false;
  }

  const ScratchDirectory scratch_;
  const std::string store_ = scratch_ / "store";
  const std::string filler_ = scratch_ / "filler";
};

TEST_F(FullDiskStatus, tells_of_writes_that_find_no_room) {
  RawSession session(connect_to(store_ + "/agent.sock"));
  RawRing ring(session, 0);
  ASSERT_EQ(ring.created.status, Code::ok) << ring.created.text;
  constexpr uint64_t kBytes = 8 * kMiB, kBlock = 4096;
  const SharedMemory memory(kBytes, F_SEAL_SHRINK);
  ASSERT_EQ(session.ask(wire::RegisterRegion{0, 0, kBytes}, {memory.fd()}).status, Code::ok);
  constexpr uint32_t kFlags = wire::kOpenWrite | wire::kOpenCreate;
  ASSERT_EQ(session.ask(wire::OpenPath{0, "/file", kFlags, 0600}).status, Code::ok);
  ring::Submission entry{};
  entry.operation = ring::kOperationWrite;
  entry.length = kBytes;
  ASSERT_EQ(ring.run(entry), static_cast<int64_t>(kBytes));
  EXPECT_THAT(status(), Not(HasSubstr(kDiskLine)));

  entry.flags = ring::kFlagDurable;
  entry.length = kBlock;
  int64_t result = 0;
  uint64_t turn = 0;
  const auto writes = [&] {
    entry.offset = mix64(turn++) % (kBytes / kBlock) * kBlock;
    result = ring.run(entry);
    return result == static_cast<int64_t>(kBlock);
  };
  fill();
  ASSERT_TRUE(ends(writes)) << "the disk is not full";
  EXPECT_EQ(result, -ENOSPC);
  EXPECT_THAT(status(), HasSubstr(kDiskLine));
  EXPECT_TRUE(status_json()["shards"][0]["full"].get<bool>());

  ASSERT_TRUE(fs::remove(filler_));
  ASSERT_TRUE(eventually(writes)) << "it does not go on by itself: " << result;
  EXPECT_THAT(status(), Not(HasSubstr(kDiskLine)));
}

TEST_F(FullDiskStatus, tells_of_metadata_that_takes_no_changes) {
  RawSession session(connect_to(store_ + "/agent.sock"));
  Status made;
  uint64_t turn = 0;
  // Long names use the database's room up sooner.
  const auto makes = [&] {
    const std::string name = "/" + std::string(200, 'n') + std::to_string(turn++);
    made = session.ask(wire::MakeDirectory{name, 0700}).status;
    return made.ok();
  };
  ASSERT_TRUE(makes());
  EXPECT_THAT(status(), Not(HasSubstr(kMetadataLine)));
  fill();
  ASSERT_TRUE(ends(makes)) << "the disk is not full";
  EXPECT_EQ(made, Code::no_space);
  EXPECT_THAT(status(), HasSubstr(kMetadataLine));
  EXPECT_GT(status_json()["databases_stopped"].get<uint64_t>(), 0u);

  ASSERT_TRUE(fs::remove(filler_));
  ASSERT_TRUE(eventually(makes)) << "it does not go on by itself: " << made.name();
  EXPECT_THAT(status(), Not(HasSubstr(kMetadataLine)));
}

}  // namespace
}  // namespace penstock::test
