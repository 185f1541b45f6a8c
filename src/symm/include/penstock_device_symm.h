// Symmetric memory from kernels: header only, with and without relocatable device code.
//
// All calls are given the state that the unit was told (symm/state.h). Calls that wait say whether
// what they waited for has come; calls that are given an address or a PE that is not there end the
// kernel (symm/address.h).
#pragma once

#include "penstock_device/symm/address.h"
#include "penstock_device/symm/atomics.h"
#include "penstock_device/symm/collectives.h"
#include "penstock_device/symm/copy.h"
#include "penstock_device/symm/memory.h"
#include "penstock_device/symm/primitives.h"
#include "penstock_device/symm/reduce.h"
#include "penstock_device/symm/signal.h"
#include "penstock_device/symm/state.h"
#include "penstock_device/symm/sync.h"
#include "penstock_device/symm/team.h"
#include "penstock_device/symm/wait.h"
