// What a node answers about the trash: days, what lies there, giving it back, removing it for good.
#pragma once

#include "admin.h"

#include <optional>

#include "penstock/client.h"

namespace penstock::apps {

// nullopt: the request is about something else. What takes long is asked for in steps: an answer
// without "finished" has what the next request is to say.
std::optional<Json> answer_about_trash(client::FileSystem& files, const Json& request);

}  // namespace penstock::apps
