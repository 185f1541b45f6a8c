// What a node tells the service manager that started it. Protocol: sd_notify(3).
#pragma once

#include <string_view>

namespace penstock::apps {

// Whether the process was started by one that wants to be told.
bool is_supervised();

// Lines as "READY=1". Nothing is done, or waited for, where nobody listens.
void tell_supervisor(std::string_view lines);

}  // namespace penstock::apps
