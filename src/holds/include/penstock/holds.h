// Which agents may keep what of an inode, and change it: docs/decisions/0061.
#pragma once

#include "penstock/holds/changes.h"
#include "penstock/holds/holding.h"
#include "penstock/holds/keeper.h"
#include "penstock/holds/limits.h"
#include "penstock/holds/table.h"
#include "penstock/holds/words.h"
