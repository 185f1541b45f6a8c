// What applications share with this process, memory and descriptors, and how much of the node each
// may hold.
#pragma once

#include "penstock/resources/accounts.h"
#include "penstock/resources/bus_guard.h"
#include "penstock/resources/device_addresses.h"
#include "penstock/resources/foreign_fd.h"
#include "penstock/resources/foreign_memory.h"
#include "penstock/resources/page_fence.h"
#include "penstock/resources/process_memory.h"
#include "penstock/resources/registered_buffers.h"
