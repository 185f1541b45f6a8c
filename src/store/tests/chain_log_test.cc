// Small prepares of chains in the log of a target (decision 0049).
#include "chain_rig.h"
#include "old_target.h"

namespace penstock::store {
namespace {

using limits::kBlockBytes;

RigOptions with_log(uint64_t bytes) {
  RigOptions options;
  options.log_bytes = bytes;
  return options;
}

class ChainsInTheLog : public testing::Test {
 protected:
  explicit ChainsInTheLog(uint64_t bytes = 4 * kMiB) : chains(with_log(bytes)) {}
  void SetUp() override { log::set_level(log::Level::off); }
  void TearDown() override { log::set_level(log::Level::warning); }

  ChainStore& store() { return chains.store(); }
  Rig& rig() { return chains.rig(); }
  uint64_t logged() { return rig().core().counters.logged.value(); }
  uint64_t commits() { return rig().core().counters.commits.value(); }
  uint64_t replayed() { return rig().core().counters.replayed.value(); }
  Status write(const ChainChunk& at, uint64_t counter, uint32_t begin, size_t length, char what) {
    const auto end = begin + static_cast<uint32_t>(length);
    return chains.prepare(at, name_of(counter), {write_part(begin, end, request_of(counter, 1))},
                          std::string(length, what));
  }
  void update(const ChainChunk& at, uint64_t counter, uint32_t begin, size_t length, char what) {
    ASSERT_TRUE(write(at, counter, begin, length, what).ok());
    store().commit(at);
  }
  // What is pending of the chunk; a name of nobody if nothing is.
  UpdateName pending(const ChainChunk& at) {
    for (const PendingUpdate& one : store().pending(at.chain)) {
      if (one.at == at) return one.name;
    }
    return {};
  }
  // Commits take a second from now on: what is done soon is in the log only.
  void slow_commits() {
    ASSERT_TRUE(rig().sync().ok());
    rig().records.faults.delay_min = rig().records.faults.delay_max = std::chrono::seconds(1);
  }

  TargetChainRig chains;
};

class ChainsInASmallLog : public ChainsInTheLog {
 protected:
  ChainsInASmallLog() : ChainsInTheLog(limits::kLogBytesMin) {}
};

TEST_F(ChainsInTheLog, prepares_are_durable_without_a_commit_and_take_the_commit_before_along) {
  const uint64_t before = commits();
  update(kAt, 1, 0, 10'000, 'a');
  update(kAt, 2, 5'000, 100, 'b');
  ASSERT_TRUE(chains.prepare(kAt, name_of(3), {clear_part(8'000, kWholeChunk)}, "").ok());
  store().commit(kAt);
  update(kAt, 4, 20'000, 10, 'c');
  ASSERT_TRUE(write(kAt, 5, 0, 10, 'd').ok());
  EXPECT_EQ(logged(), 5u);
  EXPECT_EQ(commits(), before);
  chains.restart(true);
  EXPECT_EQ(replayed(), 5u);
  EXPECT_EQ(chains.look(kAt).committed, name_of(4));
  EXPECT_EQ(chains.look(kAt).length, 20'010u);
  EXPECT_EQ(pending(kAt), name_of(5));
  std::string expected = std::string(5'000, 'a') + std::string(100, 'b') + std::string(2'900, 'a');
  expected.resize(20'000, '\0');
  expected.append(10, 'c');
  EXPECT_EQ(chains.read(kAt, 0, 20'010), expected);
  EXPECT_EQ(store().slot(kAt.chain, NodeId(9), 1)->request, request_of(4, 1));
  store().commit(kAt);
  expected.replace(0, 10, 10, 'd');
  EXPECT_EQ(chains.read(kAt, 0, 20'010), expected);
}

TEST_F(ChainsInTheLog, a_commit_without_a_later_prepare_may_be_pending_again) {
  slow_commits();
  update(kAt, 1, 0, 100, 'a');
  update({kAt.chain, {InodeId(6), 0}}, 1, 0, 100, 'b');
  chains.restart(true);
  EXPECT_EQ(pending(kAt), name_of(1));
  EXPECT_EQ(chains.look(kAt).committed, UpdateName{});
  store().commit(kAt);
  EXPECT_EQ(chains.read(kAt, 0, 100), std::string(100, 'a'));
}

TEST_F(ChainsInTheLog, what_was_forgotten_stays_so_once_the_next_prepare_has_ended) {
  slow_commits();
  update(kAt, 1, 0, 100, 'a');
  ASSERT_TRUE(write(kAt, 2, 0, 100, 'b').ok());
  store().forget(kAt);
  ASSERT_TRUE(write(kAt, 3, 50, 100, 'c').ok());
  EXPECT_EQ(logged(), 3u);
  chains.restart(false);
  EXPECT_EQ(pending(kAt), name_of(3));
  EXPECT_EQ(chains.look(kAt).committed, name_of(1));
  store().commit(kAt);
  EXPECT_EQ(chains.read(kAt, 0, 150), std::string(50, 'a') + std::string(100, 'c'));
  EXPECT_EQ(rig().core().mapped_blocks, 2u) << "the other one is the rig's own";
}

TEST_F(ChainsInTheLog, removals_and_tombstones_come_back) {
  slow_commits();
  update(kAt, 1, 0, 300'000, 'a');
  ASSERT_TRUE(rig().sync().ok());
  ASSERT_TRUE(chains.prepare(kAt, name_of(2), {remove_part(request_of(2, 1))}, "").ok());
  store().commit(kAt);
  ASSERT_TRUE(write(kAt, 3, 0, 5, 'b').ok());
  EXPECT_EQ(logged(), 2u);
  chains.restart(true);
  EXPECT_TRUE(chains.look(kAt).removed);
  EXPECT_EQ(chains.read(kAt, 0, 300'000), std::string(300'000, '\0'));
  store().commit(kAt);
  EXPECT_EQ(chains.look(kAt).length, 5u);
  EXPECT_EQ(chains.read(kAt, 0, 7), std::string(5, 'b') + std::string(2, '\0'));
}

TEST_F(ChainsInTheLog, takes_what_a_head_joins_and_nothing_larger) {
  constexpr size_t kMost = limits::kLogChainBlocks * kBlockBytes;
  slow_commits();
  update(kAt, 1, 0, kMost, 'a');
  EXPECT_EQ(logged(), 1u);
  std::vector<UpdatePart> parts;
  for (uint32_t i = 0; i < 64; ++i) {
    parts.push_back(write_part(i * 4096, (i + 1) * 4096, request_of(9, i)));
  }
  ASSERT_TRUE(chains.prepare(kAt, name_of(2), parts, std::string(kMost, 'b')).ok());
  store().commit(kAt);
  EXPECT_EQ(logged(), 2u);
  ASSERT_TRUE(write(kAt, 3, 0, 1, 'c').ok());
  chains.restart(true);
  EXPECT_EQ(chains.read(kAt, 0, kMost), std::string(kMost, 'b'));
  for (uint32_t i = 0; i < 64; ++i) {
    ASSERT_EQ(store().slot(kAt.chain, NodeId(9), i)->request, request_of(9, i));
  }
  const uint64_t before = logged();
  store().commit(kAt);
  ASSERT_TRUE(write(kAt, 4, 0, kMost + 1, 'd').ok());
  EXPECT_EQ(logged(), before);
}

TEST_F(ChainsInTheLog, a_small_prepare_follows_a_large_one_that_was_answered) {
  update(kAt, 1, 0, 500'000, 'a');
  EXPECT_EQ(logged(), 0u);
  slow_commits();
  ASSERT_TRUE(write(kAt, 2, 10, 10, 'b').ok());
  EXPECT_EQ(logged(), 1u);
  chains.restart(true);
  EXPECT_EQ(chains.look(kAt).committed, name_of(1));
  EXPECT_EQ(chains.read(kAt, 0, 500'000), std::string(500'000, 'a'));
  EXPECT_EQ(pending(kAt), name_of(2));
}

// It is on its way, and its commit is asked for already.
TEST_F(ChainsInTheLog, a_small_prepare_behind_a_large_one_that_is_not_committed_waits_with_it) {
  slow_commits();
  std::string bytes(500'000, 'a');
  const std::vector<UpdatePart> parts = {write_part(0, 500'000)};
  PrepareOp large;
  bool done = false;
  large.at = kAt;
  large.name = name_of(1);
  large.parts = parts;
  large.bytes = memory_of(bytes);
  large.owner = &done;
  large.completion = [](engine::Op& op) { op.owner_as<bool>() = true; };
  store().submit(large);
  store().commit(kAt);
  EXPECT_TRUE(write(kAt, 2, 0, 10, 'b').ok());
  EXPECT_TRUE(rig().world.run_until([&] { return done; }));
  EXPECT_EQ(logged(), 0u);
  chains.restart(true);
  EXPECT_EQ(chains.look(kAt).committed, name_of(1));
  EXPECT_EQ(pending(kAt), name_of(2));
}

TEST_F(ChainsInTheLog, a_replaced_chunk_goes_on_with_its_new_name) {
  update(kAt, 5, 0, 100, 'a');
  ASSERT_TRUE(chains.replace(kAt, {name_of(2), false, 50}, std::string(50, 'r')).ok());
  slow_commits();
  update(kAt, 3, 0, 10, 'b');
  ASSERT_TRUE(write(kAt, 4, 20, 10, 'c').ok());
  EXPECT_EQ(logged(), 3u);
  chains.restart(true);
  EXPECT_EQ(chains.look(kAt).committed, name_of(3));
  EXPECT_EQ(chains.read(kAt, 0, 50), std::string(10, 'b') + std::string(40, 'r'));
  EXPECT_EQ(pending(kAt), name_of(4));
}

// It has happened, and is not committed.
TEST_F(ChainsInTheLog, a_small_prepare_behind_a_replacement_that_is_not_committed_waits_with_it) {
  update(kAt, 5, 0, 100, 'a');
  slow_commits();
  std::string bytes(50, 'r');
  ReplaceOp replacement;
  bool done = false;
  replacement.at = kAt;
  replacement.state = {name_of(7), false, 50};
  replacement.bytes = memory_of(bytes);
  replacement.owner = &done;
  replacement.completion = [](engine::Op& op) { op.owner_as<bool>() = true; };
  store().submit(replacement);
  EXPECT_TRUE(write(kAt, 8, 0, 10, 'b').ok());
  EXPECT_TRUE(rig().world.run_until([&] { return done; }));
  EXPECT_EQ(logged(), 1u);
  chains.restart(true);
  EXPECT_EQ(chains.look(kAt).committed, name_of(7));
  EXPECT_EQ(pending(kAt), name_of(8));
}

TEST_F(ChainsInTheLog, a_name_that_does_not_count_on_is_left_to_the_commit) {
  update(kAt, 5, 0, 100, 'a');
  EXPECT_EQ(logged(), 1u);
  update(kAt, 4, 0, 10, 'b');
  EXPECT_EQ(logged(), 1u);
  ASSERT_TRUE(write(kAt, 6, 0, 10, 'c').ok());
  EXPECT_EQ(logged(), 1u) << "what it follows is in no entry, and would be passed over";
  chains.restart(true);
  EXPECT_EQ(pending(kAt), name_of(6));
  EXPECT_EQ(chains.read(kAt, 0, 20), std::string(10, 'b') + std::string(10, 'a'));
}

// Entries of the life before would be taken for what follows, and the other way round.
TEST_F(ChainsInTheLog, a_chunk_whose_name_was_dropped_goes_on_beside_the_log) {
  update(kAt, 1, 0, 100, 'a');
  ASSERT_TRUE(chains.prepare(kAt, name_of(2), {remove_part(request_of(2, 1))}, "").ok());
  store().commit(kAt);
  EXPECT_EQ(logged(), 2u);
  slow_commits();
  ASSERT_TRUE(chains.prepare(kAt, name_of(3), {drop_part(request_of(2, 1))}, "").ok());
  store().commit(kAt);
  update(kAt, 1, 0, 10, 'b');
  EXPECT_EQ(logged(), 2u) << "neither the drop nor what follows it";
  chains.restart(true);
  EXPECT_EQ(pending(kAt), name_of(1));
  EXPECT_EQ(chains.look(kAt).committed, UpdateName{});
  store().commit(kAt);
  EXPECT_EQ(chains.read(kAt, 0, 20), std::string(10, 'b') + std::string(10, '\0'));
  ASSERT_TRUE(rig().sync().ok());
  ASSERT_TRUE(write(kAt, 2, 0, 10, 'c').ok());
  EXPECT_EQ(logged(), 1u) << "of this life: names count on again";
}

class ChunksWithoutName : public ChainsInTheLog {
 protected:
  Status write_plainly(uint32_t offset, size_t length, char what, bool durable = true) {
    std::string bytes(length, what);
    WriteOp op;
    op.chain = kAt.chain;
    op.chunk = kAt.chunk;
    op.offset = offset;
    op.source = memory_of(bytes);
    op.durable = durable;
    return rig().run(op);
  }
};

TEST_F(ChunksWithoutName, their_first_update_follows_what_the_log_has) {
  slow_commits();
  ASSERT_TRUE(write_plainly(300'000, 5'000, 'w').ok());
  EXPECT_EQ(logged(), 1u);
  // The look waits for the commit of the maps.
  ASSERT_EQ(chains.look(kAt).length, 305'000u);
  ASSERT_TRUE(write_plainly(310'000, 10, 'x').ok());
  update(kAt, 2, 0, 10, 'a');
  ASSERT_TRUE(write(kAt, 3, 20, 10, 'b').ok());
  EXPECT_EQ(logged(), 4u);
  chains.restart(true);
  EXPECT_EQ(chains.look(kAt).committed, name_of(2));
  EXPECT_EQ(chains.look(kAt).length, 310'010u);
  EXPECT_EQ(chains.read(kAt, 0, 15), std::string(10, 'a') + std::string(5, '\0'));
  EXPECT_EQ(chains.read(kAt, 304'999, 2), std::string("w\0", 2));
  EXPECT_EQ(chains.read(kAt, 310'000, 11), std::string(10, 'x') + std::string(1, '\0'));
}

TEST_F(ChunksWithoutName, an_update_does_not_wait_for_other_chunks_of_its_inode) {
  const ChainChunk other{kAt.chain, {kAt.chunk.inode, kAt.chunk.index + 1}};
  update(other, 1, 0, 5, 'a');
  EXPECT_EQ(logged(), 1u);
  ASSERT_TRUE(write_plainly(0, 5'000, 'w', false).ok());
  update(other, 2, 0, 5, 'b');
  EXPECT_EQ(logged(), 2u);
}

TEST_F(ChunksWithoutName, a_plain_write_waits_for_what_was_forgotten) {
  slow_commits();
  ASSERT_TRUE(write(kAt, 2, 0, 10, 'a').ok());
  store().forget(kAt);
  ASSERT_TRUE(write_plainly(4'000, 10, 'w').ok());
  EXPECT_EQ(logged(), 1u);
  chains.restart(true);
  EXPECT_EQ(pending(kAt), UpdateName{});
  EXPECT_EQ(chains.read(kAt, 4'000, 10), std::string(10, 'w'));
}

// In a target of format 3, whose maps are converted when it is opened: the second prepare's base is
// committed, with its maps, and the second is pending.
TEST_F(ChainsInTheLog, bring_prepares_back_to_maps_of_an_old_format) {
  update(kAt, 1, 0, 2 * kMiB, 'a');
  slow_commits();
  update(kAt, 2, kMiB - 8'192, 16'384, 'b');
  ASSERT_TRUE(write(kAt, 3, 5'000, 100, 'c').ok());
  EXPECT_GE(logged(), 2u);
  const Identity identity = rig().core().identity;
  rig().kill();
  rig().records.faults = {};
  write_as_old(rig(), identity, 3, 0);
  ASSERT_TRUE(rig().begin()) << rig().refusal.message;
  EXPECT_GE(replayed(), 1u);
  EXPECT_EQ(pending(kAt), name_of(3));
  EXPECT_EQ(chains.look(kAt).committed, name_of(2));
  std::string expected(2 * kMiB, 'a');
  expected.replace(kMiB - 8'192, 16'384, 16'384, 'b');
  EXPECT_EQ(chains.read(kAt, 0, 2 * kMiB), expected);
}

// Its data write fails, and its record is whole.
TEST_F(ChainsInTheLog, a_prepare_whose_data_write_fails_ends_when_no_crash_brings_it_back) {
  update(kAt, 1, 0, 8'192, 'a');
  slow_commits();
  std::string bytes(8'192, 'b');
  const std::vector<UpdatePart> parts = {write_part(0, 8'192)};
  const auto fail = [&](PrepareOp& op, bool& done) {
    op.at = kAt;
    op.name = name_of(2);
    op.parts = parts;
    op.bytes = memory_of(bytes);
    op.owner = &done;
    op.completion = [](engine::Op& ended) { ended.owner_as<bool>() = true; };
    const uint64_t before = logged();
    store().submit(op);
    ASSERT_EQ(logged(), before + 1) << "it has joined";
    rig().platter.faults.latency_min = rig().platter.faults.latency_max =
        std::chrono::milliseconds(5);
    rig().platter.faults.write_error_permille = 1000;
    rig().world.run_for(std::chrono::milliseconds(1));
    rig().platter.faults = {};
    rig().world.run_for(std::chrono::milliseconds(10));
    EXPECT_FALSE(done) << "a crash would bring it back";
    const Core& core = rig().core();
    EXPECT_EQ(core.allocator.total_blocks() - core.allocator.free_blocks(), core.mapped_blocks + 2)
        << "and write to its blocks";
  };
  PrepareOp first;
  bool ended = false;
  fail(first, ended);
  EXPECT_EQ(pending(kAt), UpdateName{});
  EXPECT_EQ(chains.read(kAt, 0, 10), std::string(10, 'a'));
  ASSERT_TRUE(rig().world.run_until([&] { return ended; }, std::chrono::seconds(20)));
  EXPECT_EQ(first.status.code(), Code::io_error);
  rig().records.faults = {};
  ASSERT_TRUE(rig().sync().ok());
  EXPECT_EQ(rig().core().allocator.total_blocks() - rig().core().allocator.free_blocks(),
            rig().core().mapped_blocks);
  chains.restart(true);
  EXPECT_EQ(pending(kAt), UpdateName{});
  PrepareOp second;
  ASSERT_EQ(chains.look(kAt).committed, name_of(1));
  EXPECT_EQ(chains.read(kAt, 0, 10), std::string(10, 'a')) << "its map is at hand from now on";
  slow_commits();
  bool never = false;
  fail(second, never);
  chains.restart(true);
  EXPECT_EQ(pending(kAt), name_of(2)) << "nobody was told anything";
  EXPECT_EQ(chains.read_pending(kAt, 8'192), bytes);
  EXPECT_EQ(chains.read(kAt, 0, 8'192), std::string(8'192, 'a'));
}

TEST_F(ChainsInASmallLog, goes_round_its_file_many_times) {
  for (uint64_t i = 1; i <= 300; ++i) {
    update(kAt, i, static_cast<uint32_t>(i % 7) * 4096, 4096, static_cast<char>('a' + i % 26));
  }
  EXPECT_GT(logged(), 100u);
  chains.restart(true);
  for (uint64_t i = 294; i <= 299; ++i) {
    EXPECT_EQ(chains.read(kAt, static_cast<uint32_t>(i % 7) * 4096, 4096),
              std::string(4096, static_cast<char>('a' + i % 26)));
  }
}

TEST_F(ChainsInTheLog, refuses_an_entry_that_follows_nothing_that_is_there) {
  slow_commits();
  update(kAt, 1, 0, 10, 'a');
  ASSERT_TRUE(write(kAt, 2, 0, 10, 'b').ok());
  rig().crash(true);
  const std::string key = encode_chunk_key(kChunkKeyType, kAt);
  const auto put = [&](const std::string& value) {
    sim::SimKv kv(rig().records);
    ASSERT_TRUE(kv.run(engine::KvMode::write_durable, [&](engine::KvTransaction& t) -> Status {
                    if (value.empty()) {
                      t.erase(key);
                    } else {
                      t.put(key, value);
                    }
                    return Code::ok;
                  }).ok());
  };
  UpdateName other = name_of(1);
  ++other.request.slot;
  put(encode_chunk_record(key, {other, false, 10}));
  EXPECT_FALSE(rig().begin());
  EXPECT_EQ(rig().refusal.status.code(), Code::corrupt);
  put("");
  ASSERT_TRUE(rig().begin()) << rig().refusal.message;
  EXPECT_EQ(pending(kAt), name_of(2));
}

// Whole openings are interrupted at any moment; what they bring back takes several transactions.
TEST(ReplayOfChains, goes_on_after_an_interruption_between_its_transactions) {
  constexpr uint32_t kChunks = 300;
  log::set_level(log::Level::off);
  bool took_several = false;
  for (int attempt = 0; attempt < 12; ++attempt) {
    TargetChainRig chains(with_log(32 * kMiB));
    Rig& rig = chains.rig();
    // All of it is done before a group is committed by itself.
    rig.platter.faults.latency_min = rig.platter.faults.latency_max = std::chrono::microseconds(10);
    const auto at = [](uint32_t i) { return ChainChunk{kAt.chain, {InodeId(10 + i), 0}}; };
    for (uint64_t counter = 1; counter <= 3; ++counter) {
      for (uint32_t i = 0; i < kChunks; ++i) {
        std::vector<UpdatePart> parts = {write_part(0, 3'000, request_of(counter, i % 8, i))};
        if (counter == 2) parts = {clear_part(1'000, kWholeChunk), write_part(2'000, 2'500)};
        const std::string bytes(update_bytes(parts), static_cast<char>('a' + counter));
        ASSERT_TRUE(chains.prepare(at(i), name_of(counter), parts, bytes).ok());
        if (counter < 3) chains.store().commit(at(i));
      }
    }
    ASSERT_EQ(rig.core().counters.logged.value(), 3u * kChunks);
    rig.crash(false);
    rig.records.faults = {};
    rig.platter.faults = {};
    const auto has_record = [&] {
      return rig.records.content().contains(encode_chunk_key(kChunkKeyType, at(0)));
    };
    ASSERT_FALSE(has_record()) << "all is in the log";
    const auto wait = std::chrono::milliseconds(150 + 40 * attempt);
    const bool opened = rig.begin_or_crash(wait, false);
    took_several |= !opened && has_record();
    ASSERT_TRUE(opened || rig.begin()) << rig.refusal.message;
    for (uint32_t i = 0; i < kChunks; ++i) {
      ASSERT_EQ(chains.look(at(i)).committed, name_of(2));
      ASSERT_EQ(chains.look(at(i)).length, 2'500u);
      ASSERT_EQ(chains.read(at(i), 0, 2'500),
                std::string(1'000, 'b') + std::string(1'000, '\0') + std::string(500, 'c'));
      chains.store().commit(at(i));
      ASSERT_EQ(chains.read(at(i), 0, 3'000), std::string(3'000, 'd'));
    }
  }
  EXPECT_TRUE(took_several) << "no opening was interrupted between its transactions";
  log::set_level(log::Level::warning);
}

}  // namespace
}  // namespace penstock::store
