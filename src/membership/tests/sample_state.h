// A small state of a controller.
#pragma once

#include <string>

#include "penstock/membership.h"

namespace penstock::membership {

// Counted from 1.
constexpr ChainId chain_number(uint32_t number) {
  return ChainId{kFirstSharedChain.value + number - 1};
}

// A state with nodes of one target each, and chains over the first two of them. All was published
// in version 1.
inline controller::State state_of(uint32_t nodes, uint32_t chains) {
  controller::State state;
  state.version = controller::MapVersion{1};
  for (uint32_t i = 1; i <= nodes; ++i) {
    controller::Node node;
    node.id = NodeId{i};
    node.incarnation.value = 1;
    node.facts.name = "n" + std::to_string(i);
    node.facts.rack = "r" + std::to_string(i);
    node.changed = state.version;
    node.targets = {TargetId{i}};
    state.nodes.push_back(node);
    controller::Target target;
    target.id = TargetId{i};
    target.node = NodeId{i};
    target.incarnation = target.held = controller::Incarnation{1};
    target.changed = state.version;
    state.targets.push_back(target);
  }
  controller::Table table;
  table.id = controller::TableId{1};
  table.copies = 2;
  table.first = kFirstSharedChain;
  table.chains = chains;
  table.changed = state.version;
  state.tables.push_back(table);
  for (uint32_t i = 1; i <= chains; ++i) {
    controller::Chain chain;
    chain.id = chain_number(i);
    chain.table = table.id;
    chain.version.value = 1;
    chain.changed = state.version;
    chain.members = {{TargetId{1}, controller::Incarnation{1}, controller::CopyState::serving},
                     {TargetId{2}, controller::Incarnation{1}, controller::CopyState::serving}};
    state.chains.push_back(chain);
  }
  return state;
}

}  // namespace penstock::membership
