// Stores that become full: only heads refuse, before an update has a number, and nobody leaves.
#include "three_replicas.h"

#include <algorithm>
#include <deque>

namespace penstock::chain {
namespace {

constexpr ChainId kSecondChain{2};
constexpr uint32_t kPieceBytes = 256 * kKiB;

class SpaceTest : public ThreeReplicas {
 protected:
  // Writes a piece of each of these chunks at once, and says how many found room.
  size_t write_at_once(ChainId chain, uint32_t first, uint32_t count) {
    std::deque<Call> calls;
    for (uint32_t i = 0; i < count; ++i) {
      Call& call = calls.emplace_back();
      call.words = {.inode = kFile, .chunk = first + i, .begin = 0, .length = kPieceBytes};
      call.memory.assign(kPieceBytes, 'a');
      start(call, chain, wire::ChunkMethod::write);
    }
    size_t written = 0;
    for (Call& call : calls) {
      EXPECT_TRUE(world_.run_until([&] { return call.ended; }, std::chrono::seconds(60)));
      EXPECT_TRUE(call.status.ok() || call.status == Code::no_space) << call.status.name();
      if (call.status.ok()) ++written;
    }
    return written;
  }
  // Fills the chain until nothing goes in any more, and says how many pieces it took.
  uint32_t fill(ChainId chain, uint32_t at_once) {
    uint32_t all = 0;
    for (;;) {
      const size_t written = write_at_once(chain, 1000 + all, at_once);
      all += static_cast<uint32_t>(written);
      if (written == 0) return all;
    }
  }
  Status remove(uint32_t first_chunk) {
    Call call;
    call.words = {.inode = kFile, .chunk = first_chunk};
    start(call, kFirstChain, wire::ChunkMethod::remove);
    EXPECT_TRUE(world_.run_until([&] { return call.ended; }, std::chrono::seconds(60)));
    return call.status;
  }
};

TEST_F(SpaceTest, the_smallest_store_is_filled_and_nobody_leaves) {
  for (const uint32_t smallest : {1, 2, 3}) {
    for (const auto& one : replicas_) one->store.capacity = 64 * kMiB;
    replica(smallest).store.capacity = 8 * kMiB;
    const uint32_t pieces = fill(kFirstChain, smallest == 2 ? 1 : 7);
    // All but what is never promised, and less than one piece that does not fit any more.
    const uint64_t usable = 8 * kMiB - 1 * kMiB;
    EXPECT_GE(pieces, usable / kPieceBytes - 1) << smallest;
    EXPECT_LE(pieces, 8 * kMiB / kPieceBytes) << smallest;
    for (const auto& one : replicas_) {
      EXPECT_EQ(one->host->status().pending, 0U);
      const auto& chunks = one->image.chunks();
      const auto there = std::count_if(chunks.begin(), chunks.end(),
                                       [](const auto& c) { return !c.second.bytes.empty(); });
      EXPECT_EQ(there, pieces) << "what was refused is nowhere";
    }
    // What is there can be read, and removal makes room.
    EXPECT_EQ(read(1000, 0, 4), "aaaa");
    EXPECT_EQ(remove(1000 + pieces / 2), Code::ok);
    world_.run_for(std::chrono::seconds(3));
    EXPECT_GT(fill(kFirstChain, 3), pieces / 3);
    EXPECT_EQ(remove(0), Code::ok);
    world_.run_for(std::chrono::seconds(3));
    for (const auto& one : replicas_) {
      EXPECT_GE(one->store.room(), one->store.capacity) << "all of it is removed";
      for (const auto& [at, chunk] : one->image.chunks()) EXPECT_TRUE(chunk.bytes.empty());
    }
    expect_nobody_left();
    // Another version: all begins without grants.
    adopt({Standing::serving, Standing::serving, Standing::serving});
  }
}

// Two heads, which know nothing of each other, promise nothing that is there once only.
TEST_F(SpaceTest, chains_that_share_a_small_store_do_not_promise_it_twice) {
  View second{kSecondChain, 1, {}};
  for (const uint32_t number : {2, 1, 3}) {
    second.members.push_back({TargetId{number}, 1, {NodeId{number}, 0}, Standing::serving});
  }
  for (const auto& one : replicas_) one->host->adopt(second);
  chains_.learn(second);
  replica(3).store.capacity = 8 * kMiB;
  uint32_t pieces = 0;
  for (bool any = true; any;) {
    std::deque<Call> calls;
    for (uint32_t i = 0; i < 6; ++i) {
      Call& call = calls.emplace_back();
      call.words = {.inode = kFile, .chunk = 10 * pieces + i, .begin = 0, .length = kPieceBytes};
      call.memory.assign(kPieceBytes, 'b');
      start(call, i % 2 == 0 ? kFirstChain : kSecondChain, wire::ChunkMethod::write);
    }
    any = false;
    for (Call& call : calls) {
      EXPECT_TRUE(world_.run_until([&] { return call.ended; }, std::chrono::seconds(60)));
      if (!call.status.ok()) continue;
      any = true;
      ++pieces;
    }
  }
  EXPECT_GE(pieces, 24U);
  EXPECT_LE(pieces, 32U);
  expect_nobody_left();
}

// What was given to a chain that does nothing with it goes to the one that needs it.
TEST_F(SpaceTest, what_a_chain_does_not_use_is_given_back) {
  View second{kSecondChain, 1, {}};
  for (const uint32_t number : {2, 1, 3}) {
    second.members.push_back({TargetId{number}, 1, {NodeId{number}, 0}, Standing::serving});
  }
  for (const auto& one : replicas_) {
    one->store.capacity = 16 * kMiB;
    one->host->adopt(second);
  }
  chains_.learn(second);
  EXPECT_EQ(write_at_once(kSecondChain, 0, 2), 2U);
  EXPECT_GE(fill(kFirstChain, 4), (16 * kMiB - 1 * kMiB) / kPieceBytes - 4);
  expect_nobody_left();
}

// Nobody knows whether it has space: the update waits until there is a version without it.
TEST_F(SpaceTest, a_successor_that_does_not_answer_is_not_full) {
  network_.set_partitioned(NodeId{1}, NodeId{2}, true);
  Call waits;
  waits.words = {.inode = kFile, .chunk = 0, .begin = 0, .length = kPieceBytes};
  waits.memory.assign(kPieceBytes, 'd');
  start(waits, kFirstChain, wire::ChunkMethod::write);
  world_.run_for(std::chrono::seconds(6));
  EXPECT_FALSE(waits.ended) << waits.status.name();
  View without{kFirstChain, ++version_, {}};
  for (const uint32_t number : {1, 3, 2}) {
    without.members.push_back({TargetId{number},
                               1,
                               {NodeId{number}, 0},
                               number == 2 ? Standing::offline : Standing::serving});
  }
  for (const auto& one : replicas_) one->host->adopt(without);
  chains_.learn(without);
  EXPECT_TRUE(world_.run_until([&] { return waits.ended; }, std::chrono::seconds(60)));
  EXPECT_EQ(waits.status, Code::ok);
}

// The messages that grant are lost now and then, or come twice, or late.
TEST_F(SpaceTest, grants_that_are_lost_or_late_change_nothing) {
  network_.faults.drop_permille = 100;
  network_.faults.duplicate_permille = 100;
  network_.faults.delay_max = std::chrono::milliseconds(30);
  replica(2).store.capacity = 8 * kMiB;
  uint32_t pieces = 0;
  for (uint32_t i = 0; i < 60; ++i) {
    std::string content(kPieceBytes, 'c');
    const Status status = call(wire::ChunkMethod::write, i, 0, content);
    if (status.ok()) ++pieces;
  }
  EXPECT_GE(pieces, 20U);
  EXPECT_LE(pieces, 32U);
  network_.faults = {};
  expect_nobody_left();
}

}  // namespace
}  // namespace penstock::chain
