// Shared-memory rings: the layout, the application's side and the agent's side; and
// rings between GPU kernels and a thread of their process.
#pragma once

#include "penstock/ring/agent_side.h"
#include "penstock/ring/app_side.h"
#include "penstock/ring/geometry.h"
#include "penstock/ring/kernel_queue.h"
#include "penstock/ring/layout.h"
#include "penstock/ring/remainder.h"
#include "penstock/ring/wake.h"
