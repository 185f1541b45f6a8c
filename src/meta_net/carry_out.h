// What is asked, done.
#pragma once

#include "messages.h"

#include <optional>
#include <string>

#include "penstock/meta_net/meta_service.h"

namespace penstock::meta_net {

class Limited;

// `limited`: of a node that is restricted, which has admitted the request.
//
// Blocks on the Meta of the config, of which nothing else but what concerns calls counts. Returns
// the answer as bytes, kAnswerBytesMax at most. Without a Request that check_asked() refuses, no
// message of a peer meets an assertion of Meta: it is called first here. `maker`: the agent that
// asks. None: the service is to stop, and nothing was done.
std::optional<std::string> carry_out(const MetaServiceConfig& config, holds::AgentId maker,
                                     const Request& request, Limited* limited = nullptr);
// The answer to a call of that kind which has failed.
std::string failed_answer(const Request& request, Status status);

}  // namespace penstock::meta_net
