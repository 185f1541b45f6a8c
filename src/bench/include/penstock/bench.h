// Ours and the reference in turn, in one run: what `penstock bench` and `penstock check` measure
// with.
#pragma once

#include "penstock/bench/gpu_node.h"
#include "penstock/bench/measure.h"
#include "penstock/bench/net.h"
#include "penstock/bench/report.h"
#include "penstock/bench/scratch.h"
#include "penstock/bench/suites.h"
#include "penstock/bench/symm.h"
#include "penstock/bench/symm_rails.h"
#include "penstock/bench/workload.h"
