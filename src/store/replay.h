// Brings back what the log of durable writes has and the block maps do not, when a target is
// opened.
#pragma once

#include "core.h"

namespace penstock::store {

// Brings bytes and block maps of all records behind the mark to where they belong, and begins the
// log anew, empty. `record` is what the database says of it, `names` are those in the directory.
// Blocks. Before data files and maps are looked at.
Outcome<bool> replay_log(Core& core, const std::string& record, uint32_t format,
                         const std::vector<std::string>& names);

}  // namespace penstock::store
