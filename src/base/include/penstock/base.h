// The vocabulary that every library shares. Include this header; the parts are listed for reading.
#pragma once

#include "penstock/base/assert.h"
#include "penstock/base/bytes.h"
#include "penstock/base/crc32c.h"
#include "penstock/base/fd.h"
#include "penstock/base/histogram.h"
#include "penstock/base/id.h"
#include "penstock/base/intrusive_list.h"
#include "penstock/base/kept_file.h"
#include "penstock/base/limits.h"
#include "penstock/base/log.h"
#include "penstock/base/metrics.h"
#include "penstock/base/mounts.h"
#include "penstock/base/result.h"
#include "penstock/base/status.h"
#include "penstock/base/thread.h"
#include "penstock/base/update_name.h"
