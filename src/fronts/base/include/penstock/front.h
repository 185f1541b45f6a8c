// What fronts have in common: sessions by mount, lanes, parts of long operations, and forks.
#pragma once

#include "penstock/front/fork.h"
#include "penstock/front/lane_pool.h"
#include "penstock/front/limits.h"
#include "penstock/front/mount_table.h"
#include "penstock/front/parts.h"
#include "penstock/front/sessions.h"
