#include "cluster_admin.h"

#include "restrictions.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <thread>

namespace penstock::apps {

size_t targets_that_stay(const membership::ClusterMap& map) {
  const auto stays = [&](const auto& entry) {
    const controller::Target& target = entry.second;
    const controller::Node* const node = map.find(target.node);
    return !target.forgotten && !target.draining && node != nullptr &&
           node->standing == controller::Standing::joined;
  };
  return static_cast<size_t>(std::count_if(map.targets().begin(), map.targets().end(), stays));
}

namespace {

using cluster::Participant;
using controller::CopyState;
using membership::ClusterMap;
using membership::NodeSeen;

// Chains of a new table, where nobody says how many: several for each target, so that the load of
// one that is lost goes to many.
constexpr uint32_t kChainsOfTarget = 4;
// Directories name a table's chains; more than these serve nobody.
constexpr uint32_t kChainsOfNewTableMax = 20'000;
// Pieces of an answer: no cluster has more.
constexpr int kPiecesMax = 1000;
// How long a table that was made takes to get here, and how often it is looked for.
constexpr auto kOfferTime = std::chrono::seconds(10);
constexpr auto kOfferLook = std::chrono::milliseconds(10);

constexpr engine::Duration kNotKnown{-1};
constexpr int64_t kOneSecond = 1'000'000'000;

double seconds_of(engine::Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Null: not known.
Json seconds_or_null(engine::Duration duration) {
  return duration < engine::Duration::zero() ? Json() : Json(seconds_of(duration));
}

Json error_of(const Failure& failure) {
  return {{"error", failure.message}};
}

// What the controller has seen of all nodes.
Outcome<std::map<NodeId, NodeSeen>> ask_nodes(Participant& participant) {
  std::map<NodeId, NodeSeen> seen;
  membership::AskNodes from;
  for (int i = 0; i < kPiecesMax; ++i) {
    TRY_ASSIGN(const membership::Answer answer, participant.ask(from));
    const auto* piece = std::get_if<membership::NodesPiece>(&answer);
    if (piece == nullptr) return Failure{Code::bad_message, "the controller answers otherwise"};
    for (const NodeSeen& node : piece->nodes) seen[node.id] = node;
    if (piece->last || piece->nodes.empty()) break;
    from.from = NodeId(piece->nodes.back().id.value + 1);
  }
  return seen;
}

Outcome<controller::Health> ask_health(Participant& participant) {
  TRY_ASSIGN(const membership::Answer answer, participant.ask(membership::AskHealth()));
  if (const auto* health = std::get_if<controller::Health>(&answer)) return *health;
  return Failure{Code::bad_message, "the controller answers otherwise"};
}

size_t clients_of(const ClusterMap& map) {
  return static_cast<size_t>(
      std::count_if(map.nodes().begin(), map.nodes().end(), [](const auto& entry) {
        const controller::Node& node = entry.second;
        return controller::is_client(node) && node.standing != controller::Standing::removed;
      }));
}

Json cluster_json(Participant& participant) {
  const cluster::ParticipantStatus status = participant.status();
  auto health = ask_health(participant);
  if (!health) return error_of(health.error());
  const ClusterMap map = participant.map();
  Json tables = Json::array();
  const size_t targets = targets_that_stay(map);
  for (const auto& [id, table] : map.tables()) {
    const auto is_larger = [&, copies = table.copies](const auto& entry) {
      return entry.second.copies == copies && entry.second.chains >= targets;
    };
    const bool is_small = std::none_of(map.tables().begin(), map.tables().end(), is_larger);
    tables.push_back({{"table", id.value},
                      {"outgrown", is_small},
                      {"copies", table.copies},
                      {"chains", table.chains},
                      {"first_chain", table.first.value}});
  }
  return {{"cluster", cluster::text_of(status.invitation.cluster)},
          {"node", status.node.value},
          {"invitation", cluster::text_of(status.invitation)},
          {"insecure", status.insecure},
          {"nodes", health->nodes},
          {"clients", clients_of(map)},
          {"missing", health->missing},
          {"suspected", health->suspected},
          {"chains", health->chains},
          {"whole", health->whole},
          {"partial", health->partial},
          {"unavailable", health->unavailable},
          {"syncing", health->syncing},
          {"moving", health->moving},
          {"moves_left", health->moves_left},
          {"moves_wait", health->moves_wait},
          {"moves_seconds", seconds_or_null(health->moves_time)},
          {"tables", tables}};
}

std::string state_of(const controller::Node& node, const NodeSeen* seen) {
  if (node.standing == controller::Standing::removed) return "removed";
  const bool is_silent = seen == nullptr || seen->silent;
  if (is_silent) return controller::is_client(node) ? "away" : "missing";
  if (seen->suspected) return "suspected";
  return node.standing == controller::Standing::draining ? "draining" : "up";
}

Json targets_json(const ClusterMap& map, const NodeSeen* seen) {
  Json targets = Json::array();
  if (seen == nullptr) return targets;
  for (const NodeSeen::OfTarget& of : seen->targets) {
    const controller::Target* const target = map.find(of.id);
    if (target == nullptr || target->forgotten) continue;
    targets.push_back({{"target", of.id.value},
                       {"state", of.failing ? "failing"
                                 : of.up    ? "up"
                                            : "down"},
                       {"full", of.full},
                       {"is_to_go", target->draining},
                       {"capacity_bytes", target->capacity_bytes},
                       {"used_bytes", of.used_bytes},
                       {"chains", map.chains_of(of.id).size()}});
  }
  return targets;
}

// Words, in one order.
Json roles_json(uint8_t roles) {
  Json words = Json::array();
  const std::string text = cluster::roles_text(roles);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::string restriction_text(const ClusterMap& map, NodeId node) {
  const auto found = map.restrictions().find(node);
  return found == map.restrictions().end() ? "" : rights::text_of(found->second.what);
}

Json nodes_json(Participant& participant) {
  auto seen = ask_nodes(participant);
  if (!seen) return error_of(seen.error());
  const ClusterMap map = participant.map();
  Json nodes = Json::array();
  for (const auto& [id, node] : map.nodes()) {
    const auto found = seen->find(id);
    const NodeSeen* const of = found == seen->end() ? nullptr : &found->second;
    Json cards = Json::array();
    for (const controller::CardAddress& card : node.facts.cards) {
      cards.push_back(
          {{"host", card.host}, {"port", card.port}, {"rail", card.rail}, {"numa", card.numa}});
    }
    Json one = {{"node", id.value},
                {"name", node.facts.name},
                {"rack", node.facts.rack},
                {"cards", cards},
                {"features", node.facts.features},
                {"state", state_of(node, of)},
                {"controller", cluster::runs_controller(node.facts.roles)},
                {"roles", roles_json(node.facts.roles)},
                {"restriction", restriction_text(map, id)},
                {"is_to_go", node.standing == controller::Standing::draining},
                {"chains_left", of != nullptr ? of->chains_left : 0},
                {"chains_without_place", of != nullptr ? of->chains_without_place : 0},
                {"drain_seconds", seconds_or_null(of != nullptr ? of->drain_time : kNotKnown)},
                {"targets", targets_json(map, of)}};
    if (of != nullptr && of->heard_ago >= engine::Duration::zero()) {
      one["heard_seconds_ago"] = seconds_of(of->heard_ago);
    }
    nodes.push_back(std::move(one));
  }
  return {{"nodes", nodes}};
}

const char* name_of(CopyState state, bool is_up) {
  if (state == CopyState::serving) return "serving";
  if (state == CopyState::syncing) return "syncing";
  if (!is_up) return "offline";
  return state == CopyState::last_serving ? "last serving" : "waiting";
}

Json chain_json(const ClusterMap& map, const controller::Chain& chain,
                const std::map<TargetId, bool>& up) {
  Json members = Json::array();
  for (const controller::Member& member : chain.members) {
    const controller::Target* const target = map.find(member.target);
    const auto found = up.find(member.target);
    members.push_back({{"target", member.target.value},
                       {"node", target != nullptr ? target->node.value : 0},
                       {"state", name_of(member.state, found != up.end() && found->second)},
                       {"leaving", member.leaving},
                       {"doubtful", member.doubtful}});
  }
  const controller::Table* const table = map.find(chain.table);
  const size_t copies = table != nullptr ? table->copies : chain.members.size();
  const size_t serving = controller::count_of(chain, CopyState::serving);
  const bool moves = std::any_of(chain.members.begin(), chain.members.end(),
                                 [](const controller::Member& one) { return one.leaving; });
  return {{"chain", chain.id.value},
          {"table", chain.table.value},
          {"version", chain.version.value},
          {"copies", copies},
          {"state", serving == 0       ? "unavailable"
                    : serving < copies ? "partial"
                                       : "whole"},
          {"moves", moves},
          {"members", members}};
}

Json chains_json(Participant& participant) {
  auto seen = ask_nodes(participant);
  if (!seen) return error_of(seen.error());
  std::map<TargetId, bool> up;
  for (const auto& [id, node] : *seen) {
    for (const NodeSeen::OfTarget& target : node.targets) up[target.id] = target.up;
  }
  const ClusterMap map = participant.map();
  Json chains = Json::array();
  for (const auto& [id, chain] : map.chains()) chains.push_back(chain_json(map, chain, up));
  return {{"chains", chains}};
}

// Orders something, and says that it is done.
Json order(Participant& participant, membership::Request request) {
  const auto answer = participant.ask(std::move(request));
  return answer ? Json::object() : error_of(answer.error());
}

// Says at once where it can lead to nothing.
Json drain(Participant& participant, NodeId node, bool on) {
  const auto answer = participant.ask(controller::Drain{node, on});
  if (!answer) return error_of(answer.error());
  auto seen = ask_nodes(participant);
  if (!seen) return error_of(seen.error());
  const NodeSeen& of = (*seen)[node];
  return {{"node", node.value},
          {"chains_left", of.chains_left},
          {"chains_without_place", of.chains_without_place}};
}

// Of this process, so far: what chains and their targets did.
Json traffic() {
  constexpr std::pair<const char*, const char*> kCounters[] = {
      {"store.read.ops", "reads"},           {"store.read.bytes", "read_bytes"},
      {"chain.updates", "updates"},          {"store.write.bytes", "written_bytes"},
      {"chain.repaired", "chunks_repaired"}, {"chain.repaired.bytes", "repaired_bytes"},
      {"chain.healed", "blocks_healed"},     {"chain.retries", "retries"}};
  Json words = Json::object();
  for (const auto& [counter, name] : kCounters) words[name] = uint64_t{0};
  for (const metrics::Sample& sample : metrics::snapshot()) {
    for (const auto& [counter, name] : kCounters) {
      if (sample.name == counter) words[name] = sample.value;
    }
  }
  return words;
}

// 0 where it says none, or something else.
uint32_t number_in(const Json& request, const char* key) {
  const auto found = request.find(key);
  if (found == request.end() || !found->is_number_unsigned()) return 0;
  return static_cast<uint32_t>(std::min(found->get<uint64_t>(), uint64_t{UINT32_MAX}));
}

Json create_token(Participant& participant, const Json& request) {
  const auto restriction = restriction_in(request);
  if (!restriction) return error_of(restriction.error());
  const auto invitation = participant.make_token(
      static_cast<uint8_t>(std::min<uint32_t>(number_in(request, "roles"), UINT8_MAX)),
      number_in(request, "uses"), NodeId(number_in(request, "node")),
      std::chrono::seconds(number_in(request, "seconds")), *restriction);
  if (!invitation) return error_of(invitation.error());
  return {{"invitation", cluster::text_of(*invitation)}};
}

Json restrict_node(Participant& participant, const Json& request) {
  const NodeId id(number_in(request, "node"));
  auto what = restriction_in(request);
  if (!what) return error_of(what.error());
  const auto answer = participant.ask(controller::Restrict{id, std::move(*what)});
  if (!answer) return error_of(answer.error());
  const ClusterMap map = participant.map();
  const controller::Node* const node = map.find(id);
  return {{"node", id.value},
          {"has_disks", node != nullptr && (node->facts.roles & controller::kRoleStorage) != 0},
          {"insecure", participant.status().insecure}};
}

Json list_tokens(Participant& participant) {
  Json tokens = Json::array();
  const int64_t now = engine::system_clock().wall().nanoseconds;
  membership::AskTokens from;
  for (int i = 0; i < kPiecesMax; ++i) {
    const auto answer = participant.ask(from);
    if (!answer) return error_of(answer.error());
    const auto* piece = std::get_if<membership::TokensPiece>(&*answer);
    if (piece == nullptr) return {{"error", "the controller answers otherwise"}};
    for (const controller::Token& token : piece->tokens) {
      tokens.push_back({{"token", token.id.value},
                        {"roles", cluster::roles_text(token.roles)},
                        {"node", token.node.value},
                        {"uses", token.uses},
                        {"used", token.used_by.size()},
                        {"restriction", rights::text_of(token.restriction)},
                        {"made", token.made.nanoseconds / kOneSecond},
                        {"ends", token.ends.nanoseconds / kOneSecond},
                        {"ended", token.ends.nanoseconds <= now}});
    }
    if (piece->last || piece->tokens.empty()) break;
    from.from = controller::TokenId(piece->tokens.back().id.value + 1);
  }
  return {{"tokens", tokens}};
}

}  // namespace

std::string command_of(const Json& request) {
  return text_at(request, "command");
}

bool flag(const Json& request, const char* key) {
  return flag_at(request, key);
}

Outcome<uint32_t> chains_without_place(Participant& participant, NodeId node) {
  TRY_ASSIGN(auto seen, ask_nodes(participant));
  return seen[node].chains_without_place;
}

Json json_of(const cluster::ParticipantStatus& status) {
  Json targets = Json::array();
  for (const auto& target : status.targets) {
    targets.push_back({{"target", target.id.value},
                       {"directory", target.directory},
                       {"trouble", target.trouble},
                       {"updates_pending", target.pending},
                       {"calls_waiting", target.waiting},
                       {"chains", target.chains},
                       {"capacity_bytes", target.capacity_bytes},
                       {"used_bytes", target.used_bytes}});
  }
  Json peers = Json::array();
  for (const tcp::PeerFacts& peer : status.peers) {
    peers.push_back({{"node", peer.address.node.value},
                     {"service", peer.address.service},
                     {"connected", peer.connected},
                     {"trouble", peer.trouble}});
  }
  Json rails = Json::array();
  for (const rails::RailFacts& rail : status.rails) {
    rails.push_back({{"node", rail.address.node.value},
                     {"service", rail.address.service},
                     {"device", rail.device},
                     {"reason", rail.reason}});
  }
  return {{"node", status.node.value},
          {"listen", status.listen},
          {"controller", cluster::runs_controller(status.roles)},
          {"roles", roles_json(status.roles)},
          {"leads", status.leads},
          {"invitation", cluster::text_of(status.invitation)},
          {"insecure", status.insecure},
          {"certificate_ends", status.certificate_ends.nanoseconds / kOneSecond},
          {"map_version", status.applied.value},
          {"lease_seconds_left", status.lease_left ? seconds_of(*status.lease_left) : 0.0},
          {"targets", targets},
          {"peers", peers},
          {"rails", rails},
          {"without_rdma", status.without_rdma},
          {"traffic", traffic()}};
}

std::optional<Json> answer_about_cluster(Participant* participant, const Json& request) {
  const std::string command = command_of(request);
  const bool is_ours = command == "cluster" || command == "nodes" || command == "chains" ||
                       command == "drain" || command == "remove" || command == "token create" ||
                       command == "token list" || command == "token revoke" ||
                       command == "restrict";
  if (!is_ours) return std::nullopt;
  if (participant == nullptr) {
    return Json{
        {"error", "this node is alone: it is of no cluster (start it with --listen HOST:PORT)"}};
  }
  if (command == "cluster") return cluster_json(*participant);
  if (command == "nodes") return nodes_json(*participant);
  if (command == "chains") return chains_json(*participant);
  if (command == "token create") return create_token(*participant, request);
  if (command == "token list") return list_tokens(*participant);
  if (command == "restrict") return restrict_node(*participant, request);
  if (command == "token revoke") {
    const controller::TokenId token(number_in(request, "token"));
    return order(*participant, controller::RevokeToken{token});
  }
  const auto found = request.find("node");
  if (found == request.end() || !found->is_number_unsigned()) {
    return Json{{"error", command + ": name a node"}};
  }
  const NodeId node(static_cast<uint32_t>(std::min(found->get<uint64_t>(), uint64_t{UINT32_MAX})));
  if (command == "drain") return drain(*participant, node, !flag(request, "undo"));
  return order(*participant, controller::Remove{node, flag(request, "force")});
}

Outcome<void> make_table(Participant& participant, uint32_t copies,
                         const std::function<bool()>& is_offered) {
  controller::TablePlan plan;
  plan.copies = copies;
  const size_t targets = targets_that_stay(participant.map());
  plan.chains =
      static_cast<uint32_t>(std::min(targets * kChainsOfTarget, size_t{kChainsOfNewTableMax}));
  TRY(participant.ask(plan));
  const auto end = std::chrono::steady_clock::now() + kOfferTime;
  while (!is_offered()) {
    if (std::chrono::steady_clock::now() >= end) {
      return Failure{Code::timed_out,
                     "the table of chains was made, and this node has not heard "
                     "of it yet (try again in a moment)"};
    }
    std::this_thread::sleep_for(kOfferLook);
  }
  return {};
}

}  // namespace penstock::apps
