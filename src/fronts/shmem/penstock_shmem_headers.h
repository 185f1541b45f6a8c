// The generated headers, for the sources that define what they declare.
#pragma once

#define SHMEM_WITHOUT_OVERLOADS
#include <pshmem.h>

// Definitions have the profiling names; the program's names are weak aliases of them, so that a
// profiling library's own definitions take their place. Both are seen from outside.
#define SHMEM_DEFINE extern "C" __attribute__((visibility("default")))
#define SHMEM_ALIAS(name) \
  extern "C" __attribute__((weak, alias("p" #name), visibility("default"))) decltype(p##name) name
