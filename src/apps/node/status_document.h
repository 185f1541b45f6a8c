// The status of a node as a document, and what people are told of it.
#pragma once

#include "admin.h"
#include "running_node.h"

#include <functional>

#include "penstock/agent.h"
#include "penstock/json.h"

namespace penstock::apps {

Json allowance_json(const client::Allowance& allowance);
Json json_of(const agent::AgentStatus& status);
Json json_of(const agent::NamesMoved& moved);

// Has a scrub done, tells meanwhile how far it is, and says what it found.
Json scrub_by(const std::function<agent::ScrubReport(const agent::ScrubProgress&)>& scrub,
              const AdminServer::Say& say);

// Has the names moved where the request says, and tells meanwhile how far that is.
using MoveNames =
    std::function<Outcome<agent::NamesMoved>(const std::string& to, const agent::NamesProgress&)>;
Json move_names_by(const MoveNames& move, const Json& request, const AdminServer::Say& say);

}  // namespace penstock::apps
