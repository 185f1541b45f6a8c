// Holds between processes: a service where the names are, and what each process with a file system
// has of it.
#pragma once

#include "penstock/holds_net/holds_agent.h"
#include "penstock/holds_net/holds_service.h"
