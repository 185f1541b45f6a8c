// Of builds with PENSTOCK_NEXT_PROTOCOL: what they do with the change that makes them the next
// release, and what they count of it, so that a test sees who said what to whom.
#pragma once

#include "penstock/engine.h"
#include "penstock/wire.h"

namespace penstock::chain {

#if PENSTOCK_NEXT_PROTOCOL
class NextRelease {
 public:
  void add_to(wire::ChainHeader& header, engine::Time now) const {
    header.sent_us = static_cast<uint64_t>(now.time_since_epoch() / std::chrono::microseconds(1));
  }
  void take(wire::ChainMethod method, const wire::ChainHeader& header) {
    const bool is_older = header.protocol < wire::kNodeVersion;
    ASSERT(!is_older || header.sent_us == 0);
    (is_older ? older_ : header.sent_us != 0 ? with_field_ : without_field_).add();
    if (method == wire::ChainMethod::load) loads_.add();
  }
  wire::ChainMethod method_for_state(uint16_t protocol) const {
    const bool is_known = protocol >= wire::first_version_of(wire::ChainMethod::load);
    return is_known ? wire::ChainMethod::load : wire::ChainMethod::state;
  }

 private:
  metrics::Counter older_{"chain.next.older"};
  metrics::Counter with_field_{"chain.next.with_field"};
  metrics::Counter without_field_{"chain.next.without_field"};
  metrics::Counter loads_{"chain.next.loads"};
};
#else
class NextRelease {
 public:
  void add_to(wire::ChainHeader&, engine::Time) const {}
  void take(wire::ChainMethod, const wire::ChainHeader&) {}
  wire::ChainMethod method_for_state(uint16_t) const { return wire::ChainMethod::state; }
};
#endif

}  // namespace penstock::chain
