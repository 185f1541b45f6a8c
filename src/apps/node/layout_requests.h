// What `penstock layout` and `penstock set` ask a running node.
#pragma once

#include "penstock/client.h"
#include "penstock/json.h"

namespace penstock::apps {

// Of a file, or of what a directory's new files get, and what there is to choose from. {"path"}
Json layout_of(client::FileSystem& files, const Json& request);
// {"path", "chunk_bytes", "stripe", "copies", "media"}: what is given changes.
Json set_layout(client::FileSystem& files, const Json& request);

}  // namespace penstock::apps
