// Every seam, deterministic and faulty: a whole node in one thread, from one seed.
//
//   sim::SimWorld world(seed);
//   sim::SimLoop loop(world);                    // an engine::Loop on virtual time
//   sim::SimDiskImage platter(world);            // outlives the "process"
//   sim::SimKvImage records(world);
//   {
//     sim::SimDisk disk(platter, loop);
//     sim::SimKv kv(records);
//     ... build the store; whatever waits lets the world go on ...
//     platter.power_cut();                       // what is in flight ends with Code::closed
//     records.power_cut();
//   }
//   ... open again on the same images ...
//
// Nothing here but SimDeviceMemory is thread safe: everything of one world belongs to one thread.
#pragma once

#include "penstock/sim/device_memory.h"
#include "penstock/sim/disk.h"
#include "penstock/sim/kv.h"
#include "penstock/sim/net.h"
#include "penstock/sim/world.h"
