// Sessions that may change nothing any more: what heads refuse, and when.
#include "three_replicas.h"

namespace penstock::chain {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::AgentSession;

constexpr engine::Duration kShortLease = seconds(20);

uint64_t session_of_reader(uint64_t number) {
  return AgentSession{kReader, number}.word();
}

class FenceTest : public ThreeReplicas {
 protected:
  explicit FenceTest(engine::Duration lease = std::chrono::hours(1)) : ThreeReplicas(lease) {}

  Status write_for(uint64_t session, std::string content) {
    session_ = session;
    return write(0, 0, std::move(content));
  }
  void fence_all(const AgentSession& lowest) {
    for (const auto& one : replicas_) one->host->fence(lowest);
  }
  void begin_write(Call& call, uint64_t session, char byte) {
    session_ = session;
    call.words = {.inode = kFile, .chunk = 0, .begin = 0, .length = 100};
    call.memory = std::string(100, byte);
    start(call, kFirstChain, wire::ChunkMethod::write);
  }
  Status change_for(uint64_t session, wire::ChunkMethod method) {
    session_ = session;
    Call call;
    call.words = {.inode = kFile, .chunk = 0, .begin = 0, .length = 0};
    if (method == wire::ChunkMethod::clear) call.words.length = wire::kChunkEnd;
    start(call, kFirstChain, method);
    return end_of_call(call);
  }
  // What the head is told goes no further until then. It has room for it at the others.
  void cut_head(bool cut) {
    if (cut) {
      EXPECT_EQ(write_for(0, "room"), Code::ok);
    }
    network_.set_cut(NodeId{1}, NodeId{2}, cut);
    network_.set_cut(NodeId{1}, NodeId{3}, cut);
  }
  Status end_of_call(const Call& call) {
    EXPECT_TRUE(world_.run_until([&] { return call.ended; }, seconds(60)));
    return call.status;
  }
  Host::Status head() { return replica(1).host->status(); }
  uint64_t updates_at_head() { return replica(1).image.chunks().at(at(0)).committed.counter; }
};

TEST_F(FenceTest, sessions_below_the_lowest_change_nothing_and_others_do) {
  EXPECT_EQ(write_for(session_of_reader(5), "five"), Code::ok);
  fence_all({kReader, 6});
  EXPECT_EQ(write_for(session_of_reader(5), "late"), Code::stale);
  EXPECT_EQ(write_for(session_of_reader(1), "late"), Code::stale);
  EXPECT_EQ(read(0, 0, 4), "five");
  EXPECT_EQ(write_for(session_of_reader(6), "six."), Code::ok);
  EXPECT_EQ(write_for(0, "none"), Code::ok) << "who has no sessions is not fenced";
  fence_all({NodeId{8}, 100});
  EXPECT_EQ(write_for(session_of_reader(6), "six!"), Code::ok) << "another node's";
  // It is only ever raised.
  fence_all({kReader, 2});
  EXPECT_EQ(write_for(session_of_reader(5), "late"), Code::stale);
  EXPECT_EQ(read(0, 0, 4), "six!");
  for (const auto method : {wire::ChunkMethod::clear, wire::ChunkMethod::remove}) {
    EXPECT_EQ(change_for(session_of_reader(5), method), Code::stale);
    EXPECT_EQ(read(0, 0, 4), "six!");
    EXPECT_EQ(change_for(session_of_reader(6), method), Code::ok);
    EXPECT_EQ(write_for(session_of_reader(6), "six!"), Code::ok);
  }
}

TEST_F(FenceTest, what_waits_is_refused_when_it_comes_and_what_has_a_number_goes_on) {
  cut_head(true);
  Call numbered, waits, of_other, of_none;
  begin_write(numbered, session_of_reader(5), 'a');
  world_.run_for(milliseconds(10));
  begin_write(waits, session_of_reader(5), 'b');
  begin_write(of_other, session_of_reader(6), 'c');
  begin_write(of_none, 0, 'd');
  world_.run_for(milliseconds(10));
  ASSERT_EQ(head().pending, 1U);
  ASSERT_EQ(head().waiting, 3U);
  replica(1).host->fence({kReader, 6});
  EXPECT_EQ(head().waiting, 2U) << "before it returns";
  EXPECT_EQ(end_of_call(waits), Code::stale);
  EXPECT_FALSE(numbered.ended || of_other.ended || of_none.ended);
  cut_head(false);
  EXPECT_EQ(end_of_call(numbered), Code::ok);
  EXPECT_EQ(end_of_call(of_other), Code::ok);
  EXPECT_EQ(end_of_call(of_none), Code::ok);
  EXPECT_EQ(updates_at_head(), 3U) << "those that waited were joined";
}

TEST_F(FenceTest, what_is_on_its_way_to_the_head_is_looked_at_when_it_is_there) {
  // Its bytes come later than its call.
  network_.faults.delay_max = milliseconds(40);
  Call late;
  begin_write(late, session_of_reader(5), 'a');
  world_.run_for(milliseconds(1));
  fence_all({kReader, 6});
  EXPECT_EQ(end_of_call(late), Code::stale);
  network_.faults.delay_max = milliseconds(1);
  EXPECT_EQ(read(0, 0, 1), std::string(1, '\0'));
}

TEST_F(FenceTest, what_happened_is_told_to_whoever_asks_again) {
  wire::ChainUpdateRequest request{.header = {version_, kFile, kFirstChain.value, 0},
                                   .request = {1, 1, kReader.value, 60}};
  request.header.capability = session_of_reader(5);
  request.end = 4;
  request.kind = 1;
  EXPECT_EQ(end_of(begin_to_say(client_, 1, wire::ChainMethod::update, request, {"abcd"})),
            Code::ok);
  fence_all({kReader, 6});
  EXPECT_EQ(end_of(begin_to_say(client_, 1, wire::ChainMethod::update, request, {"abcd"})),
            Code::ok);
  ++request.request.sequence;
  EXPECT_EQ(end_of(begin_to_say(client_, 1, wire::ChainMethod::update, request, {"efgh"})),
            Code::stale);
  // Another head hears of what has its number from the one before, and asks nobody for whom it is.
  EXPECT_EQ(read(0, 0, 4), "abcd");
}

TEST_F(FenceTest, a_new_head_goes_on_with_what_has_a_number_and_refuses_all_else) {
  cut_head(true);
  Call numbered;
  begin_write(numbered, session_of_reader(5), 'a');
  world_.run_for(milliseconds(10));
  // The second has it; the third, which commits, does not yet.
  network_.set_cut(NodeId{1}, NodeId{2}, false);
  network_.set_cut(NodeId{2}, NodeId{3}, true);
  world_.run_for(seconds(3));
  ASSERT_EQ(replica(2).host->status().pending, 1U);
  fence_all({kReader, 6});
  const auto at_second = [](uint32_t target, Standing standing) {
    return Member{TargetId{target}, 1, {NodeId{target}, 0}, standing};
  };
  const View second{kFirstChain,
                    ++version_,
                    {at_second(2, Standing::serving), at_second(3, Standing::serving),
                     at_second(1, Standing::offline)}};
  network_.set_cut(NodeId{2}, NodeId{3}, false);
  cut_head(false);
  for (const auto& one : replicas_) one->host->adopt(second);
  chains_.learn(second);
  EXPECT_EQ(end_of_call(numbered), Code::ok) << "it had its number before the fence";
  EXPECT_EQ(read(0, 0, 1), "a");
  EXPECT_EQ(write_for(session_of_reader(5), "late"), Code::stale);
}

class FenceAndLease : public FenceTest {
 protected:
  FenceAndLease() : FenceTest(kShortLease) {}
};

// It may be fenced by a map that this head has not seen.
TEST_F(FenceAndLease, a_head_without_a_lease_gives_no_number_to_what_waits) {
  cut_head(true);
  const auto say = [this](uint32_t slot, std::string bytes) {
    wire::ChainUpdateRequest request{.header = {version_, kFile, kFirstChain.value, 0},
                                     .request = {1, 1, kReader.value, slot}};
    request.header.capability = session_of_reader(5);
    request.end = 4;
    request.kind = 1;
    begin_to_say(client_, 1, wire::ChainMethod::update, request, {std::move(bytes)});
    world_.run_for(milliseconds(10));
  };
  say(60, "abcd");
  say(61, "efgh");
  ASSERT_EQ(head().pending, 1U);
  ASSERT_EQ(head().waiting, 1U);
  world_.run_for(kShortLease);
  ASSERT_EQ(head().waiting, 1U);
  cut_head(false);
  EXPECT_TRUE(world_.run_until([this] { return head().pending == 0; }, seconds(30)));
  EXPECT_EQ(head().waiting, 0U);
  EXPECT_EQ(updates_at_head(), 2U);
  world_.run_for(seconds(5));
  EXPECT_EQ(updates_at_head(), 2U);
}

// A call that the network brings twice: the one whose answer counts comes when the lease is over,
// and a refusal would say that nothing has happened.
TEST_F(FenceAndLease, what_happened_is_told_without_a_lease_as_well) {
  wire::ChainUpdateRequest request{.header = {version_, kFile, kFirstChain.value, 0},
                                   .request = {1, 1, kReader.value, 60}};
  request.end = 4;
  request.kind = 1;
  const auto say = [&]() -> Said& {
    return begin_to_say(client_, 1, wire::ChainMethod::update, request, {"abcd"});
  };
  cut_head(true);
  request.request.slot = 61;
  Said& first = say();
  world_.run_for(milliseconds(10));
  ASSERT_EQ(head().pending, 1U);
  world_.run_for(kShortLease);
  EXPECT_TRUE(first.ended) << "its client has given up";
  Said& again = say();
  world_.run_for(milliseconds(10));
  EXPECT_FALSE(again.ended) << "it is pending";
  cut_head(false);
  EXPECT_EQ(end_of(again), Code::ok);
  EXPECT_EQ(end_of(say()), Code::ok);
  EXPECT_EQ(updates_at_head(), 2U) << "once, and what made room";
  request.request.sequence = 2;
  EXPECT_EQ(end_of(say()), Code::not_serving) << "what is new is refused";
  EXPECT_EQ(updates_at_head(), 2U);
}

// The same where its bytes are still on their way when the double has been done.
TEST_F(FenceAndLease, a_double_whose_bytes_come_after_the_lease_is_told_as_well) {
  wire::ChainUpdateRequest request{.header = {version_, kFile, kFirstChain.value, 0},
                                   .request = {1, 1, kReader.value, 60}};
  request.end = 4;
  request.kind = 1;
  EXPECT_EQ(write_for(0, "room"), Code::ok);
  world_.run_for(kShortLease - milliseconds(300));
  network_.faults.delay_max = milliseconds(400);
  std::vector<Said*> all;
  for (int i = 0; i < 40; ++i) {
    all.push_back(&begin_to_say(client_, 1, wire::ChainMethod::update, request, {"abcd"}));
  }
  for (Said* said : all) {
    const Status status = end_of(*said);
    EXPECT_TRUE(status == Code::ok || status == Code::cancelled) << status.name();
  }
  EXPECT_EQ(updates_at_head(), 2U) << "once, and what made room";
}

}  // namespace
}  // namespace penstock::chain
