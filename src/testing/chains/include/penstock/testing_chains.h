// Chains of simulated targets under the controller's own step, clients, and what these may see.
#pragma once

#include "penstock/testing_chains/chain_table.h"
#include "penstock/testing_chains/history.h"
#include "penstock/testing_chains/register_client.h"
#include "penstock/testing_chains/storage.h"
#include "penstock/testing_chains/storage_node.h"
