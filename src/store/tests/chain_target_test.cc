// Chains of a target: what only it can show.
#include "chain_rig.h"

namespace penstock::store {
namespace {

uint64_t unused(Rig& rig) {
  return rig.core().allocator.total_blocks() - rig.core().allocator.free_blocks() -
         rig.core().mapped_blocks;
}

TEST(ChainsOfTarget, keep_no_block_that_nothing_names) {
  TargetChainRig chains;
  Rig& rig = chains.rig();
  const auto rest = [&] {
    ASSERT_TRUE(rig.sync().ok());
    EXPECT_EQ(unused(rig), 0u);
  };
  for (uint64_t i = 1; i <= 20; ++i) {
    const std::string bytes(30'000, 'x');
    ASSERT_TRUE(chains.prepare(kAt, name_of(i), {write_part(1, 30'001)}, bytes).ok());
    if (i % 3 == 0) {
      chains.store().forget(kAt);
    } else {
      chains.store().commit(kAt);
    }
  }
  rest();
  EXPECT_EQ(rig.core().mapped_blocks, 8u);
  ASSERT_TRUE(chains.prepare(kAt, name_of(21), {write_part(0, 4096)}, std::string(4096, 'p')).ok());
  EXPECT_EQ(rig.core().mapped_blocks, 9u);
  chains.restart(true);
  EXPECT_EQ(rig.core().mapped_blocks, 9u) << "what is pending counts";
  ASSERT_TRUE(chains.replace(kAt, {name_of(30), false, 5000}, std::string(5000, 'r')).ok());
  rest();
  EXPECT_EQ(rig.core().mapped_blocks, 2u);
  ASSERT_TRUE(chains.replace(kAt, {}, "").ok());
  rest();
  EXPECT_EQ(rig.core().mapped_blocks, 0u);
  const auto records = rig.records.content();
  EXPECT_EQ(records.count(encode_chunk_key(kChunkKeyType, kAt)), 0u);
  EXPECT_EQ(records.count(encode_chunk_key(kPendingKeyType, kAt)), 0u);
}

TEST(ChainsOfTarget, a_scrub_waits_for_those_who_heal) {
  TargetChainRig chains;
  Rig& rig = chains.rig();
  const std::string bytes(100 * limits::kBlockBytes, 'a');
  ASSERT_TRUE(
      chains.prepare(kAt, name_of(1), {write_part(0, 100 * limits::kBlockBytes)}, bytes).ok());
  chains.store().commit(kAt);
  ASSERT_TRUE(rig.sync().ok());
  for (const uint32_t block : {3, 70}) chains.damage(kAt, block);
  ScrubOp scrub;
  std::map<uint32_t, bool> seen;
  scrub.on_damage = [&](const Damage& damage) { seen[damage.block] = damage.healed; };
  ASSERT_TRUE(rig.run(scrub).ok());
  EXPECT_EQ(seen, (std::map<uint32_t, bool>{{3, false}, {70, false}})) << "nobody heals";
  // One that heals one of the two, some time later.
  chains.store().set_healer(
      [&](const ChainChunk& at, uint32_t block, std::function<void(bool)> ended) {
        EXPECT_EQ(at, kAt);
        rig.world.after(std::chrono::seconds(1), "heal", [&chains, block, ended] {
          if (block == 70) return ended(false);
          HealOp* const op = new HealOp;
          auto* const content = new std::string(limits::kBlockBytes, 'a');
          static constexpr uint32_t kBlocks[] = {3};
          op->at = kAt;
          op->committed = name_of(1);
          op->blocks = kBlocks;
          op->bytes = memory_of(*content);
          op->owner = new std::function<void(bool)>([content, ended](bool healed) {
            delete content;
            ended(healed);
          });
          op->completion = [](engine::Op& done) {
            const std::unique_ptr<std::function<void(bool)>> then(
                &done.owner_as<std::function<void(bool)>>());
            const bool healed = done.status.ok();
            delete static_cast<HealOp*>(&done);
            (*then)(healed);
          };
          chains.store().submit(*op);
        });
      });
  seen.clear();
  ASSERT_TRUE(rig.run(scrub).ok());
  EXPECT_EQ(seen, (std::map<uint32_t, bool>{{3, true}, {70, false}}));
  EXPECT_EQ(scrub.damaged_blocks, 2U);
  EXPECT_EQ(scrub.healed_blocks, 1U);
  chains.store().set_healer({});
}

TEST(ChainsOfTarget, take_up_a_chunk_that_has_no_name) {
  TargetChainRig chains;
  Rig& rig = chains.rig();
  auto bytes = test::content(300'000, 4);
  WriteOp op;
  op.chain = kAt.chain;
  op.chunk = kAt.chunk;
  op.source = {bytes.data(), bytes.size(), engine::kNoBuffer, engine::MemoryKind::host};
  ASSERT_TRUE(rig.run(op).ok());
  EXPECT_EQ(chains.look(kAt).committed, kUnnamed);
  EXPECT_EQ(chains.look(kAt).length, 300'000u);
  op.offset = 400'000;
  op.durable = false;
  ASSERT_TRUE(rig.run(op).ok());
  EXPECT_EQ(chains.look(kAt).length, 700'000u) << "the one before is not remembered";
  ClearOp clear;
  clear.chain = kAt.chain;
  clear.chunk = kAt.chunk;
  clear.begin = 300'000;
  ASSERT_TRUE(rig.run(clear).ok());
  EXPECT_EQ(chains.look(kAt).length, 300'000u);
  const ChainChunk other{kAt.chain, {InodeId(5), 7}};
  op.chunk = other.chunk;
  ASSERT_TRUE(rig.run(op).ok());
  ASSERT_TRUE(
      chains.prepare({kAt.chain, {InodeId(5), 4}}, name_of(1), {write_part(0, 1)}, "x").ok());
  chains.store().commit({kAt.chain, {InodeId(5), 4}});
  for (const bool again : {false, true}) {
    if (again) chains.restart(false);
    const std::vector<ListEntry> all = chains.list({kAt.chain, {}}, 10);
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[0].chunk, kAt.chunk);
    EXPECT_EQ(all[0].state.committed, kUnnamed);
    EXPECT_EQ(all[1].state.committed, name_of(1));
    EXPECT_EQ(all[2].chunk, other.chunk);
    ASSERT_EQ(chains.list({kAt.chain, {InodeId(5), 3}}, 2).size(), 2u);
    ASSERT_EQ(chains.list({kAt.chain, {InodeId(5), 3}}, 1).size(), 1u);
  }
  ASSERT_TRUE(chains.prepare(kAt, name_of(1), {write_part(10, 12)}, "zz").ok());
  chains.store().commit(kAt);
  EXPECT_EQ(chains.look(kAt).length, 300'000u);
  std::string expected(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  expected.replace(10, 2, "zz");
  EXPECT_EQ(chains.read(kAt, 0, 300'000), expected);
}

TEST(ChainsOfTarget, are_apart_from_one_another) {
  TargetChainRig chains;
  for (uint32_t chain = 1; chain <= 3; ++chain) {
    const ChainChunk at{ChainId(chain), kAt.chunk};
    const std::string bytes(100, static_cast<char>('a' + chain));
    ASSERT_TRUE(chains.prepare(at, name_of(1), {write_part(0, 100)}, bytes).ok());
    chains.store().commit(at);
  }
  RemoveOp op;
  op.chain = ChainId(2);
  op.inode = kAt.chunk.inode;
  ASSERT_TRUE(chains.rig().run(op).ok());
  EXPECT_EQ(op.removed_bytes, 4096u);
  EXPECT_EQ(chains.read({ChainId(1), kAt.chunk}, 0, 100), std::string(100, 'b'));
  EXPECT_EQ(chains.read({ChainId(2), kAt.chunk}, 0, 100), std::string(100, '\0'));
  EXPECT_EQ(chains.read({ChainId(3), kAt.chunk}, 0, 100), std::string(100, 'd'));
}

TEST(ChainsOfTarget, refuse_what_no_target_can_do) {
  TargetChainRig chains;
  const auto code = [&](std::vector<UpdatePart> parts, const std::string& bytes) {
    return chains.prepare(kAt, name_of(1), std::move(parts), bytes).code();
  };
  EXPECT_EQ(code({}, ""), Code::invalid_argument);
  EXPECT_EQ(code({write_part(5, 5)}, ""), Code::invalid_argument);
  EXPECT_EQ(code({write_part(0, 5)}, "1234"), Code::invalid_argument);
  EXPECT_EQ(code({write_part(64 * kMiB - 1, 64 * kMiB + 1)}, "12"), Code::invalid_argument);
  EXPECT_EQ(code({clear_part(5, 4)}, ""), Code::invalid_argument);
  EXPECT_TRUE(chains.store().pending(kAt.chain).empty());
}

TEST(ChainsOfTarget, say_that_a_committed_block_is_damaged) {
  TargetChainRig chains;
  Rig& rig = chains.rig();
  log::set_level(log::Level::off);
  ASSERT_TRUE(chains.prepare(kAt, name_of(1), {write_part(0, 4096)}, std::string(4096, 'a')).ok());
  chains.store().commit(kAt);
  ASSERT_TRUE(rig.sync().ok());
  const CachedMap* const map = rig.core().index.find({kAt.chain, kAt.chunk, 0});
  ASSERT_NE(map, nullptr);
  rig.platter.flip_bit("/target/data-0000", map->blocks[0].physical * uint64_t{4096} + 7, 1);
  std::string bytes(4096, '?');
  CopyReadOp read;
  read.at = kAt;
  read.destination = memory_of(bytes);
  EXPECT_EQ(chains.run(read).code(), Code::corrupt);
  EXPECT_EQ(chains.prepare(kAt, name_of(2), {write_part(0, 5)}, "12345").code(), Code::corrupt);
  EXPECT_TRUE(chains.store().pending(kAt.chain).empty());
  EXPECT_TRUE(chains.prepare(kAt, name_of(2), {write_part(0, 4096)}, std::string(4096, 'b')).ok());
  log::set_level(log::Level::warning);
}

TEST(ChainsOfTarget, forget_a_prepare_that_found_no_room) {
  TargetChainRig chains;
  Rig& rig = chains.rig();
  log::set_level(log::Level::off);
  ASSERT_TRUE(chains.prepare(kAt, name_of(1), {write_part(0, 10)}, "0123456789").ok());
  chains.store().commit(kAt);
  ASSERT_TRUE(rig.sync().ok());
  rig.kv_full = true;
  EXPECT_EQ(chains.prepare(kAt, name_of(2), {write_part(0, 3)}, "abc").code(), Code::no_space);
  EXPECT_TRUE(chains.store().pending(kAt.chain).empty());
  rig.kv_full = false;
  ASSERT_TRUE(rig.world.run_until([&] { return !rig.target().status().full; }));
  ASSERT_TRUE(chains.prepare(kAt, name_of(2), {write_part(0, 3)}, "xyz").ok());
  chains.store().commit(kAt);
  EXPECT_EQ(chains.read(kAt, 0, 10), "xyz3456789");
  ASSERT_TRUE(rig.sync().ok());
  EXPECT_EQ(unused(rig), 0u);
  log::set_level(log::Level::warning);
}

TEST(ChainsOfTarget, refuse_everything_once_the_target_has_failed) {
  TargetChainRig chains;
  Rig& rig = chains.rig();
  log::set_level(log::Level::off);
  ASSERT_TRUE(chains.prepare(kAt, name_of(1), {write_part(0, 1)}, "a").ok());
  chains.store().commit(kAt);
  rig.platter.faults.sync_error_permille = 1000;
  EXPECT_EQ(chains.prepare({kAt.chain, {}}, name_of(1), {write_part(0, 1)}, "b").code(),
            Code::io_error);
  LookOp look;
  look.at = kAt;
  EXPECT_EQ(chains.run(look).code(), Code::read_only);
  std::string byte(1, '?');
  CopyReadOp read;
  read.at = kAt;
  read.destination = memory_of(byte);
  EXPECT_EQ(chains.run(read).code(), Code::read_only);
  ListOp list;
  list.limit = 5;
  EXPECT_EQ(chains.run(list).code(), Code::read_only);
  rig.platter.faults.sync_error_permille = 0;
  chains.restart(false);
  ASSERT_EQ(chains.store().pending(kAt.chain).size(), 1u) << "its commit was not durable";
  EXPECT_EQ(chains.look(kAt).committed, UpdateName{});
  log::set_level(log::Level::warning);
}

void refuses(char type, const std::string& change, Code code) {
  TargetChainRig chains;
  Rig& rig = chains.rig();
  ASSERT_TRUE(chains.prepare(kAt, name_of(1), {write_part(0, 1, request_of(1))}, "a").ok());
  chains.store().commit(kAt);
  ASSERT_TRUE(chains.prepare(kAt, name_of(2), {write_part(0, 1)}, "b").ok());
  ASSERT_TRUE(rig.close().ok());
  std::string key;
  for (const auto& [name, record] : rig.records.content()) {
    if (name[0] == type) key = name;
  }
  ASSERT_FALSE(key.empty());
  std::string record = rig.records.content().at(key);
  if (change == "key") {
    key.pop_back();
  } else {
    record[0] = static_cast<char>(record[0] ^ 1);
  }
  {
    sim::SimKv kv(rig.records);
    ASSERT_TRUE(kv.run(engine::KvMode::write_durable, [&](engine::KvTransaction& t) -> Status {
                    t.put(key, record);
                    return Code::ok;
                  }).ok());
  }
  EXPECT_FALSE(rig.begin());
  EXPECT_EQ(rig.refusal.status.code(), code);
}

TEST(ChainsOfTarget, refuse_damaged_records) {
  for (const char type : {'P', 'S'}) {
    refuses(type, "key", Code::corrupt);
    refuses(type, "record", Code::corrupt);
  }
  refuses('C', "record", Code::corrupt);
}

}  // namespace
}  // namespace penstock::store
