// engine::Net over RDMA verbs: messages by send and receive, bytes by RDMA write and read through
// windows that are open for one call. Decision 0058; format: docs/formats/verbs.md.
#pragma once

#include "penstock/verbs/device.h"
#include "penstock/verbs/limits.h"
#include "penstock/verbs/message.h"
#include "penstock/verbs/net.h"
#include "penstock/verbs/provider.h"
#include "penstock/verbs/region.h"
