// A node as a whole: starts and stops, and what it says about damage.
#include "raw_session.h"

#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <sched.h>
#include <sys/mount.h>

namespace penstock::agent {
namespace {

namespace fs = std::filesystem;

class NodeTest : public testing::Test {
 protected:
  void SetUp() override { log::set_level(log::Level::off); }
  void TearDown() override { log::set_level(log::Level::warning); }

  AgentConfig config() const {
    AgentConfig out;
    out.directory = scratch.store();
    out.listen = false;
    return out;
  }
  std::unique_ptr<Agent> start(const AgentConfig& with) const {
    Outcome<std::unique_ptr<Agent>> agent = Agent::start(with);
    EXPECT_TRUE(agent) << agent.error().message;
    return agent ? std::move(*agent) : nullptr;
  }
  std::unique_ptr<Agent> start() const { return start(config()); }

  static client::FileRef open(Agent& agent, const std::string& path) {
    client::OpenFlags flags;
    flags.write = flags.create = true;
    auto file = agent.files().open_path(root, path, flags, 0644, std::nullopt, nullptr);
    EXPECT_TRUE(file);
    return file ? *file : nullptr;
  }
  static void write(Agent& agent, const std::string& path, std::byte value, uint64_t size) {
    std::vector<std::byte> bytes(size, value);
    client::FileRef file = open(agent, path);
    const auto written = agent.files().write(file, 0, {bytes.data(), size}, true, nullptr, nullptr);
    ASSERT_TRUE(written);
    ASSERT_EQ(agent.files().close_file(std::move(file)), Code::ok);
  }
  static Result<uint64_t> read(Agent& agent, const std::string& path, std::byte* to,
                               uint64_t size) {
    client::FileRef file = open(agent, path);
    const auto result = agent.files().read(file, 0, {to, size});
    EXPECT_EQ(agent.files().close_file(std::move(file)), Code::ok);
    return result;
  }

  static inline const client::Credentials root{0, 0, {}, true};
  ScratchDirectory scratch;
};

TEST_F(NodeTest, keeps_files_over_stop_and_start_with_several_shards) {
  AgentConfig several = config();
  several.shards = 3;
  several.chunk_bytes = 64 * kKiB;
  {
    const auto agent = start(several);
    ASSERT_NE(agent, nullptr);
    for (int i = 0; i < 10; ++i) {
      write(*agent, "/f" + std::to_string(i), static_cast<std::byte>(i + 1), 300'000);
    }
    EXPECT_EQ(agent->status().shards.size(), 3u);
  }
  const auto agent = start();
  ASSERT_NE(agent, nullptr);
  EXPECT_EQ(agent->status().shards.size(), 3u);
  std::vector<std::byte> bytes(300'000);
  for (int i = 0; i < 10; ++i) {
    const auto count = read(*agent, "/f" + std::to_string(i), bytes.data(), bytes.size());
    ASSERT_TRUE(count);
    EXPECT_EQ(*count, 300'000u);
    EXPECT_EQ(std::count(bytes.begin(), bytes.end(), static_cast<std::byte>(i + 1)), 300'000);
  }
  const ScrubReport report = agent->scrub(nullptr);
  EXPECT_TRUE(report.bad.empty());
  EXPECT_GE(report.verified_bytes, 3'000'000u);
}

TEST_F(NodeTest, stops_twice_and_with_sessions_open) {
  const auto agent = start();
  Outcome<UniqueFd> socket = agent->connect_local();
  ASSERT_TRUE(socket);
  RawSession session(std::move(*socket));
  RawRing ring(session, 0);
  EXPECT_EQ(agent->status().sessions.size(), 1u);
  agent->stop();
  agent->stop();
  EXPECT_TRUE(session.is_ended());
}

TEST_F(NodeTest, names_the_file_whose_bytes_are_damaged_and_serves_the_rest) {
  constexpr uint64_t kSize = 64 * kKiB;
  {
    const auto agent = start();
    write(*agent, "/good", std::byte{0x11}, kSize);
    ASSERT_TRUE(agent->files().make_directory(root, meta::kRootInode, "d", 0755, nullptr));
    write(*agent, "/d/bad", std::byte{0x5a}, kSize);
  }
  // One bit of one block of /d/bad, found by its content.
  bool flipped = false;
  for (const auto& entry : fs::directory_iterator(scratch.store() + "/targets/0/data")) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    std::vector<char> block(4096);
    const std::vector<char> wanted(4096, 0x5a);
    for (uint64_t at = 0; !flipped && file.read(block.data(), 4096); at += 4096) {
      if (block != wanted) continue;
      file.seekp(static_cast<std::streamoff>(at + 100));
      file.put(0x5b);
      flipped = true;
    }
  }
  ASSERT_TRUE(flipped);
  const auto agent = start();
  std::vector<std::byte> bytes(kSize);
  EXPECT_EQ(read(*agent, "/d/bad", bytes.data(), kSize).error(), Code::corrupt);
  EXPECT_TRUE(read(*agent, "/good", bytes.data(), kSize));
  const ScrubReport report = agent->scrub(nullptr);
  ASSERT_EQ(report.bad.size(), 1u);
  EXPECT_EQ(report.bad[0].path, "/d/bad");
  EXPECT_EQ(report.bad[0].chunk, 0u);
}

TEST_F(NodeTest, refuses_to_start_over_a_damaged_database) {
  for (const std::string part : {"/meta", "/targets/0/kv"}) {
    { ASSERT_NE(start(), nullptr); }
    std::map<std::string, std::string> saved;
    for (const auto& entry : fs::directory_iterator(scratch.store() + part)) {
      const std::string name = entry.path().filename();
      if (!name.starts_with("MANIFEST") && name != "CURRENT") continue;
      std::ifstream file(entry.path(), std::ios::binary);
      saved[entry.path()] = std::string(std::istreambuf_iterator<char>(file), {});
      std::ofstream(entry.path(), std::ios::binary) << std::string(100, 'x');
    }
    const auto refused = Agent::start(config());
    ASSERT_FALSE(refused) << part;
    EXPECT_NE(refused.error().message.find(scratch.store() + part), std::string::npos)
        << refused.error().message;
    for (const auto& [path, content] : saved) std::ofstream(path, std::ios::binary) << content;
  }
  EXPECT_NE(start(), nullptr) << "nothing was changed";
}

TEST_F(NodeTest, refuses_a_directory_that_it_may_not_write) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  { ASSERT_NE(start(), nullptr); }
  fs::permissions(scratch.path(), fs::perms(0755));
  const std::string store = scratch.store();
  EXPECT_EQ(test::in_child([&] {
              if (::setgid(65534) != 0 || ::setuid(65534) != 0) return 99;
              AgentConfig other;
              other.directory = store;
              const auto refused = Agent::start(other);
              if (refused) return 1;
              const std::string& message = refused.error().message;
              if (message.find(store) == std::string::npos) return 2;
              return message.find("cannot be written") != std::string::npos ? 0 : 3;
            }),
            0);
}

TEST_F(NodeTest, refuses_a_full_file_system) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to mount a small file system";
  const std::string point = scratch.path() + "/small";
  fs::create_directory(point);
  EXPECT_EQ(test::in_child([&] {
              if (::unshare(CLONE_NEWNS) != 0) return 0;  // not allowed here
              ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
              if (::mount("tmpfs", point.c_str(), "tmpfs", 0, "size=2m") != 0) return 0;
              AgentConfig full;
              full.directory = point + "/store";
              const auto refused = Agent::start(full);
              if (refused) return 1;
              if (refused.error().status != Code::no_space) return 2;
              return fs::exists(full.directory) ? 3 : 0;
            }),
            0);
}

TEST_F(NodeTest, offers_most_of_a_small_file_system) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to mount a small file system";
  const std::string point = scratch.path() + "/small";
  fs::create_directory(point);
  EXPECT_EQ(test::in_child([&] {
              if (::unshare(CLONE_NEWNS) != 0) return 0;  // not allowed here
              ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
              if (::mount("tmpfs", point.c_str(), "tmpfs", 0, "size=400m") != 0) return 0;
              AgentConfig small;
              small.directory = point + "/store";
              small.listen = false;
              const auto agent = Agent::start(small);
              if (!agent) return 1;
              const uint64_t offered = (*agent)->status().shards.at(0).target_capacity_bytes;
              return offered > 300 * kMiB && offered < 390 * kMiB ? 0 : 2;
            }),
            0);
}

}  // namespace
}  // namespace penstock::agent
