// The way from old formats to this one.
#pragma once

#include "core.h"

namespace penstock::store {

// Reads all maps of an old format and takes their blocks: damage is found before anything is
// changed. Blocks.
Outcome<bool> check_old_maps(Core& core, uint32_t format);

// Refuses a target of this format that has maps of an old one. Blocks.
Outcome<bool> expect_no_old_maps(Core& core);

// Brings a target whose identity is of an old format to this one. All of its maps were checked
// before and are good, so nothing is left to refuse but a disk that is full or fails; a crash at
// any moment leaves what the next call goes on from. Blocks.
Outcome<bool> convert_target(Core& core, uint32_t format);

}  // namespace penstock::store
