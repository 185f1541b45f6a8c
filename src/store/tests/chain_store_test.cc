// What holds of every ChainStore.
#include "chain_rig.h"

namespace penstock::store {
namespace {

enum class Kind { fake, target, target_with_log };

class AnyChainStore : public testing::TestWithParam<Kind> {
 protected:
  AnyChainStore() {
    if (GetParam() == Kind::fake) {
      rig_ = std::make_unique<FakeChainRig>();
    } else {
      RigOptions options;
      if (GetParam() == Kind::target_with_log) options.log_bytes = kMiB;
      rig_ = std::make_unique<TargetChainRig>(options);
    }
  }
  ChainRig& rig() { return *rig_; }
  ChainStore& store() { return rig_->store(); }
  void update(const ChainChunk& at, uint64_t counter, std::vector<UpdatePart> parts,
              const std::string& bytes) {
    ASSERT_TRUE(rig().prepare(at, name_of(counter), std::move(parts), bytes).ok());
    store().commit(at);
  }

 private:
  std::unique_ptr<ChainRig> rig_;
};

INSTANTIATE_TEST_SUITE_P(Of, AnyChainStore,
                         testing::Values(Kind::fake, Kind::target, Kind::target_with_log));

TEST_P(AnyChainStore, shows_an_update_when_it_is_committed) {
  const std::string bytes(10'000, 'a');
  ASSERT_TRUE(rig().prepare(kAt, name_of(1), {write_part(100, 10'100)}, bytes).ok());
  EXPECT_EQ(rig().look(kAt).committed, UpdateName{});
  EXPECT_EQ(rig().read(kAt, 0, 200), std::string(200, '\0'));
  EXPECT_EQ(rig().read_pending(kAt, bytes.size()), bytes);
  ASSERT_EQ(store().pending(kAt.chain).size(), 1u);
  EXPECT_EQ(store().pending(kAt.chain)[0].name, name_of(1));
  EXPECT_TRUE(store().pending(ChainId(4)).empty());
  store().commit(kAt);
  EXPECT_TRUE(store().pending(kAt.chain).empty());
  const ChunkState state = rig().look(kAt);
  EXPECT_EQ(state.committed, name_of(1));
  EXPECT_EQ(state.length, 10'100u);
  EXPECT_FALSE(state.removed);
  EXPECT_EQ(rig().read(kAt, 0, 10'200), std::string(100, '\0') + bytes + std::string(100, '\0'));
}

TEST_P(AnyChainStore, does_the_parts_of_an_update_one_after_the_other) {
  update(kAt, 1, {write_part(0, 20'000)}, std::string(20'000, 'a'));
  update(kAt, 2,
         {write_part(5'000, 9'000, request_of(1, 1)), clear_part(6'000, 12'500, request_of(1, 2)),
          write_part(11'000, 11'100, request_of(1, 3)),
          clear_part(15'000, kWholeChunk, request_of(1, 4)),
          write_part(16'000, 16'010, request_of(1, 5))},
         std::string(4'000, 'b') + std::string(100, 'c') + std::string(10, 'd'));
  std::string expected(20'000, 'a');
  expected.replace(5'000, 4'000, 4'000, 'b');
  expected.replace(6'000, 6'500, 6'500, '\0');
  expected.replace(11'000, 100, 100, 'c');
  expected.resize(15'000);
  expected.resize(16'000, '\0');
  expected.append(10, 'd');
  EXPECT_EQ(rig().look(kAt).length, 16'010u);
  EXPECT_EQ(rig().read(kAt, 0, 16'010), expected);
  EXPECT_EQ(rig().read(kAt, 16'010, 8'000), std::string(8'000, '\0'));
  for (uint32_t slot = 1; slot <= 5; ++slot) {
    const auto known = store().slot(kAt.chain, NodeId(9), slot);
    ASSERT_TRUE(known);
    EXPECT_EQ(known->name, name_of(2));
    EXPECT_EQ(known->at, kAt);
  }
}

TEST_P(AnyChainStore, what_was_forgotten_durably_does_not_come_back) {
  ASSERT_TRUE(rig().prepare(kAt, name_of(1), {write_part(0, 5'000)}, std::string(5'000, 'a')).ok());
  engine::Op durable;
  bool done = false;
  durable.owner = &done;
  durable.completion = [](engine::Op& ended) { ended.owner_as<bool>() = true; };
  store().forget(kAt, &durable);
  EXPECT_TRUE(store().pending(kAt.chain).empty());
  rig().world().run_until([&] { return done; });
  ASSERT_TRUE(done);
  EXPECT_TRUE(durable.status.ok());
  rig().restart(true);
  EXPECT_TRUE(store().pending(kAt.chain).empty());
}

TEST_P(AnyChainStore, forgets_what_is_pending) {
  update(kAt, 1, {write_part(0, 5'000)}, std::string(5'000, 'a'));
  ASSERT_TRUE(rig().prepare(kAt, name_of(2), {write_part(0, 9'000)}, std::string(9'000, 'b')).ok());
  store().forget(kAt);
  EXPECT_TRUE(store().pending(kAt.chain).empty());
  EXPECT_EQ(rig().read(kAt, 0, 5'000), std::string(5'000, 'a'));
  update(kAt, 2, {write_part(10, 20)}, std::string(10, 'c'));
  EXPECT_EQ(rig().read(kAt, 0, 30),
            std::string(10, 'a') + std::string(10, 'c') + std::string(10, 'a'));
  PendingReadOp op;
  op.at = kAt;
  EXPECT_EQ(rig().run(op).code(), Code::not_found);
}

TEST_P(AnyChainStore, keeps_tombstones) {
  update(kAt, 1, {write_part(0, 5'000)}, std::string(5'000, 'a'));
  update(kAt, 2, {remove_part(request_of(7, 3))}, "");
  EXPECT_TRUE(rig().look(kAt).removed);
  EXPECT_EQ(rig().look(kAt).committed, name_of(2));
  EXPECT_EQ(rig().look(kAt).length, 0u);
  EXPECT_EQ(rig().read(kAt, 0, 5'000), std::string(5'000, '\0'));
  ASSERT_EQ(rig().list({kAt.chain, {}}, 10).size(), 1u);
  ASSERT_TRUE(store().slot(kAt.chain, NodeId(9), 3));
  EXPECT_EQ(store().slot(kAt.chain, NodeId(9), 3)->name, name_of(2));
  update(kAt, 3, {write_part(100, 101)}, "x");
  EXPECT_FALSE(rig().look(kAt).removed);
  EXPECT_EQ(rig().look(kAt).length, 101u);
  EXPECT_EQ(rig().read(kAt, 99, 3), std::string("\0x\0", 3));
}

TEST_P(AnyChainStore, drops_the_name_of_a_removed_chunk) {
  update(kAt, 1, {write_part(0, 5'000)}, std::string(5'000, 'a'));
  update(kAt, 2, {remove_part(request_of(7, 3))}, "");
  ASSERT_TRUE(rig().prepare(kAt, name_of(3), {drop_part(request_of(7, 3))}, "").ok());
  EXPECT_EQ(rig().look(kAt).committed, name_of(2)) << "until it is committed";
  EXPECT_EQ(store().pending(kAt.chain)[0].name, name_of(3));
  store().commit(kAt);
  EXPECT_EQ(rig().look(kAt).committed, UpdateName{});
  EXPECT_FALSE(rig().look(kAt).removed);
  EXPECT_TRUE(rig().list({kAt.chain, {}}, 10).empty());
  EXPECT_EQ(store().slot(kAt.chain, NodeId(9), 3)->name, name_of(2)) << "slots go on as they are";
  update(kAt, 1, {write_part(0, 2)}, "xy");
  ASSERT_TRUE(rig().prepare(kAt, name_of(2), {write_part(1, 2)}, "z").ok());
  rig().restart(true);
  EXPECT_EQ(rig().look(kAt).committed, name_of(1)) << "as if there had never been any";
  EXPECT_EQ(rig().read(kAt, 0, 3), std::string("xy\0", 3));
}

TEST_P(AnyChainStore, has_a_name_that_was_about_to_go_after_a_crash) {
  update(kAt, 1, {write_part(0, 5'000)}, std::string(5'000, 'a'));
  update(kAt, 2, {remove_part(request_of(7, 3))}, "");
  ASSERT_TRUE(rig().prepare(kAt, name_of(3), {drop_part(request_of(7, 3))}, "").ok());
  rig().restart(true);
  EXPECT_EQ(rig().look(kAt).committed, name_of(2));
  ASSERT_EQ(store().pending(kAt.chain).size(), 1u);
  EXPECT_TRUE(drops(store().pending(kAt.chain)[0].parts));
  store().commit(kAt);
  EXPECT_EQ(rig().look(kAt).committed, UpdateName{});
}

TEST_P(AnyChainStore, takes_the_newest_request_of_a_slot) {
  const ChainChunk other{kAt.chain, {InodeId(5), 3}};
  update(kAt, 1, {write_part(0, 1, request_of(5, 1))}, "a");
  update(other, 1, {write_part(0, 1, request_of(4, 1))}, "a");
  EXPECT_EQ(store().slot(kAt.chain, NodeId(9), 1)->at, kAt);
  EXPECT_TRUE(store().slots_of(other).empty());
  update(other, 2, {write_part(0, 1, request_of(6, 1))}, "a");
  EXPECT_EQ(store().slot(kAt.chain, NodeId(9), 1)->at, other);
  EXPECT_TRUE(store().slots_of(kAt).empty());
  ASSERT_EQ(store().slots_of(other).size(), 1u);
  EXPECT_EQ(store().slots_of(other)[0].request, request_of(6, 1));
  EXPECT_FALSE(store().slot(ChainId(4), NodeId(9), 1));
  EXPECT_FALSE(store().slot(kAt.chain, NodeId(9), 2));
  EXPECT_FALSE(store().slot(kAt.chain, NodeId(8), 1));
}

TEST_P(AnyChainStore, lists_chunks_of_a_chain_in_order) {
  std::vector<ChunkId> chunks;
  for (uint32_t i = 0; i < 40; ++i) {
    const ChunkId chunk{InodeId(1 + i / 4), i % 4};
    chunks.push_back(chunk);
    update({kAt.chain, chunk}, 1 + i, {write_part(0, 1)}, "a");
  }
  update({ChainId(2), {}}, 1, {write_part(0, 1)}, "a");
  update({ChainId(4), {}}, 1, {write_part(0, 1)}, "a");
  std::vector<ChunkId> seen;
  ChainChunk from{kAt.chain, {}};
  for (;;) {
    const std::vector<ListEntry> some = rig().list(from, 7);
    for (const ListEntry& one : some) {
      EXPECT_EQ(one.state.committed, name_of(1 + seen.size()));
      seen.push_back(one.chunk);
    }
    if (some.size() < 7) break;
    from.chunk = some.back().chunk;
    ++from.chunk.index;
  }
  EXPECT_EQ(seen, chunks);
}

TEST_P(AnyChainStore, replaces_a_chunk_whole) {
  update(kAt, 1, {write_part(0, 300'000)}, std::string(300'000, 'a'));
  ASSERT_TRUE(rig().prepare(kAt, name_of(2), {write_part(0, 10)}, std::string(10, 'b')).ok());
  const SlotRecord slot{request_of(3, 7), kAt, name_of(9)};
  const std::string bytes(5'000, 'c');
  ASSERT_TRUE(rig().replace(kAt, {name_of(9), false, 5'000}, bytes, {slot}).ok());
  EXPECT_TRUE(store().pending(kAt.chain).empty());
  EXPECT_EQ(rig().look(kAt).committed, name_of(9));
  EXPECT_EQ(rig().read(kAt, 0, 300'000), bytes + std::string(295'000, '\0'));
  EXPECT_EQ(store().slot(kAt.chain, NodeId(9), 7)->name, name_of(9));
  ASSERT_TRUE(rig().replace(kAt, {name_of(10), true, 0}, "").ok());
  EXPECT_TRUE(rig().look(kAt).removed);
  EXPECT_EQ(rig().list({kAt.chain, {}}, 10).size(), 1u);
  ASSERT_TRUE(rig().replace(kAt, {}, "").ok());
  EXPECT_EQ(rig().look(kAt).committed, UpdateName{});
  EXPECT_TRUE(rig().list({kAt.chain, {}}, 10).empty());
  update(kAt, 1, {write_part(1, 2)}, "z");
  EXPECT_EQ(rig().look(kAt).length, 2u);
}

TEST_P(AnyChainStore, has_what_was_pending_after_a_crash) {
  const std::string bytes(9'000, 'p');
  for (const bool power : {false, true}) {
    const ChainChunk at{kAt.chain, {InodeId(20), power ? 1u : 0u}};
    update(at, 1, {write_part(0, 9'000)}, std::string(9'000, 'a'));
    ASSERT_TRUE(
        rig().prepare(at, name_of(2), {write_part(1'000, 10'000), clear_part(0, 500)}, bytes).ok());
    rig().restart(power);
    // The commit of the other chunk may be lost.
    PendingUpdate pending;
    for (const PendingUpdate& one : store().pending(kAt.chain)) {
      if (one.at == at) pending = one;
    }
    EXPECT_EQ(pending.name, name_of(2));
    ASSERT_EQ(pending.parts.size(), 2u);
    EXPECT_EQ(pending.parts[0].end, 10'000u);
    EXPECT_EQ(rig().read_pending(at, 9'000), bytes);
    EXPECT_EQ(rig().look(at).committed, name_of(1)) << "the prepare took the commit along";
    EXPECT_EQ(rig().read(at, 0, 9'000), std::string(9'000, 'a'));
    store().commit(at);
    EXPECT_EQ(rig().read(at, 0, 10'000), std::string(500, '\0') + std::string(500, 'a') + bytes);
  }
}

TEST_P(AnyChainStore, commits_and_slots_last_once_a_later_prepare_has_ended) {
  update(kAt, 1, {write_part(0, 100, request_of(3, 2))}, std::string(100, 'a'));
  update(kAt, 2, {write_part(200, 201)}, "b");
  rig().restart(true);
  const ChunkState state = rig().look(kAt);
  EXPECT_TRUE(state.committed == name_of(1) || state.committed == name_of(2));
  EXPECT_EQ(store().pending(kAt.chain).size(), state.committed == name_of(1) ? 1u : 0u);
  EXPECT_EQ(rig().read(kAt, 0, 100), std::string(100, 'a'));
  ASSERT_TRUE(store().slot(kAt.chain, NodeId(9), 2));
  EXPECT_EQ(store().slot(kAt.chain, NodeId(9), 2)->request, request_of(3, 2));
  ASSERT_EQ(store().slots_of(kAt).size(), 1u);
}

TEST_P(AnyChainStore, reads_what_was_committed_when_they_were_asked) {
  update(kAt, 1, {write_part(0, 8'192)}, std::string(8'192, 'a'));
  ASSERT_TRUE(rig().prepare(kAt, name_of(2), {write_part(0, 8'192)}, std::string(8'192, 'b')).ok());
  std::string before(8'192, '?'), after(8'192, '?');
  CopyReadOp first, second;
  first.at = second.at = kAt;
  first.destination = memory_of(before);
  second.destination = memory_of(after);
  int done = 0;
  first.owner = second.owner = &done;
  first.completion = second.completion = [](engine::Op& op) { ++op.owner_as<int>(); };
  store().submit(first);
  store().commit(kAt);
  store().submit(second);
  rig().world().run_until([&] { return done == 2; });
  EXPECT_EQ(before, std::string(8'192, 'a'));
  EXPECT_EQ(after, std::string(8'192, 'b'));
}

constexpr uint32_t kBlock = limits::kBlockBytes;

TEST_P(AnyChainStore, lists_damaged_blocks_and_reads_the_others) {
  update(kAt, 1, {write_part(0, 3 * kBlock)}, std::string(3 * kBlock, 'a'));
  rig().damage(kAt, 1);
  std::string bytes(3 * kBlock, '?');
  CopyReadOp plain;
  plain.at = kAt;
  plain.destination = memory_of(bytes);
  EXPECT_EQ(rig().run(plain), Code::corrupt);
  EXPECT_EQ(rig().damaged(kAt, 0, 3, &bytes), std::vector<uint32_t>{1});
  EXPECT_EQ(bytes, std::string(kBlock, 'a') + std::string(kBlock, '\0') + std::string(kBlock, 'a'));
  EXPECT_TRUE(rig().damaged(kAt, 2, 1).empty());
}

TEST_P(AnyChainStore, heals_blocks_of_the_update_that_is_committed) {
  std::string bytes(2 * kBlock + 100, 'a');
  update(kAt, 1, {write_part(0, 2 * kBlock + 100)}, bytes);
  rig().damage(kAt, 0);
  rig().damage(kAt, 2);
  std::string last(kBlock, '\0');
  last.replace(0, 100, 100, 'a');
  EXPECT_EQ(rig().heal(kAt, name_of(2), {0}, last), Code::stale);
  EXPECT_EQ(rig().damaged(kAt, 0, 3), (std::vector<uint32_t>{0, 2}));
  ASSERT_EQ(rig().heal(kAt, name_of(1), {0, 2}, std::string(kBlock, 'a') + last), Code::ok);
  for (const bool power : {false, true}) {
    EXPECT_EQ(rig().read(kAt, 0, 2 * kBlock + 100), bytes);
    EXPECT_EQ(rig().look(kAt).length, bytes.size());
    EXPECT_EQ(rig().look(kAt).committed, name_of(1));
    rig().restart(power);
  }
}

TEST_P(AnyChainStore, heals_beside_what_is_pending) {
  update(kAt, 1, {write_part(0, 2 * kBlock)}, std::string(2 * kBlock, 'a'));
  rig().damage(kAt, 1);
  ASSERT_TRUE(rig().prepare(kAt, name_of(2), {write_part(0, 10)}, std::string(10, 'b')).ok());
  ASSERT_EQ(rig().heal(kAt, name_of(1), {1}, std::string(kBlock, 'a')), Code::ok);
  rig().restart(true);
  ASSERT_EQ(store().pending(kAt.chain).size(), 1U);
  store().commit(kAt);
  EXPECT_EQ(rig().read(kAt, 0, 2 * kBlock),
            std::string(10, 'b') + std::string(2 * kBlock - 10, 'a'));
}

TEST_P(AnyChainStore, passes_over_blocks_that_are_not_there) {
  update(kAt, 1, {write_part(0, 10)}, std::string(10, 'a'));
  ASSERT_EQ(rig().heal(kAt, name_of(1), {3}, std::string(kBlock, 'x')), Code::ok);
  EXPECT_EQ(rig().read(kAt, 0, 5 * kBlock),
            std::string(10, 'a') + std::string(5 * kBlock - 10, '\0'));
}

TEST_P(AnyChainStore, a_block_of_which_a_part_is_lost_stays_damaged_until_it_is_written_whole) {
  update(kAt, 1, {write_part(0, 2 * kBlock)}, std::string(2 * kBlock, 'a'));
  rig().damage(kAt, 0);
  const std::vector<UpdatePart> part = {write_part(10, 20)};
  EXPECT_EQ(rig().prepare(kAt, name_of(2), part, std::string(10, 'b')), Code::corrupt);
  EXPECT_TRUE(store().pending(kAt.chain).empty());
  ASSERT_TRUE(rig().prepare(kAt, name_of(2), part, std::string(10, 'b'), true).ok());
  rig().restart(true);
  ASSERT_EQ(store().pending(kAt.chain).size(), 1U);
  store().commit(kAt);
  EXPECT_EQ(rig().damaged(kAt, 0, 2), std::vector<uint32_t>{0});
  update(kAt, 3, {write_part(0, kBlock)}, std::string(kBlock, 'c'));
  EXPECT_EQ(rig().read(kAt, 0, 2 * kBlock), std::string(kBlock, 'c') + std::string(kBlock, 'a'));
}

TEST_P(AnyChainStore, a_replacement_may_bring_blocks_that_are_lost) {
  const std::string bytes(3 * kBlock, 'a');
  ASSERT_TRUE(rig().replace(kAt, {name_of(4), false, 3 * kBlock}, bytes, {}, {1}).ok());
  rig().restart(true);
  EXPECT_EQ(rig().damaged(kAt, 0, 3), std::vector<uint32_t>{1});
  ASSERT_EQ(rig().heal(kAt, name_of(4), {1}, std::string(kBlock, 'a')), Code::ok);
  EXPECT_EQ(rig().read(kAt, 0, 3 * kBlock), bytes);
}

}  // namespace
}  // namespace penstock::store
