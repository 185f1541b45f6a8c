// A node whose control group has little memory, and a client with many rings that it uses to their
// depth: the node gives what it may use itself, and no more.
#include "raw_session.h"
#include "watched_node.h"

#include <chrono>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>

#include "penstock/json.h"
#include "penstock/testing.h"
#include "penstock/testing_node.h"

namespace penstock::test {
namespace {

using agent::RawRing;
using agent::RawSession;

constexpr uint64_t kGroupBytes = 256 * kMiB;
// Their operations would take more than the group has.
constexpr uint32_t kRings = 256;
constexpr uint32_t kDepth = 4096;
constexpr uint64_t kFileBytes = 16 * kMiB;
constexpr uint64_t kReadBytes = 1 * kMiB;
constexpr uid_t kGreedy = 1001;

// Of this thread alone, for as long as it connects: that is when the node sees who is there.
UniqueFd connect_as(uid_t uid, const std::string& path) {
  constexpr uid_t kAsItIs = static_cast<uid_t>(-1);
  if (::syscall(SYS_setresuid, kAsItIs, uid, kAsItIs) != 0) return {};
  UniqueFd socket = connect_to(path);
  (void)::syscall(SYS_setresuid, kAsItIs, 0, kAsItIs);
  return socket;
}

void write_file_of(RawSession& session) {
  SharedMemory memory(kReadBytes, 0);
  ASSERT_EQ(session.ask(wire::RegisterRegion{0, 0, kReadBytes}, {memory.fd()}).status, Code::ok);
  constexpr uint32_t kFlags = wire::kOpenWrite | wire::kOpenCreate;
  ASSERT_EQ(session.ask(wire::OpenPath{0, "/file", kFlags, 0644}).status, Code::ok);
  RawRing ring(session, 0);
  ASSERT_EQ(ring.created.status, Code::ok) << ring.created.text;
  for (uint64_t at = 0; at < kFileBytes; at += kReadBytes) {
    ring::Submission write{};
    write.operation = ring::kOperationWrite;
    write.offset = at;
    write.length = kReadBytes;
    ASSERT_EQ(ring.run(write), static_cast<int64_t>(kReadBytes));
  }
}

// 4,096 reads of each ring, none of which anybody waits for.
void flood(RawSession& session, std::vector<std::unique_ptr<RawRing>>* rings) {
  for (uint32_t id = 0; id < kRings; ++id) {
    rings->push_back(std::make_unique<RawRing>(session, id, kDepth));
    RawRing& ring = *rings->back();
    if (!ring.created.status.ok()) {
      rings->pop_back();
      return;
    }
    for (uint32_t i = 0; i < kDepth; ++i) {
      ring::Submission read{};
      read.operation = ring::kOperationRead;
      read.offset = i % (kFileBytes / kReadBytes) * kReadBytes;
      read.length = kReadBytes;
      ring.lane.push(read);
    }
    ring.lane.publish();
    ring.wake_agent();
  }
}

class NodeInGroup : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0 || !group_.is_there()) {
      GTEST_SKIP() << "needs to be root, and groups of processes with little memory";
    }
    ASSERT_TRUE(MemoryGroup::enter(group_.path()));
    node_ = std::make_unique<WatchedNode>(NodeOptions{.mount = false});
    ASSERT_TRUE(MemoryGroup::enter(group_.own()));
    ASSERT_TRUE(node_->is_up()) << node_->words();
  }
  Json status() const {
    const Json said = parse_json(penstock({"status", node_->store(), "--json"}).out);
    return said.is_object() ? said : Json::object();
  }
  static Json heap_of(const Json& status) {
    return status.value("resources", Json::object()).value("heap_bytes", Json::object());
  }
  // True once what it gave for clients' operations is nearly all that one user gets.
  bool heap_is_given() {
    const auto is_given = [this] {
      const Json heap = heap_of(status());
      return heap.value("refused", 0) > 0 &&
             heap.value("held", uint64_t{0}) > heap.value("user", uint64_t{0}) / 4 * 3;
    };
    bool given = false;
    (void)eventually([&] { return (given = is_given()) || !node_->lives(); }, 2 * kPatience);
    return given;
  }

  const MemoryGroup group_{kGroupBytes};  // goes after the node
  std::unique_ptr<WatchedNode> node_;
};

TEST_F(NodeInGroup, gives_many_deep_rings_no_more_than_it_may_use) {
  EXPECT_EQ(status().value("memory_bytes", uint64_t{0}), kGroupBytes);
  EXPECT_EQ(status().value("memory_limit", ""), group_.limit());
  {
    RawSession root(connect_to(node_->socket()));
    write_file_of(root);
    ASSERT_FALSE(HasFatalFailure());
  }
  UniqueFd socket = connect_as(kGreedy, node_->socket());
  ASSERT_TRUE(socket);
  RawSession session(std::move(socket));
  SharedMemory memory(kReadBytes, 0);
  ASSERT_EQ(session.ask(wire::RegisterRegion{0, 0, kReadBytes}, {memory.fd()}).status, Code::ok);
  ASSERT_EQ(session.ask(wire::OpenPath{0, "/file", wire::kOpenRead, 0}).status, Code::ok);
  std::vector<std::unique_ptr<RawRing>> rings;
  flood(session, &rings);
  EXPECT_GT(rings.size(), 16u);
  ASSERT_TRUE(heap_is_given()) << node_->ending() << "\n" << heap_of(status()).dump();
  EXPECT_LE(heap_of(status()).value("held", kGroupBytes), kGroupBytes / 4);
  // Every ring goes on with what it has, and who runs the node is served.
  for (const auto& ring : rings) ASSERT_EQ(ring->next(), static_cast<int64_t>(kReadBytes));
  RawSession other(connect_to(node_->socket()));
  EXPECT_EQ(other.ask(wire::PathAttributes{"/file", true}).status, Code::ok);
  EXPECT_TRUE(node_->lives()) << node_->ending();
}

}  // namespace
}  // namespace penstock::test
