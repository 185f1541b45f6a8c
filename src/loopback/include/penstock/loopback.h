// Two nodes of one process that are connected over loopback, and bare sockets to measure them
// against: for benches of nets.
#pragma once

#include "penstock/loopback/bare.h"
#include "penstock/loopback/figures.h"
#include "penstock/loopback/nodes.h"
