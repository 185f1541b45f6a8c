// One record of each kind, and what any bytes may be.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "penstock/controller.h"

namespace penstock::controller {

inline Node sample_node() {
  Node node;
  node.id = NodeId(1);
  node.uuid.bytes = {1, 2, 3};
  node.process.bytes = {4, 5, 6};
  node.incarnation = NodeIncarnation(7);
  node.standing = Standing::draining;
  node.changed = MapVersion(9);
  node.facts = {
      "n1", "rack", {{"10.0.0.1", 7000, 1, 0}, {"10.1.0.1", 7001, 2, 1}}, 5, kRoleStorage};
  return node;
}

inline Target sample_target() {
  Target target;
  target.id = TargetId(1);
  target.uuid.bytes = {8, 9};
  target.node = NodeId(1);
  target.incarnation = Incarnation(4);
  target.held = Incarnation(3);
  target.opening = 77;
  target.capacity_bytes = kTiB;
  target.media = MediaClass::disk;
  target.draining = true;
  target.changed = MapVersion(8);
  return target;
}

inline Table sample_table() {
  return {TableId(1), 3, MediaClass::disk, true, kFirstSharedChain, 1, MapVersion(6)};
}

inline Chain sample_chain() {
  Chain chain;
  chain.id = kFirstSharedChain;
  chain.table = TableId(1);
  chain.version = ChainVersion(12);
  chain.changed = MapVersion(9);
  chain.members = {{TargetId(1), Incarnation(4), CopyState::last_serving, true, true}};
  return chain;
}

inline Token sample_token() {
  return {TokenId(1), {{1, 2, 3}}, kRoleStorage, NodeId(1),
          3,          {1'000},     {2'000},      {{{1, 2}}, {{3, 4}}}};
}

inline Fenced sample_fenced() {
  return {NodeId(1), limits::kSessionMost, MapVersion(7)};
}

inline std::vector<std::string> sample_records() {
  const LeaseRecord lease{3, {{1}}, 4};
  const RootRecord root{{{1}}, MapVersion(9), 1, 1, 1, 1};
  return {encode(lease),           encode(root),           encode(sample_node()),
          encode(sample_target()), encode(sample_table()), encode(sample_chain()),
          encode(KeyPrint{{5}}),   encode(sample_token()), encode(sample_fenced())};
}

// How many kinds of record the bytes are. What decodes must encode to the same bytes.
inline int decode_all(std::string_view bytes) {
  int kinds = 0;
  const auto look = [&](const auto& record) {
    if (!record) return;
    ++kinds;
    if (encode(*record) != bytes) std::abort();
  };
  look(decode_lease(bytes));
  look(decode_root(bytes));
  look(decode_node(NodeId(1), bytes));
  look(decode_target(TargetId(1), bytes));
  look(decode_table(TableId(1), bytes));
  look(decode_chain(kFirstSharedChain, bytes));
  look(decode_key(bytes));
  look(decode_token(TokenId(1), bytes));
  look(decode_fenced(NodeId(1), bytes));
  return kinds;
}

}  // namespace penstock::controller
