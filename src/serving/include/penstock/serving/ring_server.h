// The rings that one shard serves, of all sessions.
#pragma once

#include <map>
#include <vector>

#include "penstock/engine.h"
#include "penstock/serving/route_counters.h"
#include "penstock/serving/shard_share.h"

namespace penstock::serving {

// All shares of one shard, asked in turn by its loop.
class RingServer final : public engine::Poller {
 public:
  RingServer() = default;
  // Every share was removed, by its session, before it was destroyed.
  ~RingServer() override { ASSERT(shares_.empty() && users_.empty()); }
  RouteCounters& routes() { return routes_; }
  // Before the first share: what notes the calls of applications.
  void listen_to(const engine::Parker& parker) { parker_ = &parker; }
  void add(ShardShare& share);
  // When no operation of it is under way.
  void remove(ShardShare& share);

  bool poll() override;
  bool prepare_sleep() override;
  void woke() override;

 private:
  struct User {
    client::Flow flow;
    uint32_t shares = 0;
  };

  bool was_called();

  RouteCounters routes_;
  const engine::Parker* parker_ = nullptr;
  uint64_t calls_seen_ = 0;
  std::vector<ShardShare*> shares_;
  std::map<uint32_t, User> users_;  // those with shares, by uid
};

}  // namespace penstock::serving
