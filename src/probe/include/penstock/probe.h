// How well nodes reach one another: a service that each of them has, who measures to it, and who
// asks all nodes to measure. Format: docs/formats/probe.md.
#pragma once

#include "penstock/probe/limits.h"
#include "penstock/probe/machine.h"
#include "penstock/probe/messages.h"
#include "penstock/probe/prober.h"
#include "penstock/probe/service.h"
#include "penstock/probe/survey.h"
