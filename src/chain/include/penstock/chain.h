// Chunks in several copies: chain replication.
#pragma once

#include "penstock/chain/host.h"
#include "penstock/chain/view.h"
