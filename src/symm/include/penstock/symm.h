// Symmetric memory: memory that each PE of a group has at the same place, and that the others reach
// by loads and stores. Include this header; the parts are listed for reading.
#pragma once

#include "penstock/symm/active_set.h"
#include "penstock/symm/atomics.h"
#include "penstock/symm/collectives.h"
#include "penstock/symm/device_access.h"
#include "penstock/symm/device_collectives.h"
#include "penstock/symm/device_heap.h"
#include "penstock/symm/device_streams.h"
#include "penstock/symm/device_words.h"
#include "penstock/symm/group.h"
#include "penstock/symm/heap.h"
#include "penstock/symm/lock.h"
#include "penstock/symm/patience.h"
#include "penstock/symm/pe_set.h"
#include "penstock/symm/rdma.h"
#include "penstock/symm/size_text.h"
#include "penstock/symm/team.h"
#include "penstock/symm/window.h"
#include "penstock/symm/words.h"
