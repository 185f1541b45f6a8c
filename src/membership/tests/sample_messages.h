// One message of each kind.
#pragma once

#include <string>
#include <vector>

#include "penstock/membership.h"

namespace penstock::membership {

inline std::vector<Request> sample_requests() {
  using namespace controller;  // NOLINT: all of them are its words
  Join join{.cluster = {{1}}, .node = {{2}}, .process = {{3}}};
  join.facts = {"n1", "rack", {{"10.0.0.1", 7000, 1, 0}}, 5, kRoleStorage};
  const Sender from{NodeId{1}, NodeIncarnation{2}, 3};
  OpenTarget open{from, {{4}}, Incarnation{5}, 6, kGiB, MediaClass::disk};
  Heartbeat heartbeat;
  heartbeat.from = from;
  heartbeat.applied = MapVersion{7};
  heartbeat.answered = 2;
  heartbeat.targets = {{TargetId{1}, Incarnation{8}, true, false}};
  heartbeat.reports = {
      {ChainReport::Kind::failed, kFirstSharedChain, ChainVersion{9}, TargetId{1}}};
  heartbeat.accused = {NodeId{2}};
  return {join,
          open,
          heartbeat,
          Leave{from},
          TablePlan{3, MediaClass::flash, true, 8},
          Move{kFirstSharedChain, TargetId{2}, TargetId{3}},
          Drain{NodeId{1}, false},
          Remove{NodeId{1}, true},
          Forget{TargetId{1}, true},
          Trust{TargetId{1}},
          AskMap{MapVersion{4}, {RecordKind::target, 5}},
          AskHealth{},
          AskNodes{NodeId{3}},
          DrainTarget{TargetId{2}, false},
          AskToEnroll{join, std::string(limits::kSecretBytes, 's'), "request", {77}},
          AskCertificate{{{2}}, "request", {78}},
          MakeToken{{{1, 2}}, kRoleStorage, NodeId{3}, 4, {5}, {6}},
          RevokeToken{TokenId{7}},
          AskTokens{TokenId{8}},
          AskAuthorities{{{{1}}, {{2}}}, {{1}}},
          Fence{NodeId{2}, controller::limits::kSessionMost},
          Restrict{NodeId{2},
                   {.uids = {{1, 2}, {4, 4}}, .squash = rights::User{5, 6}, .subtree = "/a"}},
          PublishKey{{{1, 2, 3}}}};
}

inline std::vector<Answer> sample_answers() {
  using namespace controller;  // NOLINT: all of them are its words
  Grant grant{NodeId{1}, NodeIncarnation{2}, 3, MapVersion{4}, true, {}};
  grant.targets = {{TargetId{1}, Incarnation{8}}};
  NodeSeen seen{
      NodeId{1}, false, true, std::chrono::seconds(1), MapVersion{4}, 3, 2, std::chrono::seconds(9),
      {}};
  seen.targets = {{TargetId{1}, true, false, false, true}};
  return {Refused{Code::in_use, "why"},
          Admitted{{{{3}}, NodeId{1}, NodeIncarnation{2}}, std::chrono::seconds(4)},
          Opened{NodeId{1}, NodeIncarnation{2}, 6, TargetId{1}, Incarnation{8}},
          grant,
          Made{TableId{1}},
          MapPiece{MapVersion{4}, false, {{{RecordKind::chain, 7}, "record"}}},
          Health{3, 1, 0, 2, 1, 1, 0, 1, 1, 4, true, std::chrono::seconds(7)},
          Done{},
          NodesPiece{MapVersion{4}, false, {seen, NodeSeen{.id = NodeId{2}}}},
          Enrolled{{{{{3}}, NodeId{1}, NodeIncarnation{2}}, std::chrono::seconds(4)},
                   {"certificate", {"authority"}}},
          Papers{"certificate", {"one", "two"}},
          MadeToken{TokenId{7}},
          TokensPiece{false, {{TokenId{7}, {}, kRoleStorage, NodeId{3}, 4, {5}, {6}, {{{9}}}}}},
          Authorities{{"one", "two"}, {{2}}},
          PublishedKey{SigningKeyId{3}}};
}

}  // namespace penstock::membership
