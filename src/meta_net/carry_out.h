// What is asked, done.
#pragma once

#include "messages.h"

namespace penstock::meta_net {

// Blocks on the Meta. Returns the answer as bytes, kAnswerBytesMax at most. Without a Request that
// check_asked() refuses, no message of a peer meets an assertion of Meta: it is called first here.
std::string carry_out(meta::Meta& meta, const Request& request);

}  // namespace penstock::meta_net
