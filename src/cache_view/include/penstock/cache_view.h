// The node cache in this process: memory of the agent's that is mapped here for reading.
#pragma once

#include "penstock/cache_view/cache_gather.h"
#include "penstock/cache_view/cache_map.h"
#include "penstock/cache_view/cache_reaper.h"
#include "penstock/cache_view/cached_range.h"
#include "penstock/cache_view/view_hold.h"
