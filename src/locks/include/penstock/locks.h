// Locks of files for all nodes of a cluster: docs/decisions/0063.
#pragma once

#include "penstock/locks/limits.h"
#include "penstock/locks/locking.h"
#include "penstock/locks/ranges.h"
#include "penstock/locks/table.h"
#include "penstock/locks/words.h"
