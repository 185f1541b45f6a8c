#include <algorithm>

#include "penstock/testing_chains.h"

namespace penstock::test {

using controller::CopyState;
using std::chrono::milliseconds;

namespace {

constexpr auto kBeat = milliseconds(50);
constexpr auto kDelayMax = milliseconds(20);

chain::Standing standing_of(const controller::State& state, const controller::Member& member) {
  switch (member.state) {
    case CopyState::serving:
      return chain::Standing::serving;
    case CopyState::syncing:
      return chain::Standing::syncing;
    case CopyState::last_serving:
      return chain::Standing::last_serving;
    case CopyState::waiting:
      break;
  }
  return controller::is_offline(state, member) ? chain::Standing::offline
                                               : chain::Standing::waiting;
}

}  // namespace

ChainTable::ChainTable(sim::SimWorld& world, std::vector<std::unique_ptr<StorageNode>>& nodes)
    : world_(world), nodes_(nodes) {
  state_.timing = {.lease = milliseconds(400),
                   .suspicion = std::chrono::seconds(2),
                   .retry_failed = milliseconds(300)};
  controller::begin(state_, world_.now());
}

// In order, so that all have the numbers that they were made with.
void ChainTable::start() {
  controller::CreateTable create;
  create.copies = static_cast<uint32_t>(nodes_.size());
  std::vector<TargetId>& chain = create.chains.emplace_back();
  for (const auto& node : nodes_) {
    node->speak = [this](StorageNode& speaks) { beat(speaks); };
    node->admitted = handle(next_word(*node)).admissions.front().incarnation;
    node->open(handle(next_word(*node)).opened.front().incarnation);
    const controller::Actions actions = handle(next_word(*node));
    give(*node, actions.grants.front(), told());
    chain.push_back(node->target());
  }
  send(handle(create));
  ASSERT(all_serve());
  tick();
}

NodeId ChainTable::admit_agent() {
  controller::Join join;
  join.cluster = state_.cluster;
  join.node.bytes[0] = static_cast<uint8_t>(state_.nodes.size() + 1);
  join.process.bytes[0] = 1;
  return handle(join).admissions.front().node;
}

void ChainTable::fence(const wire::AgentSession& lowest) {
  send(handle(controller::Fence{lowest.node, lowest.number}));
}

ChainTable::Told ChainTable::told() const {
  Told told{view(), {}};
  for (const auto& [node, fenced] : state_.fences) told.lowest.push_back({node, fenced.lowest});
  return told;
}

chain::View ChainTable::view() const {
  chain::View view;
  view.chain = kChain;
  if (state_.chains.empty()) return view;
  const controller::Chain& chain = state_.at(kChain);
  view.version = chain.version.value;
  for (const controller::Member& member : chain.members) {
    const NodeId node = state_.at(member.target).node;
    view.members.push_back(
        {member.target, member.incarnation.value, {node, 0}, standing_of(state_, member)});
  }
  return view;
}

bool ChainTable::all_serve() const {
  return view().serving() == nodes_.size();
}

bool ChainTable::hears(uint32_t number) {
  return !cut_off.contains(number) && !world_.chance(lost_permille);
}

void ChainTable::tick() {
  if (stopped_) return;
  for (const auto& node : nodes_) {
    if (node->is_up()) beat(*node);
  }
  send(handle(controller::Tick{}));
  world_.after(kBeat, "table.tick", [this] { tick(); });
}

void ChainTable::beat(StorageNode& node) {
  if (stopped_) return;
  const controller::Event event = next_word(node);
  if (!hears(node.number())) return;
  world_.after(world_.between(milliseconds(0), kDelayMax), "table.heartbeat", [this, event] {
    if (!stopped_) send(handle(event));
  });
}

// What a process says next: it joins, opens its target, and then says how it is.
controller::Event ChainTable::next_word(StorageNode& node) {
  if (node.admitted == controller::NodeIncarnation()) {
    return controller::Join{.cluster = state_.cluster,
                            .node = node.uuid(),
                            .process = node.process,
                            .predecessor_ended = world_.chance(500)};
  }
  if (node.host != nullptr) return heartbeat(node);
  return controller::OpenTarget{.from = {NodeId{node.number()}, node.admitted, ++node.sequence},
                                .target = node.uuid(),
                                .held = node.incarnation(),
                                .opening = node.opening,
                                .capacity_bytes = kGiB};
}

controller::Event ChainTable::heartbeat(StorageNode& node) {
  controller::Heartbeat heartbeat;
  heartbeat.from = {NodeId{node.number()}, node.admitted, ++node.sequence};
  heartbeat.applied = node.applied;
  heartbeat.answered = node.answered;
  heartbeat.targets.push_back({node.target(), node.incarnation()});
  heartbeat.reports = std::exchange(node.reports, {});
  heartbeat.accused = node.accused();
  node.sent[heartbeat.from.sequence] = world_.now();
  return heartbeat;
}

controller::Actions ChainTable::handle(const controller::Event& event) {
  controller::Actions actions = controller::step(state_, event, world_.now());
  ASSERT(!actions.more);
  for (const ChainId id : actions.chains) {
    const controller::Chain& chain = state_.at(id);
    for (const controller::Member& member : chain.members) {
      world_.trace("table.member", chain.version.value,
                   member.target.value * 16 + static_cast<uint64_t>(member.state));
    }
  }
  return actions;
}

// A message to a node, if it is not lost on its way or finds nobody.
void ChainTable::send(uint32_t number, const std::function<void(StorageNode&)>& message) {
  const bool is_agent = number > nodes_.size();
  if (is_agent || !hears(number)) return;
  const auto late = hears_late.find(number);
  const engine::Duration later = late == hears_late.end() ? engine::Duration() : late->second;
  world_.after(later + world_.between(milliseconds(0), kDelayMax), "table.answer",
               [this, number, message] {
                 StorageNode& node = *nodes_[number - 1];
                 if (node.is_up()) message(node);
               });
}

void ChainTable::send(const controller::Actions& actions) {
  for (const controller::Admission& admission : actions.admissions) {
    send(admission.node.value, [admission](StorageNode& node) {
      if (node.process == admission.process) node.admitted = admission.incarnation;
    });
  }
  for (const controller::Opened& opened : actions.opened) {
    send(opened.node.value, [opened](StorageNode& node) {
      const bool is_it = node.admitted == opened.node_incarnation && node.opening == opened.opening;
      if (is_it && node.host == nullptr) node.open(opened.incarnation);
    });
  }
  for (const controller::Grant& grant : actions.grants) {
    send(grant.node.value,
         [this, grant, told = told()](StorageNode& node) { give(node, grant, told); });
  }
  if (!actions.published) return;
  for (const controller::Node& node : state_.nodes) {
    const controller::Grant none{
        .node = node.id, .node_incarnation = node.incarnation, .version = state_.version};
    send(node.id.value, [this, none, told = told()](StorageNode& to) { give(to, none, told); });
  }
}

// A lease counts from the sending of the heartbeat on, and only together with the map.
void ChainTable::give(StorageNode& node, const controller::Grant& grant, const Told& told) {
  if (node.host == nullptr || node.admitted != grant.node_incarnation) return;
  if (!forgets_fences) {
    for (const wire::AgentSession& lowest : told.lowest) node.host->fence(lowest);
  }
  if (told.view.version > 0) node.host->adopt(told.view);
  node.applied = std::max(node.applied, grant.version);
  if (grant.sequence == 0) return;
  const engine::Time sent = node.sent.at(grant.sequence);
  node.answered = std::max(node.answered, grant.sequence);
  if (!grant.lease) return;
  for (const controller::Grant::Of& of : grant.targets) {
    if (of.incarnation == node.incarnation()) node.host->lease(sent + state_.timing.lease);
  }
}

}  // namespace penstock::test
