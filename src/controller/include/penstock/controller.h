// The controller's pure core: who belongs to a cluster, and which targets hold which chain. No
// threads, no network, no clock.
#pragma once

#include "penstock/controller/codec.h"
#include "penstock/controller/keeper.h"
#include "penstock/controller/limits.h"
#include "penstock/controller/placement.h"
#include "penstock/controller/records.h"
#include "penstock/controller/state.h"
#include "penstock/controller/step.h"
#include "penstock/controller/types.h"
