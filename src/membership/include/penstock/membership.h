// What nodes and the controller say to one another.
#pragma once

#include "penstock/membership/limits.h"
#include "penstock/membership/messages.h"
