// What a process of a cluster plays (decision 0054): bits of controller::Role.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "penstock/controller.h"

namespace penstock::cluster {

inline constexpr uint8_t kAllRoles = controller::kRoles;
inline constexpr uint8_t kStorageOnly = controller::kRoleStorage;

inline bool has_names(uint8_t roles) {
  return (roles & controller::kRoleMeta) != 0;
}
inline bool runs_controller(uint8_t roles) {
  return (roles & controller::kRoleController) != 0;
}
inline bool has_storage(uint8_t roles) {
  return (roles & controller::kRoleStorage) != 0;
}

// "controller,meta,storage,agent", in this order, or a part of it.
std::string roles_text(uint8_t roles);
// In any order, each once. Fails, with a reason for people, for what no process can play.
Outcome<uint8_t> parse_roles(std::string_view text);

}  // namespace penstock::cluster
