// What administrators ask a node about how well it and others are reached.
#pragma once

#include "admin.h"

#include <optional>

#include "penstock/cluster.h"

namespace penstock::apps {

// Answers "check net" ({"node": number or name, if only one is meant, "milliseconds"}) and "measure
// net" ({"node", "workloads"}, as workloads_json() makes them); nothing if the request is neither.
// A node that is alone (null) answers {"alone": true}. Blocks while it is measured; `say` gets
// empty lines meanwhile, and ends it by its refusal.
std::optional<Json> answer_about_network(cluster::Participant* participant, const Json& request,
                                         const AdminServer::Say& say);

// For a request; at most kWorkloadsMax.
inline constexpr size_t kWorkloadsMax = 64;
Json workloads_json(const std::vector<probe::Workload>& workloads);
// Foreign input.
Outcome<std::vector<probe::Workload>> parse_workloads(const Json& json);

}  // namespace penstock::apps
