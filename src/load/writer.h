// Writing the tensors of a save to the file.
#pragma once

#include "penstock/load/save.h"

namespace penstock::load {

// All bytes of all tensors. Returns when nothing is in flight any more.
Outcome<void> write_tensors(NewFile& file, const engine::Clock& clock, const SaveRequest& request);

}  // namespace penstock::load
