// What tests of every library share. Production code never includes this: tools/check_layers.py
// sees to it.
#pragma once

#include "penstock/testing/allocations.h"
#include "penstock/testing/content.h"
#include "penstock/testing/environment.h"
#include "penstock/testing/files.h"
#include "penstock/testing/hanging_file.h"
#include "penstock/testing/mapped_memory.h"
#include "penstock/testing/memory_group.h"
#include "penstock/testing/no_more_threads.h"
#include "penstock/testing/other_process.h"
#include "penstock/testing/processes.h"
#include "penstock/testing/scratch_directory.h"
#include "penstock/testing/shared_memory.h"
#include "penstock/testing/waiting.h"
