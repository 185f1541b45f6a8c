// Finding the agent that a name means.
#pragma once

#include <string>
#include <vector>

#include "penstock/base.h"

namespace penstock::connection {

// The path of an agent's socket, from a socket, a store directory, or a path inside a mount.
Outcome<std::string> find_socket(const std::string& where);

// The store directory of the mount that holds `path`; empty when it is on no mount of ours.
std::string store_of_mount(const std::string& path, const std::vector<MountEntry>& mounts);

}  // namespace penstock::connection
