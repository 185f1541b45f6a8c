// A Meta of another node: a service that answers for the one that has the database, and a Meta that
// asks it.
#pragma once

#include "penstock/meta_net/meta_service.h"
#include "penstock/meta_net/remote_meta.h"
