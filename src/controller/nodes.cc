// Processes that come and go.
#include "stepper.h"

#include <algorithm>
#include <utility>

#include "penstock/controller/records.h"

namespace penstock::controller {
namespace {

// Names go into logs.
bool is_for_people(const NodeFacts& facts) {
  const auto is_good = [](const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c != 127; });
  };
  return is_good(facts.name) && is_good(facts.rack) &&
         std::all_of(facts.cards.begin(), facts.cards.end(),
                     [&](const CardAddress& card) { return is_good(card.host); });
}

}  // namespace

// Roles that were proven once stay as they are.
void Stepper::on(const Join& join) {
  const Node* const known = find_node(state_, join.node);
  const bool is_proven = known != nullptr && known->key != KeyPrint();
  if (is_proven && join.facts.roles != known->facts.roles) {
    return refuse(Code::not_permitted, "join: " + name_of(*known) + " has the roles " +
                                           engine::roles_text(known->facts.roles) +
                                           "; for others make a token that names it");
  }
  admit(join);
}

// A process is let in when no other of its directory can be acting any more.
void Stepper::admit(const Join& join) {
  if (join.cluster != state_.cluster) {
    return refuse(Code::access_denied, "join: " + join.facts.name + " belongs to another cluster");
  }
  if (!is_storable(join.facts) || !is_for_people(join.facts)) {
    return refuse(Code::invalid_argument,
                  "join: names, or the number of network cards, are beyond the limits");
  }
  if (const Node* const other = other_with_names(join)) {
    return refuse(Code::not_permitted,
                  "join: " + name_of(*other) +
                      " has the names of this cluster; they are in one process (join with the "
                      "role storage)");
  }
  const Node* known = find_node(state_, join.node);
  if (known == nullptr) return add_node(join);
  Node& node = state_.at(known->id);
  if (node.standing == Standing::removed) {
    return refuse(Code::not_permitted,
                  "join: " + name_of(node) + " was removed; let it join with a new directory");
  }
  const bool is_another = node.process != join.process;
  if (is_another && now_ < node.seen.lease_end && !join.predecessor_ended) {
    return refuse(Code::in_use, "join: another process of " + name_of(node) +
                                    " may still run; it is let in when that one's lease is over");
  }
  if (is_another) let_in(node, join);
  if (node.facts != join.facts) {
    count(node, -1);
    node.facts = join.facts;
    count(node, 1);
    changed(node);
  }
  actions_.admissions.push_back({node.process, node.id, node.incarnation});
}

// Names are in one process, so a second one with them would be another file system.
const Node* Stepper::other_with_names(const Join& join) const {
  if ((join.facts.roles & kRoleMeta) == 0) return nullptr;
  for (const Node& node : state_.nodes) {
    if (node.uuid == join.node || node.standing == Standing::removed) continue;
    if ((node.facts.roles & kRoleMeta) != 0) return &node;
  }
  return nullptr;
}

void Stepper::let_in(Node& node, const Join& join) {
  set_node_down(node, now_);
  set_silent(node, false);
  node.process = join.process;
  node.incarnation.value++;
  node.seen = {};
  node.seen.silent = false;
  node.seen.let_in = now_;
  node.seen.heard = now_;
  node.seen.answered_at = now_;
  node.seen.lease_end = now_;
  changed(node);
}

void Stepper::add_node(const Join& join) {
  if (state_.nodes.size() >= limits::kNodesMax) {
    return refuse(Code::busy, "join: the cluster has as many nodes as it can have");
  }
  Node node;
  node.id = NodeId(static_cast<uint32_t>(state_.nodes.size() + 1));
  node.uuid = join.node;
  node.facts = join.facts;
  state_.nodes.push_back(std::move(node));
  Node& added = state_.nodes.back();
  count(added, 1);
  let_in(added, join);
  ASSERT(added.incarnation == NodeIncarnation(1));
  actions_.admissions.push_back({added.process, added.id, added.incarnation});
  notice(name_of(added) + ": joined");
}

// Of a new one, or one that goes: it counts among all, and among the missing while it is silent.
void Stepper::count(const Node& node, int change) {
  if (is_client(node)) return;
  ASSERT(change > 0 || state_.joined > 0);
  state_.joined += static_cast<size_t>(change);
  if (node.seen.silent) state_.missing += static_cast<size_t>(change);
  ASSERT(state_.missing <= state_.joined);
}

void Stepper::set_silent(Node& node, bool silent) {
  if (std::exchange(node.seen.silent, silent) == silent) return;
  if (node.standing == Standing::removed || is_client(node)) return;
  ASSERT(silent || state_.missing > 0);
  state_.missing += silent ? 1 : -1;
  ASSERT(state_.missing <= state_.joined);
}

// The node that sent a message, if it is of the present incarnation and newer than what was heard
// of it.
Node* Stepper::known_sender(const Sender& from, std::string_view what) {
  if (!state_.has(from.node)) {
    refuse(Code::not_found, std::string(what) + ": no node has that number");
    return nullptr;
  }
  Node& node = state_.at(from.node);
  if (node.standing == Standing::removed) {
    refuse(Code::not_permitted, std::string(what) + ": " + name_of(node) + " was removed");
    return nullptr;
  }
  if (from.incarnation != node.incarnation) {
    refuse(Code::stale, std::string(what) + ": another process plays " + name_of(node) + " now");
    return nullptr;
  }
  if (from.sequence <= node.seen.sequence) return nullptr;  // came late, or twice
  node.seen.sequence = from.sequence;
  return &node;
}

void Stepper::on(const Leave& leave) {
  Node* node = known_sender(leave.from, "leave");
  if (node == nullptr) return;
  node->seen.lease_end = now_;
  node->seen.accuses.clear();
  set_silent(*node, true);
  set_node_down(*node, now_);
  notice(name_of(*node) + ": ended in order");
}

}  // namespace penstock::controller
