// What a table keeps of an inode and of an agent.
#pragma once

#include <algorithm>
#include <set>
#include <utility>

#include "penstock/holds/table.h"

namespace penstock::holds {

struct Session {
  enum class State : uint8_t {
    recorded,  // of an earlier life: it has yet to claim what it has
    good,
    ending,  // it is given nothing more, and what it has is still its own
    fenced,  // it can change nothing; it may read what it keeps until its lease is over
  };

  Session(AgentId its_id, State its_state) : id(its_id), state(its_state) {}

  const AgentId id;
  State state;
  engine::Time lease_end{};  // with the guard
  bool has_dropped = false;
  bool is_trusted = true;         // in what it claims
  bool is_inherited = false;      // from the life before, of which nobody knows what it had
  IntrusiveList<Holder> holders;  // what it has had longest comes first
  size_t held = 0;
  std::set<std::pair<InodeId, RequestId>> waiting;  // questions that are not answered
};

// What one agent has of one inode. Without a hold: it has it in use.
struct Holder : ListNode {
  Holder(Session& its_session, InodeId its_inode) : session(&its_session), inode(its_inode) {}

  Session* const session;
  const InodeId inode;
  Hold hold = Hold::none;
  Hold leave = Hold::none;  // of the recall
  bool in_use = false;
  Stamp grant;        // of the hold
  RequestId request;  // which that answered
  Stamp recall;       // not answered yet; none: there is none
  Stamp told;         // the same, of one that leaves the hold: to settle, or to forget names
  std::vector<std::string> names;  // which names
};

// A question that waits for its turn: of an agent, or of a barrier for one of its parts.
struct Waiter {
  AgentId agent;
  RequestId request;
  Hold hold = Hold::none;
  const Part* part = nullptr;  // of a barrier
  bool has_told = false;       // holders that keep their hold have been told of the names
};

// An agent that wants to hear when the exclusive holder has settled what it had at `since`.
struct Asker {
  AgentId agent;
  RequestId request;
  Stamp since;
};

struct Entry {
  explicit Entry(InodeId its_inode) : inode(its_inode) {}

  bool is_idle() const {
    return holders.empty() && queue.empty() && askers.empty() && barrier == RequestId{} &&
           changed_by == NodeId{};
  }

  const InodeId inode;
  std::vector<std::unique_ptr<Holder>> holders;
  std::vector<Waiter> queue;  // in the order of asking
  std::vector<Asker> askers;
  RequestId barrier;  // which is alone with it
  // Who has changed names in it lately, and when; nobody: it is calm.
  NodeId changed_by;
  engine::Time changed_at{};
};

struct Table::Barrier {
  explicit Barrier(BarrierWant its_want) : want(std::move(its_want)) {}

  BarrierWant want;
  std::vector<size_t> order;  // of its parts, by inode
  size_t taken = 0;           // of these
  std::vector<Stamp> stamps;
};

constexpr bool go_beside(Hold a, Hold b) {
  return std::min(a, b) == Hold::none || std::max(a, b) < Hold::exclusive;
}
// What others may have beside a hold.
constexpr Hold most_beside(Hold hold) {
  switch (hold) {
    case Hold::none:
      return Hold::exclusive;
    case Hold::shared:
      return Hold::shared;
    case Hold::exclusive:
      return Hold::none;
  }
  return Hold::none;
}

}  // namespace penstock::holds
