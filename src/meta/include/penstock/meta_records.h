// What the namespace is in the key-value store: keys, records, their bytes and their bounds, for
// libraries that read or write all of it (the namespace as text), or say the same elsewhere. All
// others use Meta. Format:
// docs/formats/meta.md.
#pragma once

#include "penstock/meta/codec.h"
#include "penstock/meta/keys.h"
#include "penstock/meta/records.h"
#include "penstock/meta/records/limits.h"
