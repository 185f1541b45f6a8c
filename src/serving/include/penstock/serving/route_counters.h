// What a shard's operations did: by the route they took, and what those of its rings took.
#pragma once

#include "penstock/engine.h"
#include "penstock/telemetry.h"

namespace penstock::serving {

// Filled by the shard's thread.
class RouteCounters {
 public:
  // As its only writer: without a locked instruction.
  void count(engine::Route route) {
    metrics::Counter& counter = counters_[static_cast<size_t>(route) % engine::kRouteCount];
    counter.set(counter.value() + 1);
  }
  telemetry::OperationFigures& figures() { return figures_; }
  telemetry::Tracer& tracer() { return tracer_; }

 private:
  metrics::Counter counters_[engine::kRouteCount] = {
      metrics::Counter("agent.route.none"),
      metrics::Counter("agent.route.hole"),
      metrics::Counter("agent.route.disk-direct"),
      metrics::Counter("agent.route.disk-staged"),
      metrics::Counter("agent.route.disk-page-cache"),
      metrics::Counter("agent.route.disk-threads"),
      metrics::Counter("agent.route.cache"),
      metrics::Counter("agent.route.device-peer"),
      metrics::Counter("agent.route.device-cache"),
      metrics::Counter("agent.route.device-gather"),
      metrics::Counter("agent.route.device-mapped"),
      metrics::Counter("agent.route.device-slots"),
      metrics::Counter("agent.route.device-network"),
  };
  telemetry::OperationFigures figures_;
  telemetry::Tracer tracer_;
};

}  // namespace penstock::serving
