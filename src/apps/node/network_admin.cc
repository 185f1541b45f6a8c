#include "network_admin.h"

#include "cluster_admin.h"

#include <algorithm>
#include <fmt/format.h>

namespace penstock::apps {
namespace {

using cluster::Participant;
using membership::ClusterMap;
using probe::Workload;

constexpr const char* kKinds[] = {"echo", "place", "fetch"};

Json net_error(const Failure& failure) {
  return {{"error", failure.message}};
}

std::vector<const controller::Node*> joined_nodes(const ClusterMap& map) {
  std::vector<const controller::Node*> nodes;
  for (const auto& [id, node] : map.nodes()) {
    if (node.standing != controller::Standing::removed) nodes.push_back(&node);
  }
  return nodes;
}

std::string names_of(const std::vector<const controller::Node*>& nodes) {
  std::string text;
  for (const controller::Node* node : nodes) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} ({})", node->id.value, node->facts.name);
  }
  return text;
}

// By its number, or by its name where one node only has that.
Outcome<NodeId> find_node(const ClusterMap& map, const std::string& text) {
  const std::vector<const controller::Node*> nodes = joined_nodes(map);
  std::vector<const controller::Node*> meant;
  for (const controller::Node* node : nodes) {
    if (std::to_string(node->id.value) == text) return node->id;
    if (node->facts.name == text) meant.push_back(node);
  }
  if (meant.size() == 1) return meant.front()->id;
  if (meant.empty()) {
    return Failure{Code::not_found,
                   fmt::format("the cluster has no node '{}'; it has {}", text, names_of(nodes))};
  }
  return Failure{Code::invalid_argument, fmt::format("several nodes are called '{}': {}; say which "
                                                     "by its number",
                                                     text, names_of(meant))};
}

// The node that is asked for; 0 where none is named.
Outcome<NodeId> node_in(Participant& participant, const ClusterMap& map, const Json& request) {
  const std::string named = text_at(request, "node");
  if (named.empty()) return NodeId();
  TRY_ASSIGN(const NodeId node, find_node(map, named));
  if (node != participant.self()) return node;
  return Failure{Code::invalid_argument,
                 fmt::format("node {} is the one that is asked: name another one", node.value)};
}

Json machines_json(const ClusterMap& map, const cluster::NetReport& report) {
  Json nodes = Json::array();
  for (const probe::NodeFacts& facts : report.machines) {
    const controller::Node* const known = map.find(facts.node);
    Json one = {{"node", facts.node.value},
                {"name", known != nullptr ? known->facts.name : ""},
                {"trouble", facts.trouble}};
    if (facts.machine) one["machine"] = probe::json_of(*facts.machine);
    nodes.push_back(std::move(one));
  }
  return nodes;
}

Json pairs_json(const cluster::NetReport& report) {
  Json pairs = Json::array();
  for (const probe::PairFacts& facts : report.pairs) {
    Json ways = Json::array();
    for (const probe::WayFacts& way : facts.ways) ways.push_back(probe::json_of(way));
    pairs.push_back({{"from", facts.from.value},
                     {"to", facts.to.value},
                     {"ways", ways},
                     {"trouble", facts.trouble}});
  }
  return pairs;
}

Json check_all(Participant& participant, const Json& request,
               const std::function<bool()>& goes_on) {
  const ClusterMap map = participant.map();
  const auto only = node_in(participant, map, request);
  if (!only) return net_error(only.error());
  const std::chrono::milliseconds time(std::clamp<uint64_t>(number_at(request, "milliseconds"),
                                                            probe::limits::kTimeMin.count(),
                                                            probe::limits::kTimeMax.count()));
  const auto report = participant.check_net({*only, time}, goes_on);
  if (!report) return net_error(report.error());
  return {{"node", report->self.value},
          {"nodes", machines_json(map, *report)},
          {"pairs", pairs_json(*report)}};
}

Json figures_json(const probe::Figures& figures) {
  return {{"calls_per_second", figures.calls_per_second()},
          {"median_ns", figures.median.count()},
          {"p99_ns", figures.p99.count()}};
}

Json measure_one(Participant& participant, const Json& request,
                 const std::function<bool()>& goes_on) {
  const auto found = request.find("workloads");
  auto workloads = parse_workloads(found != request.end() ? *found : Json());
  if (!workloads) return net_error(workloads.error());
  const auto node = node_in(participant, participant.map(), request);
  if (!node) return net_error(node.error());
  if (*node == NodeId()) return {{"error", "measure net: name a node"}};
  const auto measured = participant.measure_net(*node, std::move(*workloads), goes_on);
  if (!measured) return net_error(measured.error());
  Json ways = Json::array();
  for (const probe::MeasuredWay& way : *measured) {
    Json one = probe::json_of(way.facts);
    one["figures"] = Json::array();
    for (const probe::Figures& figures : way.figures) {
      one["figures"].push_back(figures_json(figures));
    }
    ways.push_back(std::move(one));
  }
  return {{"node", node->value}, {"ways", ways}};
}

}  // namespace

Json workloads_json(const std::vector<Workload>& workloads) {
  Json list = Json::array();
  for (const Workload& one : workloads) {
    const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(one.time);
    list.push_back({{"kind", kKinds[static_cast<size_t>(one.kind)]},
                    {"bytes", one.bytes},
                    {"depth", one.depth},
                    {"milliseconds", static_cast<uint64_t>(time.count())}});
  }
  return list;
}

Outcome<std::vector<Workload>> parse_workloads(const Json& json) {
  const Failure wrong{Code::invalid_argument, "measure net: these are no workloads"};
  if (!json.is_array() || json.empty() || json.size() > kWorkloadsMax) return wrong;
  std::vector<Workload> workloads;
  for (const Json& one : json) {
    if (!one.is_object()) return wrong;
    const auto kind = std::find(std::begin(kKinds), std::end(kKinds), text_at(one, "kind"));
    const uint64_t bytes = number_at(one, "bytes");
    const uint64_t depth = number_at(one, "depth");
    const uint64_t milliseconds = number_at(one, "milliseconds");
    const bool is_echo = kind == std::begin(kKinds);
    const bool is_good = kind != std::end(kKinds) && (bytes == 0) == is_echo &&
                         bytes <= probe::limits::kBytesMax && depth >= 1 &&
                         depth <= probe::limits::kDepthMax && milliseconds >= 1 &&
                         milliseconds <= static_cast<uint64_t>(probe::limits::kTimeMax.count()) &&
                         bytes * depth <= probe::limits::kBytesOfPeer;
    if (!is_good) return wrong;
    workloads.push_back({static_cast<Workload::Kind>(kind - std::begin(kKinds)),
                         static_cast<uint32_t>(bytes), static_cast<uint32_t>(depth),
                         std::chrono::milliseconds(milliseconds)});
  }
  return workloads;
}

std::optional<Json> answer_about_network(Participant* participant, const Json& request,
                                         const AdminServer::Say& say) {
  const std::string command = command_of(request);
  if (command != "check net" && command != "measure net") return std::nullopt;
  if (participant == nullptr) return Json{{"alone", true}};
  const auto goes_on = [&] { return say(Json::object()); };
  if (command == "check net") return check_all(*participant, request, goes_on);
  return measure_one(*participant, request, goes_on);
}

}  // namespace penstock::apps
