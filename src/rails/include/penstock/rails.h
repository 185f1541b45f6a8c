// Which of its network cards a call of a loop goes by: RDMA where both nodes have it, else TCP.
#pragma once

#include "penstock/rails/announcements.h"
#include "penstock/rails/cards.h"
#include "penstock/rails/devices.h"
#include "penstock/rails/gpu_rails.h"
#include "penstock/rails/introductions.h"
#include "penstock/rails/limits.h"
#include "penstock/rails/rail_net.h"
