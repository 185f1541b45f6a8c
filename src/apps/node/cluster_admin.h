// What administrators ask a node about its cluster, and order there.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "penstock/cluster.h"
#include "penstock/json.h"

namespace penstock::apps {

// The command of a request, which may hold anything; empty if it has none.
std::string command_of(const Json& request);

// Whether the request has that word, and it is true.
bool flag(const Json& request, const char* key);

// What a node says of its own part.
Json json_of(const cluster::ParticipantStatus& status);

// Answers "cluster", "nodes", "chains", "drain" and "remove"; nothing if the request is none of
// these. A node that is alone (null) answers them with an error.
std::optional<Json> answer_about_cluster(cluster::Participant* participant, const Json& request);

// Chains that a node has to hand over and that nobody can take now. Asks the controller.
Outcome<uint32_t> chains_without_place(cluster::Participant& participant, NodeId node);

// Targets that are to stay.
size_t targets_that_stay(const membership::ClusterMap& map);

// A table of chains of so many copies over all targets of the cluster, which is offered when this
// returns, if it goes well.
Outcome<void> make_table(cluster::Participant& participant, uint32_t copies,
                         const std::function<bool()>& is_offered);

}  // namespace penstock::apps
