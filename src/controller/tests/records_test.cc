#include "sample_records.h"

#include <gtest/gtest.h>

#include "penstock/controller/codec.h"

namespace penstock::controller {
namespace {

// With the right checksum, whatever the bytes say.
std::string sealed(std::string bytes) {
  bytes.resize(bytes.size() - sizeof(uint32_t));
  const uint32_t checksum = checksum_of(bytes);
  bytes.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
  return bytes;
}

StateLoader loader_of(const State& state) {
  StateLoader loader;
  EXPECT_TRUE(loader.add(key_of(RecordKind::table, 1), encode(state.tables[0])).ok());
  EXPECT_TRUE(
      loader.add(key_of(RecordKind::chain, kFirstSharedChain.value), encode(state.chains[0])).ok());
  EXPECT_TRUE(loader.add(key_of(RecordKind::node, 1), encode(state.nodes[0])).ok());
  EXPECT_TRUE(loader.add(key_of(RecordKind::target, 1), encode(state.targets[0])).ok());
  return loader;
}

State sample_state() {
  State state;
  state.cluster.bytes = {1, 1};
  state.version = MapVersion(9);
  state.nodes = {sample_node()};
  state.targets = {sample_target()};
  state.tables = {sample_table()};
  state.chains = {sample_chain()};
  return state;
}

TEST(Records, each_is_read_as_it_was_written) {
  for (const std::string& bytes : sample_records()) EXPECT_EQ(decode_all(bytes), 1);
  const Node node = decode_node(NodeId(1), encode(sample_node())).value();
  EXPECT_EQ(node.facts, sample_node().facts);
  EXPECT_EQ(node.process, sample_node().process);
  EXPECT_EQ(node.standing, Standing::draining);
  const Chain chain = decode_chain(kFirstSharedChain, encode(sample_chain())).value();
  EXPECT_EQ(chain.members, sample_chain().members);
  EXPECT_EQ(chain.version, ChainVersion(12));
}

TEST(Records, bytes_are_what_the_format_says) {
  const std::string bytes = encode(LeaseRecord{0x0102, {{0xaa}}, 3});
  EXPECT_EQ(bytes.substr(0, 10), std::string("\x01\x02\x01\0\0\0\0\0\0\xaa", 10));
  EXPECT_EQ(bytes.size(), 1U + 8 + 16 + 8 + 4);
  EXPECT_EQ(key_of(RecordKind::chain, 0x01020304), std::string("MC\x01\x02\x03\x04"));
  EXPECT_EQ(key_of(RecordKind::root), "MR");
}

TEST(Records, damage_and_other_lengths_are_refused) {
  for (const std::string& bytes : sample_records()) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::string other = bytes;
      other[i] = static_cast<char>(other[i] ^ 0x10);
      EXPECT_EQ(decode_all(other), 0);
      EXPECT_EQ(decode_all(bytes.substr(0, i)), 0);
      EXPECT_EQ(decode_all(sealed(bytes.substr(0, i + 1) + "....")) > 1, false);
    }
    EXPECT_EQ(decode_all(sealed(bytes + "....")), 0);
  }
}

TEST(Records, what_no_record_can_say_is_refused_though_the_checksum_is_right) {
  const auto with = [](const auto& record, size_t at, char value) {
    std::string bytes = encode(record);
    bytes[at] = value;
    return sealed(bytes);
  };
  EXPECT_EQ(decode_chain(kFirstSharedChain, with(sample_chain(), 0, 2)).error(),
            Code::wrong_version);
  EXPECT_EQ(decode_chain(kFirstSharedChain, with(sample_chain(), 0, 0)).error(), Code::corrupt);
  EXPECT_EQ(decode_chain(kFirstSharedChain, with(sample_chain(), 5, 0)).error(), Code::corrupt);
  const size_t member = 1 + 4 + 8 + 8 + 1;
  EXPECT_EQ(decode_chain(kFirstSharedChain, with(sample_chain(), member - 1, 17)).error(),
            Code::corrupt);
  EXPECT_EQ(decode_chain(kFirstSharedChain, with(sample_chain(), member + 12, 4)).error(),
            Code::corrupt);
  EXPECT_EQ(decode_chain(kFirstSharedChain, with(sample_chain(), member + 13, 4)).error(),
            Code::corrupt);
  EXPECT_EQ(decode_table(TableId(1), with(sample_table(), 1, 7)).error(), Code::corrupt);
  EXPECT_EQ(decode_table(TableId(1), with(sample_table(), 2, 3)).error(), Code::corrupt);
  EXPECT_EQ(decode_target(TargetId(1), with(sample_target(), 17, 0)).error(), Code::corrupt);
  EXPECT_EQ(decode_node(NodeId(1), with(sample_node(), 49, 3)).error(), Code::corrupt);
  EXPECT_EQ(decode_fenced(NodeId(1), with(sample_fenced(), 11, 1)).error(), Code::corrupt);
  EXPECT_EQ(decode_fenced(NodeId(1), with(Fenced{NodeId(1), 1, {}}, 5, 0)).error(), Code::corrupt);
  EXPECT_EQ(decode_fenced(NodeId(2), encode(sample_fenced())).error(), Code::corrupt);
}

TEST(Records, facts_beyond_the_limits_are_not_storable) {
  NodeFacts facts = sample_node().facts;
  EXPECT_TRUE(is_storable(facts));
  facts.cards.front().host.clear();
  EXPECT_FALSE(is_storable(facts));
  facts = {std::string(limits::kNameBytesMax + 1, 'x'), "", {}, 0, 0};
  EXPECT_FALSE(is_storable(facts));
  facts = {"", "", std::vector<CardAddress>(limits::kCardsMax + 1, {"h", 1, 0, 0}), 0, 0};
  EXPECT_FALSE(is_storable(facts));
}

TEST(Loader, a_state_comes_back) {
  const State state = sample_state();
  StateLoader loader = loader_of(state);
  ASSERT_TRUE(loader.add(key_of(RecordKind::root), encode(root_of(state))).ok());
  const Result<State> loaded = loader.finish();
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(root_of(*loaded), root_of(state));
  EXPECT_EQ(loaded->chains[0].members, state.chains[0].members);
}

TEST(Loader, fences_come_back_and_are_of_nodes_that_are_there) {
  for (const auto& [node, changed] : {std::pair(1, 9), std::pair(2, 9), std::pair(1, 10)}) {
    const State state = sample_state();
    StateLoader loader = loader_of(state);
    const Fenced fenced{NodeId(static_cast<uint32_t>(node)), 5,
                        MapVersion(static_cast<uint64_t>(changed))};
    ASSERT_TRUE(loader.add(key_of(RecordKind::fence, fenced.id.value), encode(fenced)).ok());
    ASSERT_TRUE(loader.add(key_of(RecordKind::root), encode(root_of(state))).ok());
    const Result<State> loaded = loader.finish();
    const bool is_good = node == 1 && changed == 9;
    ASSERT_EQ(loaded.has_value(), is_good) << node << " " << changed;
    if (!is_good) continue;
    EXPECT_EQ(loaded->fences.at(NodeId(1)), fenced);
  }
}

TEST(Loader, what_is_missing_or_does_not_fit_is_noticed) {
  State state = sample_state();
  EXPECT_EQ(loader_of(state).finish().error(), Code::corrupt);  // no root
  StateLoader loader = loader_of(state);
  EXPECT_EQ(loader.add(key_of(RecordKind::node, 3), encode(state.nodes[0])), Code::corrupt);
  EXPECT_EQ(loader.add("M", {}), Code::corrupt);
  EXPECT_EQ(loader.add("MX", {}), Code::corrupt);
  EXPECT_EQ(loader.add("MR.", encode(root_of(state))), Code::corrupt);
  state.nodes.push_back(state.nodes[0]);
  ASSERT_TRUE(loader.add(key_of(RecordKind::root), encode(root_of(state))).ok());
  EXPECT_EQ(loader.finish().error(), Code::corrupt);  // a node less than there are
  state = sample_state();
  state.chains[0].members[0].target = TargetId(2);
  StateLoader other = loader_of(state);
  ASSERT_TRUE(other.add(key_of(RecordKind::root), encode(root_of(state))).ok());
  EXPECT_EQ(other.finish().error(), Code::corrupt);  // of a target that is not there
}

}  // namespace
}  // namespace penstock::controller
