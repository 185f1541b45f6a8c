// Models in GPU memory: brought there from their files over every link that there is, and written
// back as files.
#pragma once

#include "penstock/load/distribute.h"
#include "penstock/load/load.h"
#include "penstock/load/pieces.h"
#include "penstock/load/save.h"
#include "penstock/load/spread.h"
