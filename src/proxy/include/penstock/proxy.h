// Rings for GPU kernels, and the thread that serves them.
#pragma once

#include "penstock/proxy/device_ring.h"
#include "penstock/proxy/device_ring_memory.h"
#include "penstock/proxy/device_rings.h"
#include "penstock/proxy/file_service.h"
#include "penstock/proxy/limits.h"
#include "penstock/proxy/service.h"
