// What nodes are limited to, as commands and administrators' requests say it.
#pragma once

#include "penstock/json.h"
#include "penstock/rights.h"

namespace penstock::apps {

// As a person wrote it on a command line.
struct RestrictionWords {
  std::string uids;
  std::string gids;
  std::string squash;
  std::string subtree;
  bool read_only = false;
};

// Fields of a request; what is not said has none.
void put(Json& request, const RestrictionWords& words);
// Foreign input. What is wrong with it, and by which option it is said, is in the failure.
Outcome<rights::Restriction> restriction_in(const Json& request);

}  // namespace penstock::apps
