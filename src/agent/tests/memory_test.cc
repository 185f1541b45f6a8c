// What an agent pays for memory of its clients.
#include "raw_session.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace penstock::agent {
namespace {

class MemoryOfClients : public testing::Test {
 protected:
  void SetUp() override {
    log::set_level(log::Level::off);
    AgentConfig config;
    config.directory = directory_.store();
    config.spin = std::chrono::microseconds(0);
    Outcome<std::unique_ptr<Agent>> started = Agent::start(config);
    ASSERT_TRUE(started) << started.error().message;
    agent_ = std::move(*started);
  }
  void TearDown() override {
    agent_.reset();
    log::set_level(log::Level::warning);
  }
  UniqueFd connect() {
    Outcome<UniqueFd> socket = agent_->connect_local();
    EXPECT_TRUE(socket);
    return std::move(*socket);
  }
  uint64_t held(std::string_view what) const {
    for (const UserStatus& user : agent_->status().users) {
      for (const auto& share : user.shares) {
        if (share.what == what) return share.held;
      }
    }
    return 0;
  }
  static uint64_t page_bytes(const SharedMemory& memory) {
    struct stat facts {};
    EXPECT_EQ(::fstat(memory.fd(), &facts), 0);
    return static_cast<uint64_t>(facts.st_blocks) * 512;
  }
  static ring::Submission entry(uint8_t operation, uint64_t region_offset, uint64_t length) {
    ring::Submission out{};
    out.operation = operation;
    out.region_offset = region_offset;
    out.length = length;
    return out;
  }

  ScratchDirectory directory_;
  std::unique_ptr<Agent> agent_;
};

TEST_F(MemoryOfClients, has_no_page_that_its_owner_has_not_made) {
  RawSession session(connect());
  RawRing ring(session, 0);
  ASSERT_EQ(ring.created.status, Code::ok) << ring.created.text;
  SharedMemory sparse(900 * kMiB, 0, false);
  ASSERT_EQ(session.ask(wire::RegisterRegion{0, 0, sparse.size()}, {sparse.fd()}).status, Code::ok);
  EXPECT_EQ(page_bytes(sparse), 0u) << "registering makes none";
  EXPECT_EQ(held("pinned_bytes"), 0u);
  constexpr uint32_t kFlags = wire::kOpenRead | wire::kOpenWrite | wire::kOpenCreate;
  ASSERT_EQ(session.ask(wire::OpenPath{0, "/file", kFlags, 0644}).status, Code::ok);
  // What is there is used.
  constexpr uint64_t kSome = 64 * kKiB;
  std::fill_n(sparse.bytes().data(), kSome, std::byte{5});
  ASSERT_EQ(ring.run(entry(ring::kOperationWrite, 0, kSome)), static_cast<int64_t>(kSome));
  ASSERT_EQ(ring.run(entry(ring::kOperationRead, 0, kSome)), static_cast<int64_t>(kSome));
  EXPECT_EQ(page_bytes(sparse), kSome);
  if (!agent_->status().memory_is_fenced) GTEST_SKIP() << "userfaultfd is not allowed here";
  for (const uint8_t operation : {ring::kOperationRead, ring::kOperationWrite}) {
    EXPECT_EQ(ring.run(entry(operation, 8 * kMiB, kSome)), -EFAULT) << int{operation};
  }
  EXPECT_EQ(page_bytes(sparse), kSome);
  RawSession other(connect());
  EXPECT_EQ(other.ask(wire::PathAttributes{"/file", true}).status, Code::ok);
}

TEST_F(MemoryOfClients, is_pinned_for_its_session_and_let_go_with_it) {
  RawSession session(connect());
  SharedMemory memory(1 * kMiB, 0);
  ASSERT_EQ(session.ask(wire::RegisterRegion{0, 0, memory.size()}, {memory.fd()}).status, Code::ok);
  const uint64_t pinned = held("pinned_bytes");
  EXPECT_TRUE(pinned == 0 || pinned == memory.size()) << "0 where the disk registers nothing";
  ASSERT_EQ(session.ask(wire::ReleaseRegion{0}).status, Code::ok);
  EXPECT_EQ(held("pinned_bytes"), 0u);
}

TEST_F(MemoryOfClients, costs_little_for_rings_that_are_not_used_and_is_given_back) {
  const auto heap = [this] { return held("heap_bytes"); };
  std::vector<std::unique_ptr<RawSession>> sessions;
  constexpr ring::Geometry kLarge{64, 64};
  SharedMemory memory(align_up(kLarge.total_bytes(), 4096), F_SEAL_SHRINK);
  (void)ring::Memory::format(memory.bytes(), kLarge);
  const UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  for (int i = 0; i < 8; ++i) {
    sessions.push_back(std::make_unique<RawSession>(connect()));
    for (uint32_t id = 0; id < 64; ++id) {
      ASSERT_EQ(sessions.back()
                    ->ask(wire::CreateRing{id, memory.size()}, {memory.fd(), wake.get()})
                    .status,
                Code::ok);
    }
  }
  EXPECT_GT(heap(), 0u);
  EXPECT_LT(heap(), 64 * kMiB) << "512 rings of 4,096 operations";
  sessions.clear();
  EXPECT_TRUE(test::eventually([&] { return heap() == 0; })) << heap();
}

TEST_F(MemoryOfClients, is_charged_for_what_it_takes_to_map_it) {
  RawSession session(connect());
  const uint64_t mappings = held("mappings");
  const uint64_t heap = held("heap_bytes");
  SharedMemory sparse(64 * kMiB, 0, false);
  ASSERT_EQ(session.ask(wire::RegisterRegion{0, 0, sparse.size()}, {sparse.fd()}).status, Code::ok);
  EXPECT_EQ(held("mappings"), mappings + 1);
  EXPECT_GE(held("heap_bytes"), heap + sparse.size() / 512) << "its page tables";
  RawRing ring(session, 0);
  ASSERT_EQ(ring.created.status, Code::ok) << ring.created.text;
  EXPECT_EQ(held("mappings"), mappings + 3) << "the ring's memory and its operations";
  ASSERT_EQ(session.ask(wire::ReleaseRegion{0}).status, Code::ok);
  ASSERT_EQ(session.ask(wire::DestroyRing{0}).status, Code::ok);
  EXPECT_EQ(held("mappings"), mappings);
  EXPECT_EQ(held("heap_bytes"), heap);
}

TEST_F(MemoryOfClients, is_charged_for_the_tables_that_large_numbers_need) {
  RawSession session(connect());
  SharedMemory memory(4096, 0);
  const uint64_t before = held("heap_bytes");
  ASSERT_EQ(session.ask(wire::RegisterRegion{0, 0, 4096}, {memory.fd()}).status, Code::ok);
  const uint64_t one = held("heap_bytes") - before;
  ASSERT_EQ(session.ask(wire::RegisterRegion{wire::kRegionsMax - 1, 0, 4096}, {memory.fd()}).status,
            Code::ok);
  EXPECT_GE(held("heap_bytes") - before, 2 * one + wire::kRegionsMax * 32);
  constexpr uint32_t kFlags = wire::kOpenRead | wire::kOpenWrite | wire::kOpenCreate;
  const uint64_t with_regions = held("heap_bytes");
  ASSERT_EQ(session.ask(wire::OpenPath{wire::kFilesMax - 1, "/file", kFlags, 0644}).status,
            Code::ok);
  EXPECT_GE(held("heap_bytes") - with_regions, wire::kFilesMax * 24);
}

TEST_F(MemoryOfClients, grows_with_a_ring_that_is_used_to_its_depth) {
  RawSession session(connect());
  const uint64_t heap = held("heap_bytes");
  const uint64_t mappings = held("mappings");
  RawRing ring(session, 0, 256);
  ASSERT_EQ(ring.created.status, Code::ok);
  constexpr uint32_t kFlags = wire::kOpenRead | wire::kOpenWrite | wire::kOpenCreate;
  ASSERT_EQ(session.ask(wire::OpenPath{0, "/file", kFlags, 0644}).status, Code::ok);
  SharedMemory memory(4096, 0);
  ASSERT_EQ(session.ask(wire::RegisterRegion{0, 0, 4096}, {memory.fd()}).status, Code::ok);
  for (int turn = 0; turn < 4; ++turn) {
    for (uint32_t i = 0; i < 256; ++i) ring.lane.push(entry(ring::kOperationWrite, 0, 4096));
    ring.lane.publish();
    ring.wake_agent();
    for (uint32_t i = 0; i < 256; ++i) ASSERT_EQ(ring.next(), 4096) << i;
  }
  // The ring and its first operations, the region; and the operations that it took more.
  EXPECT_GT(held("mappings"), mappings + 3);
  EXPECT_LT(held("mappings"), mappings + 16);
  EXPECT_GT(held("heap_bytes"), heap + 32 * kKiB);
}

}  // namespace
}  // namespace penstock::agent
