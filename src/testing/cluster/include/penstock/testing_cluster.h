// Nodes of a simulated cluster, and what programs on them may see.
#pragma once

#include "penstock/testing_cluster/faulty_pair.h"
#include "penstock/testing_cluster/register.h"
#include "penstock/testing_cluster/register_file.h"
#include "penstock/testing_cluster/sim_node.h"
