// What a table of holds is told, and what it wants done: docs/decisions/0061.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "penstock/engine.h"

namespace penstock::holds {

// What an agent has of an inode. Each allows what those before it do.
enum class Hold : uint8_t {
  none,
  shared,     // to keep what was read
  exclusive,  // to change bytes, length and times, and to write behind
};

// What an agent has, from its beginning until meta has ended it: its lease may lapse in between. A
// node's sessions are numbered upwards; beginnings and ends are recorded durably before the table
// hears of the first, and does anything about the second.
struct AgentId {
  NodeId node;
  uint64_t session = 0;
  friend constexpr auto operator<=>(const AgentId&, const AgentId&) = default;
};

// Orders all that a table says: what has a larger one was said, and read, later. 0 is none.
using Stamp = Id<struct StampTag, uint64_t>;

// A question of an agent, or an operation that wants a barrier. Whoever asks numbers them, and no
// number is used for another one while its session lasts. 0 is none.
using RequestId = Id<struct RequestIdTag, uint64_t>;

// An agent asks for a hold. With Hold::none it asks for nothing but that whoever has the inode
// exclusive says first what it has.
struct Want {
  AgentId agent;
  RequestId request;
  InodeId inode;
  Hold hold = Hold::shared;
  // False: it is answered at once, with none where more cannot be given at once. Who has it
  // exclusive then is asked to be content with a shared one.
  bool waits = true;
};

// An agent did what a Recall asked of it.
struct Back {
  AgentId agent;
  InodeId inode;
  Stamp recall;
  Hold left = Hold::none;  // not above Recall::leave
  bool in_use = false;     // some open or region of the agent has the inode
};

// What an operation changes of one inode: these names in it, the empty one for its attributes; or
// with none, all of it.
struct Part {
  InodeId inode;
  std::vector<std::string> names;
};
// An operation wants to be alone with some inodes. Of the agent that makes it nothing is recalled.
struct BarrierWant {
  RequestId request;
  AgentId maker;            // nobody: meta itself
  std::vector<Part> parts;  // 1 to limits::kBarrierPartsMax; each inode once
};

// To an agent: the answer to its Want. The hold is of this stamp until it is recalled.
struct Given {
  AgentId agent;
  RequestId request;
  InodeId inode;
  Hold hold = Hold::none;
  Stamp stamp;
};
// To an agent: give back the hold with that stamp, down to `leave`, and answer with Back; what is
// left has the recall's stamp then. Or where it `keeps` the hold: forget what was kept of these
// names; without names, put what was written behind into the targets and settle it. Said again
// until it is answered.
struct Recall {
  AgentId agent;
  InodeId inode;
  Stamp recall;
  Stamp grant;
  Hold leave = Hold::none;
  bool keeps = false;
  std::vector<std::string> names;
};
// To an operation: nobody else has anything of its inodes, until Table::over(). What it reads of
// part i, and whatever it answers of it, has stamps[i].
struct Ready {
  RequestId request;
  std::vector<Stamp> stamps;  // in the order of its parts
};
// To meta: record that the session has ended, fence it, and say so by Table::fenced().
struct End {
  AgentId agent;
};

// To meta: nothing is its own any more, and its record may go. Not before: a later life has to wait
// for a lease that still runs.
struct Gone {
  AgentId agent;
};

using Action = std::variant<Given, Recall, Ready, End, Gone>;

}  // namespace penstock::holds
