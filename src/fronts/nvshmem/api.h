// What the files that define NVSHMEM's calls have in common.
#pragma once

#include "nvshmem_host.h"
#include "process.h"
#include "teams.h"

#include <cstdio>
#include <fmt/core.h>

#define NVSHMEM_DEFINE extern "C" __attribute__((visibility("default")))
