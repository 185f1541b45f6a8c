#include "penstock/engine/roles.h"

#include <algorithm>

#include "penstock/base.h"

namespace penstock::engine {
namespace {

struct Word {
  uint8_t role;
  std::string_view name;
};
constexpr Word kWords[] = {{kRoleController, "controller"},
                           {kRoleMeta, "meta"},
                           {kRoleStorage, "storage"},
                           {kRoleAgent, "agent"},
                           {kRoleAdmin, "admin"}};

}  // namespace

std::string roles_text(uint8_t roles) {
  ASSERT((roles & ~kEveryRole) == 0);
  std::string text;
  for (const Word& word : kWords) {
    if ((roles & word.role) == 0) continue;
    if (!text.empty()) text += ',';
    text += word.name;
  }
  return text;
}

uint8_t role_of(std::string_view word) {
  const auto* const found = std::find_if(std::begin(kWords), std::end(kWords),
                                         [&](const Word& one) { return one.name == word; });
  return found == std::end(kWords) ? uint8_t{0} : found->role;
}

uint8_t known_roles(std::string_view text) {
  uint8_t roles = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    roles |= role_of(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return roles;
}

}  // namespace penstock::engine
