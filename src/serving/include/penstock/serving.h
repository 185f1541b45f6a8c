// Serving the rings of sessions on a shard.
#pragma once

#include "penstock/serving/limits.h"
#include "penstock/serving/ring_server.h"
#include "penstock/serving/route_counters.h"
#include "penstock/serving/shard_batch.h"
#include "penstock/serving/shard_share.h"
#include "penstock/serving/tables.h"
