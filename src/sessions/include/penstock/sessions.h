// Sessions of applications: what they hold of a node, and the answers to their requests.
#pragma once

#include "penstock/sessions/handle_table.h"
#include "penstock/sessions/limits.h"
#include "penstock/sessions/mount_table.h"
#include "penstock/sessions/packet.h"
#include "penstock/sessions/region_links.h"
#include "penstock/sessions/session.h"
#include "penstock/sessions/session_node.h"
#include "penstock/sessions/token.h"
