// A process's part in a cluster.
#pragma once

#include "penstock/cluster/authority.h"
#include "penstock/cluster/invitation.h"
#include "penstock/cluster/listening.h"
#include "penstock/cluster/participant.h"
#include "penstock/cluster/roles.h"
