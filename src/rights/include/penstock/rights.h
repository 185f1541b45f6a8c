// What a node of a cluster may do, as a person has limited it.
#pragma once

#include "penstock/rights/restriction.h"
