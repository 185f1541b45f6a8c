// What no member says: bytes on the connection that the launcher left, behind the member's back.
#pragma once

#include "frame.h"

#include <string>

namespace penstock::job {

// Of the descriptor in PENSTOCK_JOB_FD.
void send_raw(const std::string& bytes);
void send_frame(const FrameHeader& header);
// More descriptors than a frame may have, and no end of it.
void flood_descriptors();
// A well-formed bring of a set of ranks without this one, and of ranks that there are not.
void send_bring(uint32_t rank, const std::vector<uint32_t>& ranks);

}  // namespace penstock::job
