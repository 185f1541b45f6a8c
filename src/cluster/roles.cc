#include "penstock/cluster/roles.h"

#include <fmt/format.h>

namespace penstock::cluster {
Outcome<uint8_t> parse_roles(std::string_view text) {
  const auto refused = [&](const char* why) {
    return Failure{Code::invalid_argument, fmt::format("roles '{}': {}", text, why)};
  };
  uint8_t roles = 0;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const uint8_t role = engine::role_of(text.substr(begin, end - begin));
    if (role == 0) return refused("they are controller, meta, storage, agent and admin");
    if ((roles & role) != 0) return refused("one is named twice");
    roles |= role;
    begin = end + 1;
  }
  if (has_names(roles) && !has_agent(roles)) {
    return refused("meta goes with agent: whoever has the names looks after files, too");
  }
  ASSERT(roles != 0);
  if (roles == controller::kRoleAdmin) {
    return refused("admin goes with another role: it is the right to give the cluster orders");
  }
  return roles;
}

}  // namespace penstock::cluster
