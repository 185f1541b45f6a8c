// How bytes get from where they are into device memory, and back: the choice of the way, and the
// pipelines.
#pragma once

#include "penstock/route/deadlines.h"
#include "penstock/route/gatherer.h"
#include "penstock/route/host_source.h"
#include "penstock/route/mover.h"
#include "penstock/route/peer.h"
#include "penstock/route/steps.h"
#include "penstock/route/transfers.h"
