// What a process of a cluster may play, as bits (decision 0054); certificates name them by words
// (decision 0057).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::engine {

enum Role : uint8_t {
  kRoleController = 1,
  kRoleMeta = 2,
  kRoleStorage = 4,
  kRoleAgent = 8,
  kRoleAdmin = 16,  // it may pass on what persons order, as the node with the controller may
};
// All that there are. Whoever proves nothing, where nothing has to be proven, may play each.
inline constexpr uint8_t kEveryRole = 31;

// "controller,meta,storage,agent,admin", in this order, or a part of it.
std::string roles_text(uint8_t roles);
// Of one word; 0: there is no such role.
uint8_t role_of(std::string_view word);
// Of words with commas between them, foreign ones: a role of a later release counts for nothing.
uint8_t known_roles(std::string_view text);

}  // namespace penstock::engine
