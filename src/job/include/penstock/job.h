// How the processes of a job are started, meet, and learn of one another's end.
#pragma once

#include "penstock/job/host_address.h"
#include "penstock/job/hosts.h"
#include "penstock/job/launcher.h"
#include "penstock/job/limits.h"
#include "penstock/job/member.h"
#include "penstock/job/place.h"
#include "penstock/job/unique_id.h"
