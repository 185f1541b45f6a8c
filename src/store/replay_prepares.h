// Brings back small prepares of chains from the log (decision 0049): the update that each follows
// is committed if it is pending, whatever else is pending is forgotten, and then it is pending.
#pragma once

#include "log_record.h"
#include "replayed.h"

namespace penstock::store {

// Done to `replayed`, but for the bytes of the prepare's blocks. Whether it had to be done: not
// where an interrupted opening has done this and more. corrupt: it follows nothing that is there.
Result<bool> replay_prepare(Replayed& replayed, const LoggedPrepare& prepare);

}  // namespace penstock::store
