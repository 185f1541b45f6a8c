// Locks between processes: a service where the names are, and what each process with a file system
// has of it.
#pragma once

#include "penstock/locks_net/locks_agent.h"
#include "penstock/locks_net/locks_service.h"
