// What the headers of a load's files say, read and checked.
#pragma once

#include <vector>

#include "penstock/load/load.h"
#include "penstock/model.h"

namespace penstock::load {

// Opens all of them. Not a byte is allocated for a header before the file was seen to be as long.
Outcome<std::vector<model::Safetensors>> read_headers(Files& files,
                                                      const std::vector<std::string>& paths);

}  // namespace penstock::load
