#include "sample_state.h"

#include <gtest/gtest.h>

namespace penstock::membership {
namespace {

using controller::CopyState;
using controller::MapVersion;
using controller::RecordKind;

// Asks for everything since what the map knows; true if a piece was more than it might be.
bool catch_up(const controller::State& state, ClusterMap& map, std::vector<MapChanges>& all,
              size_t bytes_max = wire::kMembershipBytesMax) {
  MapPlace from;
  const MapVersion known = map.known();
  MapVersion first;
  for (size_t pieces = 0; pieces < 10'000; ++pieces) {
    const MapPiece piece = piece_of(state, known, from, bytes_max);
    const std::string bytes = encode(Answer(piece));
    if (bytes.size() > bytes_max) return true;
    if (pieces == 0) first = piece.version;
    auto changes = map.apply(std::get<MapPiece>(*decode_answer(bytes)));
    if (!changes) return true;
    all.push_back(std::move(*changes));
    if (piece.last) break;
    from = piece.records.back().at;
  }
  map.complete(first);
  return false;
}

TEST(ClusterMap, is_whole_after_the_last_piece_however_small_pieces_are) {
  const controller::State state = state_of(5, 3000);
  for (const size_t bytes : {size_t{13'000}, size_t{20'000}, size_t{wire::kMembershipBytesMax}}) {
    ClusterMap map;
    std::vector<MapChanges> all;
    ASSERT_FALSE(catch_up(state, map, all, bytes));
    EXPECT_GT(all.size(), 1U);
    EXPECT_EQ(map.version(), MapVersion{1});
    EXPECT_EQ(map.nodes().size(), 5U);
    EXPECT_EQ(map.targets().size(), 5U);
    EXPECT_EQ(map.tables().size(), 1U);
    EXPECT_EQ(map.chains().size(), 3000U);
    size_t told = 0;
    for (const MapChanges& changes : all) told += changes.chains.size();
    EXPECT_EQ(told, 3000U) << "each once";
    EXPECT_EQ(map.find(NodeId{3})->facts.name, "n3");
  }
}

TEST(ClusterMap, hears_only_what_is_new_and_who_had_a_part) {
  controller::State state = state_of(4, 10);
  ClusterMap map;
  std::vector<MapChanges> all;
  ASSERT_FALSE(catch_up(state, map, all));
  state.version = MapVersion{2};
  controller::Chain& chain = state.chains[6];
  chain.version.value = 2;
  chain.changed = state.version;
  chain.members[1].target = TargetId{4};
  all.clear();
  ASSERT_FALSE(catch_up(state, map, all));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_TRUE(all[0].nodes.empty() && all[0].tables.empty());
  ASSERT_EQ(all[0].chains.size(), 1U);
  EXPECT_EQ(all[0].chains[0].chain, chain_number(7));
  const std::vector<TargetId> concerned = {TargetId{1}, TargetId{2}, TargetId{4}};
  EXPECT_EQ(all[0].chains[0].concerned, concerned) << "the one that left, too";
  const auto view = map.view_of(chain_number(7));
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->version, 2U);
  EXPECT_EQ(view->members.at(1).target, TargetId{4});
  EXPECT_EQ(view->members.at(1).address, replica_address(NodeId{4}, TargetId{4}));
  EXPECT_EQ(view->members.at(1).rack, "r4");
  EXPECT_EQ(view->serving(), 2U);
  EXPECT_EQ(map.chains_of(TargetId{4}), std::vector<ChainId>{chain_number(7)});
  EXPECT_EQ(map.version(), MapVersion{2});
}

TEST(ClusterMap, says_in_which_version_each_member_is_spoken_to) {
  controller::State state = state_of(2, 1);
  state.nodes[1].facts.features = wire::features_of({2, 3, 0});
  const auto protocols = [&state](const wire::Protocol& speaks) {
    ClusterMap map(speaks);
    std::vector<MapChanges> all;
    EXPECT_FALSE(catch_up(state, map, all));
    const chain::View view = *map.view_of(chain_number(1));
    return std::pair(view.members.at(0).protocol, view.members.at(1).protocol);
  };
  EXPECT_EQ(protocols({1, 2, 0}), std::pair(uint16_t{1}, uint16_t{2}));
  EXPECT_EQ(protocols({1, 3, 0}), std::pair(uint16_t{1}, uint16_t{3}));
}

TEST(ClusterMap, ignores_what_is_older_than_what_it_knows) {
  controller::State state = state_of(3, 2);
  const MapPiece old = piece_of(state, {}, {});
  state.version = MapVersion{2};
  state.chains[0].version.value = 2;
  state.chains[0].changed = state.version;
  ClusterMap map;
  std::vector<MapChanges> all;
  ASSERT_FALSE(catch_up(state, map, all));
  const auto changes = map.apply(old);
  ASSERT_TRUE(changes.has_value());
  EXPECT_TRUE(changes->nodes.empty() && changes->chains.empty());
  map.complete(old.version);
  EXPECT_EQ(map.version(), MapVersion{2});
  EXPECT_EQ(map.view_of(chain_number(1))->version, 2U);
}

// While pieces come, a target joins that a chain of a later piece names.
TEST(ClusterMap, tells_of_a_chain_when_it_knows_its_members_and_not_before) {
  controller::State state = state_of(2, 1);
  MapPiece nodes = piece_of(state, {}, {});
  nodes.records.resize(4);  // two nodes, two targets
  const controller::State later = [] {
    controller::State more = state_of(3, 1);
    more.version = MapVersion{2};
    more.nodes[2].changed = more.targets[2].changed = more.chains[0].changed = more.version;
    more.chains[0].version.value = 2;
    more.chains[0].members[1].target = TargetId{3};
    return more;
  }();
  ClusterMap map;
  ASSERT_TRUE(map.apply(nodes).has_value());
  const auto changes = map.apply(piece_of(later, {}, nodes.records.back().at));
  ASSERT_TRUE(changes.has_value());
  EXPECT_TRUE(changes->chains.empty());
  map.complete(MapVersion{1});
  EXPECT_EQ(map.version(), MapVersion{0})
      << "a target may have a part in a chain it is not told of";
  EXPECT_EQ(map.known(), MapVersion{1});
  EXPECT_FALSE(map.view_of(chain_number(1)).has_value());
  std::vector<MapChanges> all;
  ASSERT_FALSE(catch_up(later, map, all));
  ASSERT_EQ(all[0].chains.size(), 1U);
  EXPECT_EQ(all[0].chains[0].concerned.size(), 2U);
  EXPECT_EQ(map.version(), MapVersion{2});
}

TEST(ClusterMap, has_fences_of_the_nodes_that_have_one) {
  controller::State state = state_of(4, 3000);
  ClusterMap map;
  std::vector<MapChanges> all;
  ASSERT_FALSE(catch_up(state, map, all, 13'000));
  EXPECT_TRUE(map.fences().empty());
  state.version = MapVersion{2};
  state.fences[NodeId{3}] = {NodeId{3}, 7, MapVersion{2}};
  state.fences[NodeId{4}] = {NodeId{4}, 8, MapVersion{2}};
  all.clear();
  ASSERT_FALSE(catch_up(state, map, all));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].fences, (std::vector<NodeId>{NodeId{3}, NodeId{4}}));
  EXPECT_TRUE(all[0].nodes.empty() && all[0].chains.empty());
  EXPECT_EQ(map.fences(), state.fences);
  state.version = MapVersion{3};
  state.fences[NodeId{3}] = {NodeId{3}, 9, MapVersion{3}};
  all.clear();
  ASSERT_FALSE(catch_up(state, map, all));
  EXPECT_EQ(all.at(0).fences, std::vector<NodeId>{NodeId{3}});
  EXPECT_EQ(map.fences().at(NodeId{3}).lowest, 9U);
  // Who comes new gets all of them, in whatever pieces.
  ClusterMap other;
  ASSERT_FALSE(catch_up(state, other, all, 13'000));
  EXPECT_EQ(other.fences(), state.fences);
  EXPECT_EQ(other.version(), MapVersion{3});
  MapPiece piece = piece_of(state, MapVersion{2}, {});
  piece.records.back().at.id = 4097;
  EXPECT_FALSE(other.apply(piece).has_value());
}

TEST(ClusterMap, refuses_records_that_cannot_be_and_takes_nothing_of_their_piece) {
  const controller::State state = state_of(3, 1);
  const MapPiece good = piece_of(state, {}, {});
  const auto refused = [&](const std::function<void(MapPiece&)>& spoil) {
    MapPiece piece = good;
    spoil(piece);
    ClusterMap map;
    return !map.apply(piece).has_value() && map.nodes().empty() && map.chains().empty();
  };
  EXPECT_FALSE(refused([](MapPiece&) {}));
  EXPECT_TRUE(refused([](MapPiece& piece) { piece.records.back().bytes.pop_back(); }));
  EXPECT_TRUE(refused([](MapPiece& piece) { piece.records.back().at.id = 1'000'001; }));
  EXPECT_TRUE(refused([](MapPiece& piece) { piece.records.back().at.id = 0; }));
  EXPECT_TRUE(refused([](MapPiece& piece) { piece.records.front().at.kind = RecordKind::lease; }));
  const auto with_chain = [&](const std::function<void(controller::Chain&)>& spoil) {
    return refused([&](MapPiece& piece) {
      controller::Chain chain = state.chains[0];
      spoil(chain);
      piece.records.back().bytes = controller::encode(chain);
    });
  };
  EXPECT_FALSE(with_chain([](controller::Chain&) {}));
  EXPECT_TRUE(with_chain([](auto& chain) { chain.members[1].target = TargetId{1}; }));
  EXPECT_TRUE(with_chain([](auto& chain) { chain.members[0].state = CopyState::waiting; }));
  EXPECT_TRUE(with_chain([](auto& chain) {
    for (auto& member : chain.members) member.state = CopyState::syncing;
  }));
}

}  // namespace
}  // namespace penstock::membership
