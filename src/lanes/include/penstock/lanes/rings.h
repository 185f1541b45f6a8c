// The rings of a session.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "penstock/connection.h"
#include "penstock/lanes/ring.h"

namespace penstock::lanes {

// Thread safe. Their lanes move to the agent's successor (lane.h).
class Rings final : public connection::Follower, public connection::RegionUser {
 public:
  explicit Rings(Session& session);

  Outcome<Ring*> make(uint32_t entries, uint32_t lanes);
  // Cancels what is in flight and waits for its end.
  Outcome<void> destroy(Ring* ring);
  // As long as there is a connection: without one nothing is in flight with an agent.
  void destroy_all();

  // Waits for each thread that submits at this moment.
  void let_go_of(connection::Region& region) override;

  void connection_lost() override {}
  Status set_up_again(const Ask& ask) override;
  void connected_again(uint64_t epoch) override;
  void epoch_changed() override;

 private:
  struct MadeAgain {
    uint32_t ring = 0;
    std::shared_ptr<RingMemory> memory;
  };

  Session& session_;
  std::mutex mutex_;
  std::map<uint32_t, std::unique_ptr<Ring>> rings_;
  // A number is free again when the agent has destroyed its ring.
  connection::Numbers numbers_{wire::kRingsMax};
  std::vector<MadeAgain> made_again_;  // the monitor's
};

}  // namespace penstock::lanes
