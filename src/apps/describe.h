// The command line as data: what manual pages and completions are made from (packaging/).
#pragma once

#include <CLI/CLI.hpp>

#include "penstock/json.h"

namespace penstock::apps {

// Of an app and, in "commands", its subcommands in their order: "name", "aliases", "group",
// "description", "footer", and "options". An option has "names" (empty for one that stands alone by
// its place), "place" (its name in the usage line), "value" (what it takes, empty for a flag),
// "choices" (where it takes one of a list), "description", "required" and "repeated".
Json describe(const CLI::App& app);

}  // namespace penstock::apps
