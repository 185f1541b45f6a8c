// What administrators ask the node with the controller about the cluster's authority, and order
// there.
#pragma once

#include <optional>

#include "penstock/cluster.h"
#include "penstock/json.h"

namespace penstock::apps {

// Answers "identity status" and "identity renew"; nothing if the request is neither. A node that is
// alone (null) answers them with an error.
std::optional<Json> answer_about_identity(cluster::Participant* participant, const Json& request);

}  // namespace penstock::apps
