// Chunks in several copies: chain replication.
#pragma once

#include "penstock/chain/buffers.h"
#include "penstock/chain/capabilities.h"
#include "penstock/chain/chain_net.h"
#include "penstock/chain/host.h"
#include "penstock/chain/known_chains.h"
#include "penstock/chain/view.h"
