// The chunk service: answers the calls of clients (penstock/wire.h, ChunkMethod) by a
// store::Target.
//
// What arrives is foreign: every field is checked before the target sees it, and a call that breaks
// the protocol ends with bad_message. A read or write moves its bytes straight between the target
// and the memory that the caller exposed where the transport reaches that, and through staging
// buffers where it does not.
#pragma once

#include <memory>

#include "penstock/engine.h"
#include "penstock/store.h"

namespace penstock::chunks {

// Today each target is the only copy of one chain, which has its number: the one place that knows.
constexpr ChainId chain_of(TargetId target) {
  return ChainId(target.value);
}

// Serves the chunks of one chain. To be given to Net::serve() of the loop that owns the target.
// Owner thread only; outlives the calls it was given, and the target outlives it. At most
// `calls_max` are in progress; so many more wait in order (limits::kQueueMax), and the rest end
// with busy.
inline constexpr uint32_t kCallsMax = 4096;
// Which updates are durable when they are answered.
enum class Durable : uint8_t {
  as_asked,
  all,  // for callers that live on where this process ends
};
std::unique_ptr<engine::Service> make_service(store::Target& target, ChainId chain = {},
                                              uint32_t calls_max = kCallsMax,
                                              Durable durable = Durable::as_asked);

}  // namespace penstock::chunks
