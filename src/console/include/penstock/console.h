// What commands share: figures and tables for people, progress, owners for the handles of
// penstock.h, and paths in a file system as people write them.
#pragma once

#include "penstock/console/progress.h"
#include "penstock/console/session.h"
#include "penstock/console/text.h"
