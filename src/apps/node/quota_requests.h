// What a node answers about quotas: set, listed, deleted, checked.
#pragma once

#include "admin.h"

#include <optional>

#include "penstock/client.h"

namespace penstock::apps {

// nullopt: the request is about something else.
std::optional<Json> answer_about_quota(client::FileSystem& files, const Json& request);

}  // namespace penstock::apps
