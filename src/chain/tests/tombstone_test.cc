// Names of removed chunks, and when they go.
#include "../limits.h"
#include "three_replicas.h"

namespace penstock::chain {
namespace {

using std::chrono::seconds;

class TombstoneTest : public ThreeReplicas {
 protected:
  // Removes this chunk and those behind it.
  void remove(uint32_t chunk) {
    Call call;
    call.words = {.inode = kFile, .chunk = chunk};
    start(call, kFirstChain, wire::ChunkMethod::remove);
    EXPECT_TRUE(world_.run_until([&call] { return call.ended; }, seconds(60)));
    EXPECT_EQ(call.status, Code::ok);
  }
  // Chunk 5 is written and removed; the slot goes on to chunk 0.
  void leave_tombstone() {
    ASSERT_EQ(write(5, 0, "what goes"), Code::ok);
    remove(5);
    ASSERT_EQ(write(0, 0, "what stays"), Code::ok);
    world_.run_for(seconds(1));
  }
  void adopt_all() { adopt({Standing::serving, Standing::serving, Standing::serving}); }

  // How many replicas know a name of chunk 5.
  size_t names() {
    size_t count = 0;
    for (const auto& one : replicas_) {
      const auto found = one->image.chunks().find(at(5));
      count +=
          found != one->image.chunks().end() && found->second.committed != UpdateName{} ? 1 : 0;
    }
    return count;
  }
  bool is_pending_anywhere() {
    for (const auto& one : replicas_) {
      if (!one->store.pending(kFirstChain).empty()) return true;
    }
    return false;
  }

  template <class Words>
  Status say(uint32_t from, uint32_t to, wire::ChainMethod what, const Words& words,
             std::vector<std::string> memory) {
    return end_of(begin_to_say(replica(from).net, to, what, words, std::move(memory)));
  }
  // The word of one before the commit point, which is answered with the commit.
  Said& tell_durable(uint32_t to, const UpdateName& name, uint32_t from = 1) {
    return begin_to_say(replica(from).net, to, wire::ChainMethod::durable,
                        wire::ChainWordRequest{.header = header(), .name = name, .from = from});
  }
  wire::ChainHeader header() const { return {version_, kFile, kFirstChain.value, 5}; }
  // From the predecessor, an update with one part.
  Said& begin_to_forward(uint32_t to, const UpdateName& name, const UpdateName& base,
                         const store::UpdatePart& part, uint32_t flags,
                         const std::string& content = "") {
    wire::ChainForwardRequest request{.header = header(), .name = name, .base = base};
    request.parts = 1;
    request.flags = flags;
    std::vector<std::string> memory{{reinterpret_cast<const char*>(&part), sizeof part}};
    if (!content.empty()) memory.push_back(content);
    return begin_to_say(replica(to - 1).net, to, wire::ChainMethod::forward, request,
                        std::move(memory));
  }
  Status forward(uint32_t to, const UpdateName& name, const UpdateName& base,
                 const store::UpdatePart& part, uint32_t flags, const std::string& content = "") {
    return end_of(begin_to_forward(to, name, base, part, flags, content));
  }
};

constexpr RequestId kOf{1, 77, 8, 0};

store::UpdatePart part_of(store::UpdateKind kind, uint32_t end = 0) {
  return {kOf, 0, end, kind};
}

TEST_F(TombstoneTest, goes_in_a_version_after_that_of_the_removal) {
  leave_tombstone();
  world_.run_for(seconds(30));
  EXPECT_EQ(names(), 3u) << "late messages of this version may tell of the chunk";
  adopt_all();
  world_.run_for(seconds(5));
  EXPECT_EQ(names(), 0u);
  EXPECT_FALSE(is_pending_anywhere());
  ASSERT_EQ(write(5, 0, "anew"), Code::ok);
  EXPECT_EQ(read(5, 0, 4), "anew");
  EXPECT_EQ(names(), 3u);
  expect_nobody_left();
}

TEST_F(TombstoneTest, stays_while_a_slot_tells_of_it) {
  ASSERT_EQ(write(5, 0, "what goes"), Code::ok);
  remove(5);
  adopt_all();
  world_.run_for(seconds(5));
  EXPECT_EQ(names(), 3u) << "repair copies the slot with the chunk";
  ASSERT_EQ(write(0, 0, "what stays"), Code::ok);
  adopt_all();
  world_.run_for(seconds(5));
  EXPECT_EQ(names(), 0u);
}

TEST_F(TombstoneTest, stays_while_a_replica_is_repaired) {
  leave_tombstone();
  adopt({Standing::serving, Standing::serving, Standing::syncing});
  world_.run_for(seconds(5));
  EXPECT_EQ(names(), 3u) << "a late copy of repair would bring it back";
  adopt_all();
  world_.run_for(seconds(5));
  EXPECT_EQ(names(), 0u);
}

TEST_F(TombstoneTest, goes_from_all_when_a_version_begins_in_the_middle) {
  for (int share = 0; share < 12; ++share) {
    leave_tombstone();
    adopt_all();
    const bool begun = world_.run_until([this] { return is_pending_anywhere(); }, seconds(5));
    ASSERT_TRUE(begun) << share;
    world_.run_for(std::chrono::microseconds(200) * share);
    adopt_all();
    world_.run_for(seconds(5));
    EXPECT_EQ(names(), 0u) << share;
    EXPECT_FALSE(is_pending_anywhere()) << share;
  }
  expect_nobody_left();
}

TEST_F(TombstoneTest, of_many_chunks_go_in_steps) {
  constexpr uint32_t kMany = 2 * limits::kTombstoneList + 10;
  for (uint32_t i = 0; i < kMany; ++i) ASSERT_EQ(write(6 + i, 0, "x"), Code::ok);
  remove(6);
  leave_tombstone();
  EXPECT_EQ(replica(1).image.chunks().size(), kMany + 2);
  adopt_all();
  world_.run_for(seconds(10));
  for (const auto& one : replicas_) EXPECT_EQ(one->image.chunks().size(), 1u);
  expect_nobody_left();
}

TEST_F(TombstoneTest, what_follows_the_drop_is_no_late_repetition) {
  leave_tombstone();
  const UpdateName removed = replica(3).image.chunks().at(at(5)).committed;
  ASSERT_EQ(removed.counter, 2u);
  adopt_all();
  // The last replica hears of the drop, and then of a new life of the chunk, by its first update.
  const UpdateName drop{version_, 3, removed.request};
  const uint32_t both = wire::kForwardDrop | wire::kForwardDurable;
  world_.run_for(std::chrono::milliseconds(10));
  tell_durable(3, drop);
  EXPECT_EQ(forward(3, drop, removed, part_of(store::UpdateKind::drop), both), Code::ok);
  EXPECT_EQ(names(), 2u);
  const UpdateName first{version_, 1, kOf};
  tell_durable(3, first);
  EXPECT_EQ(
      forward(3, first, {}, part_of(store::UpdateKind::write, 3), wire::kForwardDurable, "new"),
      Code::ok);
  EXPECT_EQ(bytes(3, 5), "new");
  EXPECT_EQ(forward(3, drop, removed, part_of(store::UpdateKind::drop), both), Code::ok)
      << "the second delivery of the drop";
  EXPECT_EQ(bytes(3, 5), "new") << "does nothing";
  expect_nobody_left();
}

// Its predecessor has heard that the drop is committed before this one has.
TEST_F(TombstoneTest, what_follows_a_drop_that_is_pending_commits_it_first) {
  leave_tombstone();
  const UpdateName removed = replica(3).image.chunks().at(at(5)).committed;
  adopt_all();
  world_.run_for(std::chrono::milliseconds(10));
  const UpdateName drop{version_, 3, removed.request};
  Said& dropped =
      begin_to_forward(3, drop, removed, part_of(store::UpdateKind::drop), wire::kForwardDrop);
  world_.run_for(std::chrono::milliseconds(10));
  EXPECT_EQ(names(), 3u) << "nobody has said that it is durable before it";
  const UpdateName first{version_, 1, kOf};
  tell_durable(3, first);
  EXPECT_EQ(
      forward(3, first, {}, part_of(store::UpdateKind::write, 3), wire::kForwardDurable, "new"),
      Code::ok);
  EXPECT_EQ(end_of(dropped), Code::ok);
  EXPECT_EQ(bytes(3, 5), "new");
  EXPECT_TRUE(replica(3).reports.empty());
}

TEST_F(TombstoneTest, a_first_update_onto_a_name_makes_a_replica_leave) {
  leave_tombstone();
  adopt_all();
  world_.run_for(std::chrono::milliseconds(10));
  const UpdateName first{version_, 1, kOf};
  EXPECT_EQ(
      forward(3, first, {}, part_of(store::UpdateKind::write, 3), wire::kForwardDurable, "new"),
      Code::not_serving)
      << "to answer as if it were done would lose it";
  ASSERT_FALSE(replica(3).reports.empty());
  EXPECT_EQ(replica(3).reports.front().kind, Report::Kind::failed);
}

// Repair sent the name to a replica that had none, and passed the chunk; then came the drop, which
// had begun in an older version, and then the copy once more.
TEST_F(TombstoneTest, a_late_copy_of_repair_does_not_bring_a_name_back) {
  leave_tombstone();
  const UpdateName removed = replica(3).image.chunks().at(at(5)).committed;
  adopt({Standing::serving, Standing::serving, Standing::syncing});
  world_.run_for(seconds(1));
  const UpdateName drop{version_ - 1, 3, removed.request};
  EXPECT_EQ(forward(3, drop, removed, part_of(store::UpdateKind::drop), wire::kForwardDrop),
            Code::ok);
  EXPECT_EQ(say(2, 3, wire::ChainMethod::committed, wire::ChainNameRequest{header(), drop}, {}),
            Code::ok);
  EXPECT_EQ(names(), 2u);
  wire::ChainReplaceRequest copy{.header = header(), .expected = {}, .committed = removed};
  copy.removed = 1;
  EXPECT_EQ(say(2, 3, wire::ChainMethod::replace, copy, {""}), Code::ok);
  EXPECT_EQ(names(), 2u);
  expect_nobody_left();
}

TEST_F(TombstoneTest, no_client_may_ask_for_it) {
  leave_tombstone();
  wire::ChainUpdateRequest request{.header = header(), .request = {1, 77, 1, 0}};
  request.kind = wire::kDropPart;
  EXPECT_EQ(say(1, 1, wire::ChainMethod::update, request, {}), Code::bad_message);
  request.kind = static_cast<uint8_t>(store::UpdateKind::remove);
  EXPECT_EQ(say(1, 1, wire::ChainMethod::update, request, {}), Code::ok) << "but for this";
}

TEST_F(TombstoneTest, a_drop_is_what_the_message_says_it_is) {
  leave_tombstone();
  const UpdateName removed = replica(3).image.chunks().at(at(5)).committed;
  adopt_all();
  world_.run_for(std::chrono::milliseconds(10));
  const UpdateName drop{version_, 3, removed.request};
  EXPECT_EQ(forward(3, drop, removed, part_of(store::UpdateKind::drop), wire::kForwardDurable),
            Code::bad_message);
  EXPECT_EQ(forward(3, drop, removed, part_of(store::UpdateKind::remove),
                    wire::kForwardDrop | wire::kForwardDurable),
            Code::bad_message);
  EXPECT_EQ(names(), 3u);
  expect_nobody_left();
}

}  // namespace
}  // namespace penstock::chain
