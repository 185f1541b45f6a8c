// What a process of a cluster plays (decision 0054): bits of engine::Role.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "penstock/controller.h"

namespace penstock::cluster {

// What a first node plays by itself: it needs no right to give orders beside them.
inline constexpr uint8_t kAllRoles = controller::kRoles & ~controller::kRoleAdmin;
inline constexpr uint8_t kStorageOnly = controller::kRoleStorage;
// What a node plays that joins: its disks for all, and all files for it.
inline constexpr uint8_t kJoiningRoles = controller::kRoleStorage | controller::kRoleAgent;

inline bool has_names(uint8_t roles) {
  return (roles & controller::kRoleMeta) != 0;
}
// Has a file system: by the names of its own, or by those of another node.
inline bool has_agent(uint8_t roles) {
  return (roles & controller::kRoleAgent) != 0;
}
inline bool runs_controller(uint8_t roles) {
  return (roles & controller::kRoleController) != 0;
}
inline bool has_storage(uint8_t roles) {
  return (roles & controller::kRoleStorage) != 0;
}

using engine::roles_text;
// In any order, each once. Fails, with a reason for people, for what no process can play.
Outcome<uint8_t> parse_roles(std::string_view text);

}  // namespace penstock::cluster
