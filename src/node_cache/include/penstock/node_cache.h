// The node cache: files' bytes in DRAM, which applications read without asking.
#pragma once

#include "penstock/node_cache/cache_lease.h"
#include "penstock/node_cache/limits.h"
#include "penstock/node_cache/node_cache.h"
#include "penstock/node_cache/shard_fills.h"
