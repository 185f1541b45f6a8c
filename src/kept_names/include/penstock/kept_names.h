// Names and attributes that nodes keep while others change them: docs/decisions/0067.
#pragma once

#include "penstock/kept_names/guarded_names.h"
#include "penstock/kept_names/kept_names.h"
