// Membership: the controller as a service, and the nodes that join it and act by its map.
#pragma once

#include "penstock/membership/ask.h"
#include "penstock/membership/cluster_map.h"
#include "penstock/membership/controller_service.h"
#include "penstock/membership/limits.h"
#include "penstock/membership/member.h"
#include "penstock/membership/messages.h"
