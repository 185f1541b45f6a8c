// Nodes of tests, each in a process of its own, and the `penstock` command.
#pragma once

#include "penstock/testing_node/agent_process.h"
#include "penstock/testing_node/command.h"
#include "penstock/testing_node/node_process.h"
#include "penstock/testing_node/ports.h"
