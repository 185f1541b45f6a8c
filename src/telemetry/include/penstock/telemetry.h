// What operations took, counted by the thread that carries them out, and how figures are written
// down for Prometheus.
#pragma once

#include "penstock/telemetry/exposition.h"
#include "penstock/telemetry/latency.h"
#include "penstock/telemetry/operations.h"
#include "penstock/telemetry/trace.h"
