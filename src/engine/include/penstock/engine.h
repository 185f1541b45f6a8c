// The seams between protocol code and the world, and the loop that drives it. Everything that
// depends on time, randomness, disks, the network or a database is reached through these
// interfaces only, so that a whole cluster can run in one thread from one seed.
#pragma once

#include "penstock/engine/blocking.h"
#include "penstock/engine/clock.h"
#include "penstock/engine/device_memory.h"
#include "penstock/engine/disk.h"
#include "penstock/engine/kv.h"
#include "penstock/engine/loop.h"
#include "penstock/engine/memory.h"
#include "penstock/engine/net.h"
#include "penstock/engine/op.h"
#include "penstock/engine/random.h"
#include "penstock/engine/repeated_log.h"
#include "penstock/engine/roles.h"
#include "penstock/engine/threads.h"
#include "penstock/engine/wall_text.h"
#include "penstock/engine/worker_pool.h"
