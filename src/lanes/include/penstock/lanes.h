// Sessions, rings and lanes: operations of an application, carried out by an agent or by transfers.
#pragma once

#include "penstock/lanes/lane.h"
#include "penstock/lanes/lane_events.h"
#include "penstock/lanes/lane_queues.h"
#include "penstock/lanes/lane_slots.h"
#include "penstock/lanes/lane_transfers.h"
#include "penstock/lanes/limits.h"
#include "penstock/lanes/operation.h"
#include "penstock/lanes/ring.h"
#include "penstock/lanes/rings.h"
#include "penstock/lanes/session.h"
#include "penstock/lanes/side_lock.h"
#include "penstock/lanes/transfer_pool.h"
