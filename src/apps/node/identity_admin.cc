#include "identity_admin.h"

#include "cluster_admin.h"

namespace penstock::apps {
namespace {

using cluster::AuthorityStatus;

Json json_of(const AuthorityStatus::One& one) {
  return {{"fingerprint", one.fingerprint}, {"ends", one.ends.nanoseconds / 1'000'000'000}};
}

Json numbers_of(const std::vector<NodeId>& nodes) {
  Json numbers = Json::array();
  for (const NodeId node : nodes) numbers.push_back(node.value);
  return numbers;
}

Json json_of(const AuthorityStatus& status) {
  Json answer = {{"stage", !status.next ? "one" : (status.signs ? "signs" : "trusted")},
                 {"authority", json_of(status.authority)},
                 {"ends_soon", status.ends_soon},
                 {"lost", status.lost},
                 {"waiting", numbers_of(status.waiting)},
                 {"left", numbers_of(status.left)}};
  if (!status.next) return answer;
  answer["next"] = json_of(*status.next);
  answer["next"]["signed_by_the_one_before"] = status.is_crossed;
  return answer;
}

}  // namespace

std::optional<Json> answer_about_identity(cluster::Participant* participant, const Json& request) {
  const std::string command = command_of(request);
  if (command != "identity status" && command != "identity renew") return std::nullopt;
  if (participant == nullptr) {
    return Json{
        {"error", "this node is alone: it is of no cluster (start it with --listen HOST:PORT)"}};
  }
  const auto status = command == "identity status"
                          ? participant->authority()
                          : participant->renew_authority(flag(request, "force"));
  if (!status) return Json{{"error", status.error().message}};
  return json_of(*status);
}

}  // namespace penstock::apps
