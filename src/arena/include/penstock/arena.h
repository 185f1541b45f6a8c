// The node cache's memory: segments of DRAM that an agent fills and applications map read-only,
// look bytes up in and copy them out of without asking the agent.
#pragma once

#include "penstock/arena/arena.h"
#include "penstock/arena/layout.h"
#include "penstock/arena/reader.h"
#include "penstock/arena/segment.h"
#include "penstock/arena/touch_log.h"
