// What leaves a process as messages: fixed structs for chunk I/O, schema-driven messages for the
// rest. Include this header; the parts are listed for reading.
#pragma once

#include "penstock/wire/agent_session.h"
#include "penstock/wire/capability.h"
#include "penstock/wire/chain_io.h"
#include "penstock/wire/chunk_io.h"
#include "penstock/wire/membership_io.h"
#include "penstock/wire/node_version.h"
#include "penstock/wire/session.h"
