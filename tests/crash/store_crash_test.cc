// Kills a program that works on a target with real files, again and again, and looks at what it
// left behind. PENSTOCK_KILLS says how often, PENSTOCK_SEED with which random numbers.
#include "history.h"
#include "store_writer.h"

#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/testing.h"

namespace penstock::crash {
namespace {

using store::ChunkHistory;

class CrashTest : public testing::Test {
 protected:
  void SetUp() override {
    for (size_t i = 0; i < kChunkCount; ++i) histories_.emplace_back(kChunkLength);
  }
  void TearDown() override {
    if (HasFailure()) scratch_.keep();
  }

  // Starts the writer as a process of its own; its events come out of the returned descriptor.
  UniqueFd start_writer(uint64_t seed) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, 0), 0);
    UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    fcntl(read_end.get(), F_SETFD, FD_CLOEXEC);
    const std::string arguments[] = {"store_crash_tests",
                                     "--writer",
                                     directory_,
                                     std::to_string(seed),
                                     std::to_string(next_id_),
                                     std::to_string(write_end.get())};
    char* argv[std::size(arguments) + 1] = {};
    for (size_t i = 0; i < std::size(arguments); ++i) {
      argv[i] = const_cast<char*>(arguments[i].c_str());
    }
    child_ = fork();
    if (child_ == 0) {
      execv("/proc/self/exe", argv);
      _exit(127);
    }
    return read_end;
  }

  void apply(const Event& event) {
    switch (event.kind) {
      case EventKind::ready:
        break;
      case EventKind::began:
        names_[event.name] =
            histories_[event.chunk].begin({event.id, event.begin, event.end, event.time});
        next_id_ = std::max(next_id_, event.name + 1);
        break;
      case EventKind::ended:
        histories_[event.chunk].end(names_.at(event.name), event.time);
        if (event.id != 0) histories_[event.chunk].make_durable_one(names_.at(event.name));
        break;
      case EventKind::failed:
        histories_[event.chunk].forget(names_.at(event.name));
        break;
      case EventKind::durable:
        for (size_t i = 0; i < kChunkCount; ++i) {
          if (event.id == 0 || kChunks[i].inode.value == event.id) {
            histories_[i].make_durable(event.time);
          }
        }
        break;
    }
    ++events_;
  }

  // Takes in events until the writer's end of the pipe closes, and kills it `life` after it began
  // to work.
  void watch(const UniqueFd& pipe, engine::Duration life) {
    engine::Time deadline = engine::kNever;
    bool killed = false;
    std::vector<std::byte> buffer;
    while (true) {
      const engine::Time now = engine::system_clock().now();
      if (!killed && now >= deadline) {
        ASSERT_EQ(kill(child_, SIGKILL), 0);
        killed = true;
      }
      int wait_ms = -1;
      if (deadline != engine::kNever && !killed) {
        wait_ms = static_cast<int>((deadline - now) / std::chrono::milliseconds(1)) + 1;
      }
      pollfd waiting{pipe.get(), POLLIN, 0};
      if (::poll(&waiting, 1, wait_ms) == 0) continue;
      std::array<std::byte, sizeof(Event) * 512> piece;
      const ssize_t got = read(pipe.get(), piece.data(), piece.size());
      if (got <= 0) break;
      buffer.insert(buffer.end(), piece.begin(), piece.begin() + got);
      size_t done = 0;
      for (; done + sizeof(Event) <= buffer.size(); done += sizeof(Event)) {
        Event event;
        std::memcpy(&event, buffer.data() + done, sizeof(event));
        apply(event);
        if (deadline == engine::kNever) deadline = engine::system_clock().now() + life;
      }
      buffer.erase(buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(done));
    }
    int status = 0;
    ASSERT_EQ(waitpid(child_, &status, 0), child_);
    ASSERT_TRUE(killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        << "the writer ended by itself, with status " << status;
  }

  void verify() {
    auto real = RealTarget::open(directory_);
    ASSERT_NE(real, nullptr);
    for (size_t i = 0; i < kChunkCount; ++i) {
      std::vector<std::byte> bytes(kChunkLength);
      store::ReadOp read;
      read.chunk = kChunks[i];
      read.destination = {bytes.data(), bytes.size(), engine::kNoBuffer, engine::MemoryKind::host};
      const Status status = real->run(read);
      ASSERT_TRUE(status.ok()) << "chunk " << i << ": " << status.name();
      ASSERT_EQ(histories_[i].check_crash(bytes), "") << "chunk " << i;
      histories_[i].rebase();
    }
    store::ScrubOp scrub;
    ASSERT_TRUE(real->run(scrub).ok());
    ASSERT_EQ(scrub.damaged_blocks, 0u);
    ASSERT_EQ(scrub.verified_bytes, real->target->status().used_bytes);
    verified_bytes_ += scrub.verified_bytes;
    names_.clear();
  }

  test::ScratchDirectory scratch_;
  const std::string directory_ = scratch_.path();
  pid_t child_ = -1;
  std::vector<ChunkHistory> histories_;
  std::map<uint64_t, uint64_t> names_;
  uint64_t next_id_ = 1;
  uint64_t events_ = 0;
  uint64_t verified_bytes_ = 0;
};

TEST_F(CrashTest, nothing_acknowledged_is_lost_when_the_process_is_killed) {
  const uint64_t kills = test::number_from("PENSTOCK_KILLS", 200);
  const uint64_t seed = test::number_from("PENSTOCK_SEED", 1);
  engine::SeededRandom random(seed);
  { ASSERT_NE(RealTarget::open(directory_), nullptr); }
  for (uint64_t i = 0; i < kills; ++i) {
    SCOPED_TRACE(fmt::format("kill {} of PENSTOCK_SEED={}, in {}", i, seed, directory_));
    const UniqueFd pipe = start_writer(random.next());
    watch(pipe, std::chrono::microseconds(random.below(random.chance(1, 4) ? 100'000 : 15'000)));
    if (HasFatalFailure()) return;
    verify();
    if (HasFatalFailure()) return;
  }
  fmt::print("{} kills, {} events, {} MiB verified\n", kills, events_, verified_bytes_ / kMiB);
}

}  // namespace
}  // namespace penstock::crash

int main(int argc, char** argv) {
  if (argc == 6 && std::string_view(argv[1]) == "--writer") {
    return penstock::crash::run_writer(argv[2], std::strtoull(argv[3], nullptr, 10),
                                       std::strtoull(argv[4], nullptr, 10), std::atoi(argv[5]));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
