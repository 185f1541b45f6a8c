#include "disk_orders.h"

#include "cluster_admin.h"

#include <algorithm>
#include <fmt/format.h>

namespace penstock::apps {
namespace {

using agent::DiskStatus;
using membership::ClusterMap;

Json error_of(const std::string& why) {
  return {{"error", why}};
}

Outcome<DiskStatus> disk_at(const NodeWithDisks& node, const std::string& path) {
  std::string others;
  for (const DiskStatus& disk : node.disks) {
    if (disk.is_taken_off) continue;
    if (disk.path == path) return disk;
    others += (others.empty() ? "" : ", ") + disk.path;
  }
  return Failure{Code::not_found,
                 others.empty()
                     ? path +
                           ": this node was given no disks; what it has lies in its own "
                           "directory, and goes with the node ('penstock drain DIR NODE')"
                     : fmt::format("{}: is no disk of this node; it has {}", path, others)};
}

// Null: the cluster has never had it, or does not have it any more.
const controller::Target* target_of(const ClusterMap& map, const DiskStatus& disk) {
  for (const auto& [id, target] : map.targets()) {
    if (target.uuid == disk.target && !target.forgotten) return &target;
  }
  return nullptr;
}

Json drain(const NodeWithDisks& node, const DiskStatus& disk, bool on) {
  const ClusterMap map = node.participant->map();
  const controller::Target* const target = target_of(map, disk);
  if (on && (target == nullptr || !disk.trouble.empty())) {
    return error_of(disk.path +
                    ": is missing, so nothing can be moved from it ('penstock remove DIR --disk' "
                    "has others make copies of what it had)");
  }
  if (target == nullptr) return error_of(disk.path + ": the cluster does not have it");
  const auto answer = node.participant->ask(controller::DrainTarget{target->id, on});
  if (!answer) return error_of(answer.error().message);
  auto without = chains_without_place(*node.participant, target->node);
  if (!without) return error_of(without.error().message);
  return {{"disk", disk.path},
          {"target", target->id.value},
          {"chains_left", map.chains_of(target->id).size()},
          {"chains_without_place", *without}};
}

// First the cluster gives it up, then the node does: asked again it goes on where it was.
Json remove(const NodeWithDisks& node, const DiskStatus& disk, bool force) {
  const ClusterMap map = node.participant->map();
  if (const controller::Target* const target = target_of(map, disk)) {
    const auto answer = node.participant->ask(controller::Forget{target->id, force});
    if (!answer) return error_of(disk.path + ": " + answer.error().message);
  }
  const auto taken = node.take_off(disk.path);
  if (!taken) return error_of(taken.error().message);
  log::info("{}: was taken off the list of disks", disk.path);
  return {{"disk", disk.path}, {"is_open", disk.trouble.empty()}};
}

}  // namespace

std::optional<Json> answer_about_disk(const NodeWithDisks& node, const Json& request) {
  const std::string command = command_of(request);
  const auto path = request.find("disk");
  if (path == request.end() || !path->is_string()) return std::nullopt;
  if (command != "drain" && command != "remove") return std::nullopt;
  if (node.participant == nullptr) {
    return error_of("this node is alone, and has no disks but that of its directory");
  }
  const auto disk = disk_at(node, path->get<std::string>());
  if (!disk) return error_of(disk.error().message);
  if (command == "drain") return drain(node, *disk, !flag(request, "undo"));
  return remove(node, *disk, flag(request, "force"));
}

}  // namespace penstock::apps
