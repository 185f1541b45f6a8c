// The application's end of a session: calls, files, regions, and the way to the agent's successor.
#pragma once

#include "penstock/connection/connection.h"
#include "penstock/connection/error.h"
#include "penstock/connection/follower.h"
#include "penstock/connection/forked.h"
#include "penstock/connection/left_behind.h"
#include "penstock/connection/limits.h"
#include "penstock/connection/numbers.h"
#include "penstock/connection/open_files.h"
#include "penstock/connection/region.h"
#include "penstock/connection/regions.h"
#include "penstock/connection/shared_memory.h"
#include "penstock/connection/where.h"
#include "penstock/connection/zeroed_words.h"
