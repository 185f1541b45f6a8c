#include "penstock/cluster/roles.h"

#include <fmt/format.h>

namespace penstock::cluster {
namespace {

struct Word {
  uint8_t role;
  std::string_view name;
};
constexpr Word kWords[] = {{controller::kRoleController, "controller"},
                           {controller::kRoleMeta, "meta"},
                           {controller::kRoleStorage, "storage"},
                           {controller::kRoleAgent, "agent"}};

uint8_t role_of(std::string_view name) {
  for (const Word& word : kWords) {
    if (word.name == name) return word.role;
  }
  return 0;
}

}  // namespace

std::string roles_text(uint8_t roles) {
  ASSERT((roles & ~kAllRoles) == 0);
  std::string text;
  for (const Word& word : kWords) {
    if ((roles & word.role) == 0) continue;
    if (!text.empty()) text += ',';
    text += word.name;
  }
  return text;
}

Outcome<uint8_t> parse_roles(std::string_view text) {
  const auto refused = [&](const char* why) {
    return Failure{Code::invalid_argument, fmt::format("roles '{}': {}", text, why)};
  };
  uint8_t roles = 0;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const uint8_t role = role_of(text.substr(begin, end - begin));
    if (role == 0) return refused("they are controller, meta, storage and agent");
    if ((roles & role) != 0) return refused("one is named twice");
    roles |= role;
    begin = end + 1;
  }
  const bool has_agent = (roles & controller::kRoleAgent) != 0;
  if (has_names(roles) != has_agent) {
    return refused("meta and agent go together: names are in the process of the agent");
  }
  ASSERT(roles != 0);
  return roles;
}

}  // namespace penstock::cluster
