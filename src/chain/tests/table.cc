#include "cluster.h"

#include <algorithm>

namespace penstock::chain {

using std::chrono::milliseconds;

Table::Table(sim::SimWorld& world, std::vector<std::unique_ptr<Node>>& nodes)
    : world_(world), nodes_(nodes) {
  view_.chain = kChain;
}

void Table::start() {
  std::vector<Member> members;
  for (const auto& node : nodes_) {
    members.push_back({node->target(), node->incarnation(), node->address(), Standing::serving});
    known_[node->number()] = {node->incarnation(), world_.now()};
  }
  set(std::move(members));
  tick();
}

bool Table::hears(uint32_t number) {
  return !cut_off.contains(number) && !world_.chance(lost_permille);
}

void Table::tick() {
  if (stopped_) return;
  for (const auto& node : nodes_) {
    if (node->is_up()) heartbeat(*node);
  }
  let_go();
  take_back();
  world_.after(milliseconds(50), "table.tick", [this] { tick(); });
}

void Table::heartbeat(Node& node) {
  const engine::Time sent = world_.now();
  if (!hears(node.number())) return;
  world_.after(world_.between(milliseconds(0), milliseconds(20)), "table.heartbeat",
               [this, number = node.number(), incarnation = node.incarnation(), sent] {
                 on_heartbeat(number, incarnation, sent);
               });
}

size_t Table::index_of(uint32_t number) const {
  size_t at = 0;
  while (view_.members[at].target != TargetId{number}) ++at;
  return at;
}

// A lease is given from the sending of the heartbeat on, and only together with the newest table.
void Table::on_heartbeat(uint32_t number, uint64_t incarnation, engine::Time sent) {
  if (stopped_) return;
  Known& known = known_[number];
  if (incarnation < known.incarnation) return;
  known.incarnation = incarnation;
  known.heard = world_.now();
  const Member& member = view_.members[index_of(number)];
  const bool may_have_one =
      member.standing == Standing::serving && member.incarnation == incarnation && !known.stopping;
  engine::Time until{};
  if (may_have_one) {
    until = sent + kLease;
    known.lease_ends = std::max(known.lease_ends, until + kLeaseMargin);
  }
  answer(number, incarnation, until);
}

void Table::answer(uint32_t number, uint64_t incarnation, engine::Time until) {
  if (!hears(number)) return;
  world_.after(world_.between(milliseconds(0), milliseconds(20)), "table.answer",
               [this, number, incarnation, until, view = view_] {
                 Node& node = *nodes_[number - 1];
                 if (!node.is_up() || node.incarnation() != incarnation) return;
                 node.host->adopt(view);
                 node.host->lease(until);
               });
}

void Table::publish() {
  for (const auto& node : nodes_) {
    if (node->is_up()) answer(node->number(), node->incarnation(), engine::Time{});
  }
}

void Table::set(std::vector<Member> members) {
  const auto rank = [](const Member& member) {
    return member.standing == Standing::serving ? 0 : member.standing == Standing::syncing ? 1 : 2;
  };
  std::stable_sort(members.begin(), members.end(),
                   [&](const Member& a, const Member& b) { return rank(a) < rank(b); });
  view_.members = std::move(members);
  ++view_.version;
  failed_.clear();
  for (const Member& member : view_.members) {
    world_.trace("table.member", view_.version,
                 member.target.value * 16 + static_cast<uint64_t>(member.standing));
  }
  publish();
}

// Whether a serving target is gone, or must go, and has no lease any more.
bool Table::has_left(const Member& member) const {
  const Known& known = known_.at(member.target.value);
  const bool restarted = known.incarnation != member.incarnation;
  const bool silent = world_.now() - known.heard > kLease;
  if (failed_.contains(member.target.value)) return true;
  return (restarted || silent || known.stopping) && world_.now() > known.lease_ends;
}

void Table::let_go() {
  std::vector<Member> members = view_.members;
  const auto leaves = [this](const Member& member) {
    const bool counts =
        member.standing == Standing::serving || member.standing == Standing::syncing;
    return counts && has_left(member);
  };
  if (std::none_of(members.begin(), members.end(), leaves)) return;
  const bool some_stay = std::any_of(members.begin(), members.end(), [&](const Member& member) {
    return member.standing == Standing::serving && !leaves(member);
  });
  for (Member& member : members) {
    if (!leaves(member) && (some_stay || member.standing != Standing::syncing)) continue;
    const bool was_last = !some_stay && member.standing == Standing::serving;
    if (member.standing == Standing::last_serving || member.standing == Standing::offline) continue;
    member.standing = was_last ? Standing::last_serving : Standing::offline;
    known_[member.target.value].stopping = false;
    known_[member.target.value].accused = {};
  }
  set(std::move(members));
}

void Table::take_back() {
  std::vector<Member> members = view_.members;
  bool has_syncing = view_.syncing() != nullptr;
  bool has_serving = view_.serving() > 0;
  const size_t served_before = view_.serving();
  bool changed = false;
  for (Member& member : members) {
    const Known& known = known_[member.target.value];
    const bool is_up = world_.now() - known.heard < kLease / 2;
    if (!is_up || member.standing == Standing::serving || member.standing == Standing::syncing) {
      continue;
    }
    if (member.standing == Standing::last_serving && !has_serving) {
      member.standing = Standing::serving;
      has_serving = true;
    } else if (served_before > 0 && !has_syncing) {
      member.standing = Standing::syncing;
      has_syncing = true;
    } else {
      continue;
    }
    member.incarnation = known.incarnation;
    changed = true;
  }
  if (changed && served_before == 0) {
    // Those that served together with it are made equal to it.
    for (Member& member : members) {
      if (member.standing == Standing::last_serving) member.standing = Standing::waiting;
    }
  }
  if (changed) set(std::move(members));
}

void Table::on_report(uint32_t number, const Report& report) {
  if (stopped_ || !hears(number) || report.version != view_.version) return;
  std::vector<Member> members = view_.members;
  if (report.kind == Report::Kind::failed) {
    // It has stopped serving, as if its lease were over.
    if (view_.serving() > 1 || members[index_of(number)].standing == Standing::syncing) {
      failed_.insert(number);
    }
    return;
  }
  Member& other = members[index_of(report.other.value)];
  Known& known = known_[report.other.value];
  if (report.kind == Report::Kind::repaired) {
    if (other.standing != Standing::syncing) return;
    other.standing = Standing::serving;
    return set(std::move(members));
  }
  if (other.standing == Standing::syncing) return;
  const bool is_new = world_.now() - known.accused > std::chrono::seconds(5);
  if (is_new) {
    known.accused = world_.now();
  } else if (world_.now() - known.accused > std::chrono::seconds(2) && view_.serving() > 1) {
    known.stopping = true;
  }
}

}  // namespace penstock::chain
