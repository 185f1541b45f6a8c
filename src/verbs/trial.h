// The first call of a connection: whether large packets get through, both ways, before anybody
// relies on it. Small messages may, where a switch between has a smaller MTU than both ports; or
// the other side may be unable to register memory.
#pragma once

#include <array>

#include "penstock/engine.h"
#include "penstock/verbs/limits.h"

namespace penstock::verbs::internal {

// Of the transport's own call; services have smaller ones.
inline constexpr uint16_t kTrialMethod = UINT16_MAX;

// The caller's side: the call, and what it exposes. Owner thread of the loop only.
struct Trial : engine::CallOp {
  Trial();
  // Once it has ended well: what came back is what was sent.
  bool holds() const { return got == sent; }

  std::array<std::byte, limits::kTrialBytes> sent;
  std::array<std::byte, limits::kTrialBytes> got{};
};

// The server's: fetches what is exposed first, and places it into the second exposure.
class TrialService final : public engine::Service {
 public:
  void on_call(engine::IncomingCall& call) override;
};

}  // namespace penstock::verbs::internal
