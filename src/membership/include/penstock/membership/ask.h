// Questions to the controller: one at a time, or until there is an answer.
#pragma once

#include <optional>
#include <string>

#include "penstock/membership/messages.h"

namespace penstock::membership {

// Who asks, and whom. What it points to outlives the operation.
struct AskConfig {
  engine::Loop* loop = nullptr;
  engine::Net* net = nullptr;  // of that loop
  engine::Address controller;  // {its node, wire::kControllerService}
  wire::Protocol speaks = wire::kNodeProtocol;
};

// One question, asked again while the controller is not reached, is busy or does not lead.
// Caller-owned, as every Op; owner thread of the loop.
//
// Ends with ok and an answer, which may be a refusal that stands (`answer` holds Refused); or with
// timed_out, peer_gone, busy or not_serving where the deadline passed first, by what the last try
// said. An order that ended so may have happened: whoever orders looks at what there is.
struct AskOp : engine::Op {
  AskConfig config;
  Request request;
  engine::Time deadline = engine::kNever;
  Answer answer;  // out
};
void ask(AskOp& op);

// A process is let in to play a node: asked again until it is admitted, or refused for good. While
// another process of the node may still run, it is asked again, too. Ends with ok and `admitted`;
// else `refusal` says why, for people. A process that does not know its number yet has a net of its
// own for this, as a guest, under a number that no node has.
struct JoinOp : engine::Op {
  AskConfig config;
  controller::Join join;
  std::optional<AskToEnroll> enroll{};  // instead of `join`: by a token
  engine::Time deadline = engine::kNever;
  Admitted admitted;    // out
  Papers papers;        // out, of one with a token
  std::string refusal;  // out
};
void join(JoinOp& op);

// Whether the refusal may be another one in a moment: the same is asked again.
bool is_passing(const controller::Refused& refused);

}  // namespace penstock::membership
