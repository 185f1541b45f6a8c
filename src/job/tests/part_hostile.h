// What no part of a launcher says.
#pragma once

#include <string>

namespace penstock::job {

// In the place of serve_node(): says hello like one, and then what `how` names. The exit code.
int pose_as_part(const std::string& how);

}  // namespace penstock::job
