// Requests for many files, as a hostile or unlucky application may send them.
#include "raw_session.h"

#include <chrono>
#include <gtest/gtest.h>
#include <thread>

namespace penstock::agent {
namespace {

constexpr uint64_t kSmallBytes = 8192;

class Many : public testing::Test {
 protected:
  void SetUp() override {
    AgentConfig config;
    config.directory = directory.store();
    config.spin = std::chrono::microseconds(0);
    config.cache_bytes = 8 * kMiB;
    Outcome<std::unique_ptr<Agent>> started = Agent::start(config);
    ASSERT_TRUE(started) << started.error().message;
    agent = std::move(*started);
    session.emplace(connect());
    ASSERT_EQ(session->ask(wire::RegisterRegion{0, 0, region.size()}, {region.fd()}).status,
              Code::ok);
    std::fill(region.bytes().begin(), region.bytes().end(), std::byte{7});
    ASSERT_EQ(create({{"/a", 0644, kSmallBytes, 0, 0}}).at(0), Code::ok);
    std::fill(region.bytes().begin(), region.bytes().end(), std::byte{0});
  }

  UniqueFd connect() {
    Outcome<UniqueFd> socket = agent->connect_local();
    EXPECT_TRUE(socket);
    return std::move(*socket);
  }
  std::vector<Status> create(std::vector<wire::NewFile> files) {
    const size_t count = files.size();
    const wire::Reply reply = session->ask(wire::CreateFiles{std::move(files)});
    const auto* made = std::get_if<wire::FilesCreated>(&reply.body);
    EXPECT_TRUE(made != nullptr && made->files.size() == count) << reply.text;
    return made != nullptr ? made->files : std::vector<Status>(count, Code::bad_message);
  }
  std::vector<wire::FileRead> read(std::vector<wire::FileToRead> files) {
    const size_t count = files.size();
    const wire::Reply reply = session->ask(wire::ReadFiles{std::move(files)});
    const auto* found = std::get_if<wire::FilesRead>(&reply.body);
    EXPECT_TRUE(found != nullptr && found->files.size() == count) << reply.text;
    return found != nullptr ? found->files : std::vector<wire::FileRead>(count);
  }

  ScratchDirectory directory;
  std::unique_ptr<Agent> agent;
  SharedMemory region{64 * kKiB, 0};
  std::optional<RawSession> session;
};

TEST_F(Many, are_read_into_regions_only) {
  const auto found = read({
      {"/a", 0, kSmallBytes, 0, 64 * kKiB - kSmallBytes},      // the end of the region
      {"/a", 0, kSmallBytes, 0, 64 * kKiB - kSmallBytes + 1},  // leaves it
      {"/a", 0, kSmallBytes, 0, UINT64_MAX},
      {"/a", 0, kSmallBytes, 5, 0},  // there is none
      {"/a", 4096, kSmallBytes, 0, 0},
      {"/a", kSmallBytes, 100, 0, 0},
      {"/a", limits::kFileBytesMax - 100, 100, 0, 0},
      {"/a", 0, 0, wire::kNoRegion, 0},
      {std::string("/a\0b", 4), 0, 10, 0, 0},
      {std::string(60'000, '/'), 0, 10, 0, 0},
  });
  const Code expected[] = {Code::ok,
                           Code::invalid_argument,
                           Code::invalid_argument,
                           Code::invalid_argument,
                           Code::ok,
                           Code::ok,
                           Code::ok,
                           Code::ok,
                           Code::invalid_argument,
                           Code::name_too_long};
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].status, expected[i]) << i;
  EXPECT_EQ(found[0].bytes, kSmallBytes);
  EXPECT_EQ(found[4].bytes, kSmallBytes - 4096);
  EXPECT_EQ(found[5].bytes, 0u);
  EXPECT_EQ(found[7].size, kSmallBytes);
  EXPECT_EQ(region.bytes()[64 * kKiB - 1], std::byte{7});
}

TEST_F(Many, are_not_read_when_the_cache_has_them) {
  RawRing ring(*session, 0);
  ASSERT_EQ(session->ask(wire::OpenPath{0, "/a", wire::kOpenRead, 0}).status, Code::ok);
  ring::Submission fill{};
  fill.operation = ring::kOperationFill;
  fill.length = kSmallBytes;
  const wire::FileToRead file{"/a", 0, 64 * kKiB, 0, 0, true};
  EXPECT_FALSE(read({file}).at(0).cached);
  EXPECT_EQ(region.bytes()[0], std::byte{7});
  region.bytes()[0] = std::byte{0};
  ASSERT_EQ(ring.run(fill), static_cast<int64_t>(kSmallBytes));
  const wire::FileRead found = read({file}).at(0);
  EXPECT_TRUE(found.cached);
  EXPECT_EQ(found.bytes, 0u);
  EXPECT_EQ(found.size, kSmallBytes);
  EXPECT_EQ(region.bytes()[0], std::byte{0});
  wire::FileToRead anyway = file;
  anyway.unless_cached = false;
  EXPECT_FALSE(read({anyway}).at(0).cached);
  EXPECT_EQ(region.bytes()[0], std::byte{7});
}

TEST_F(Many, come_into_the_cache_when_they_are_read_again) {
  const wire::FileToRead file{"/a", 0, 64 * kKiB, 0, 0, true};
  const wire::FileRead first = read({file}).at(0);
  EXPECT_FALSE(first.cached);
  EXPECT_EQ(first.bytes, kSmallBytes);
  EXPECT_EQ(agent->status().cache.at(0).fills, 0u) << "once may be the only time";
  region.bytes()[0] = std::byte{0};
  for (int again = 0; again < 2; ++again) {
    const wire::FileRead found = read({file}).at(0);
    EXPECT_EQ(found.status, Code::ok);
    EXPECT_TRUE(found.cached);
    EXPECT_EQ(found.size, kSmallBytes);
    EXPECT_EQ(region.bytes()[0], std::byte{0}) << "the application takes it from there";
    EXPECT_EQ(agent->status().cache.at(0).fills, 1u);
  }
}

TEST_F(Many, are_read_where_the_cache_has_no_room_for_them) {
  constexpr uint64_t kLargeBytes = 9 * kMiB;  // the cache has 8
  SharedMemory large(kLargeBytes, 0);
  ASSERT_EQ(session->ask(wire::RegisterRegion{1, 0, kLargeBytes}, {large.fd()}).status, Code::ok);
  std::fill(large.bytes().begin(), large.bytes().end(), std::byte{5});
  ASSERT_EQ(create({{"/large", 0644, kLargeBytes, 1, 0}}).at(0), Code::ok);
  for (int pass = 0; pass < 3; ++pass) {
    std::fill(large.bytes().begin(), large.bytes().end(), std::byte{0});
    const auto found = read({{"/large", 0, kLargeBytes, 1, 0, true}, {"/a", 0, kSmallBytes, 0, 0}});
    EXPECT_EQ(found[0].status, Code::ok);
    EXPECT_FALSE(found[0].cached);
    EXPECT_EQ(found[0].bytes, kLargeBytes);
    EXPECT_EQ(large.bytes()[0], std::byte{5});
    EXPECT_EQ(large.bytes()[kLargeBytes - 1], std::byte{5});
    EXPECT_EQ(found[1].bytes, kSmallBytes);
  }
}

TEST_F(Many, fail_alone_when_their_memory_is_gone) {
  SharedMemory cut(64 * kKiB, 0);
  ASSERT_EQ(session->ask(wire::RegisterRegion{1, 0, cut.size()}, {cut.fd()}).status, Code::ok);
  ASSERT_EQ(::ftruncate(cut.fd(), 0), 0);
  const auto found = read({{"/a", 0, kSmallBytes, 1, 100}, {"/a", 0, kSmallBytes, 0, 0}});
  EXPECT_FALSE(found[0].status.ok());
  EXPECT_EQ(found[1].status, Code::ok);
  EXPECT_FALSE(create({{"/b", 0644, kSmallBytes, 1, 100}}).at(0).ok());
  EXPECT_EQ(read({{"/b"}}).at(0).status, Code::not_found) << "no half of a file stays";
  ASSERT_EQ(session->ask(wire::ReleaseRegion{1}).status, Code::ok) << "nothing holds it";
}

TEST_F(Many, are_made_with_what_is_known_of_them) {
  ASSERT_EQ(session->ask(wire::MakeDirectory{"/d", 0755}).status, Code::ok);
  std::fill(region.bytes().begin(), region.bytes().end(), std::byte{9});
  std::vector<wire::NewFile> files(wire::kFilesAtOnceMax);
  for (size_t i = 0; i < files.size(); ++i) {
    files[i] = {"/d/" + std::to_string(i), 0640, i % 5 * 1000, 0, i};
    files[i].accessed = wire::Time{1'000, static_cast<uint32_t>(i)};
    files[i].modified = wire::Time{-2'000, 5};
  }
  files[3].path = "/a";
  files[4].path = "/missing/x";
  files[5].path = "/d";
  files[6].path = files[7].path;
  const std::vector<Status> made = create(files);
  for (size_t i = 0; i < files.size(); ++i) {
    if (i < 3 || i > 7) {
      ASSERT_EQ(made[i], Code::ok) << i;
    }
  }
  EXPECT_EQ(made[3], Code::already_exists);
  EXPECT_EQ(made[4], Code::not_found);
  EXPECT_EQ(made[5], Code::already_exists);
  EXPECT_NE(made[6].ok(), made[7].ok()) << "one of two with one name";
  EXPECT_EQ(read({{"/a"}}).at(0).size, kSmallBytes) << "what was there stays";
  for (const size_t i : {0u, 1u, 9u, 511u}) {
    const wire::Reply reply = session->ask(wire::PathAttributes{files[i].path, true});
    ASSERT_EQ(reply.status, Code::ok);
    const auto& attributes = std::get<wire::Attributes>(reply.body);
    EXPECT_EQ(attributes.mode, 0640u);
    EXPECT_EQ(attributes.length, files[i].length);
    EXPECT_EQ(attributes.accessed, *files[i].accessed);
    EXPECT_EQ(attributes.modified, (wire::Time{-2'000, 5}));
  }
  std::fill(region.bytes().begin(), region.bytes().end(), std::byte{0});
  EXPECT_EQ(read({{"/d/9", 0, 64 * kKiB, 0, 0}}).at(0).bytes, 4000u);
  EXPECT_EQ(region.bytes()[3999], std::byte{9});
  EXPECT_EQ(region.bytes()[4000], std::byte{0});
}

TEST_F(Many, end_a_session_whose_request_is_impossible) {
  RawSession other(connect());
  EXPECT_TRUE(other.send(wire::ReadFiles{}));
  EXPECT_TRUE(other.is_ended());
  EXPECT_EQ(read({{"/a"}}).at(0).size, kSmallBytes) << "the others go on";
}

}  // namespace
}  // namespace penstock::agent
