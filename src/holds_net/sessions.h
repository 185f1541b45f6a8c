// Sessions as they begin and end: on record, fenced at the targets, settled, and forgotten. What
// fails is tried again.
#pragma once

#include "records.h"
#include "way.h"

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "penstock/holds_net/holds_service.h"

namespace penstock::holds_net {

// Owner thread of the loop. What it is told to call is called there.
class Sessions {
 public:
  // `exclusives_of`: what a session had exclusive, which is asked once it is fenced. `settled`:
  // it has ended for good. `idle`: is_idle() may have become true.
  Sessions(const HoldsServiceConfig& config, std::shared_ptr<Way> way,
           std::function<std::vector<InodeId>(AgentId)> exclusives_of,
           std::function<void(AgentId)> settled, std::function<void()> idle);
  // Waits for the fences that run. stop() was called before.
  ~Sessions();

  // `then` hears whether it is on record now: ok; stale, with the number of the next that may be;
  // or busy.
  void begin(AgentId agent, std::function<void(const Begun&)> then);
  void end(AgentId agent);
  void forget(AgentId agent);
  // Every limits::kTickInterval.
  void tick();
  void stop() { is_stopping_ = true; }
  // Nothing is on its way to the database.
  bool is_idle() const { return recording_ == 0; }

 private:
  struct Job;
  struct RecordOp;
  using Work = std::function<Status(engine::KvTransaction&)>;
  void record(Work work, std::function<void(Status)> then);
  void try_again(Status status, std::function<void()> action);
  void fence(AgentId agent);
  void settle(AgentId agent);
  void block(std::function<void()> work);

  const HoldsServiceConfig& config_;
  const std::shared_ptr<Way> way_;
  const std::function<std::vector<InodeId>(AgentId)> exclusives_of_;
  const std::function<void(AgentId)> settled_;
  const std::function<void()> idle_;
  engine::RepeatedLog log_;
  std::deque<std::function<void()>> again_;
  size_t recording_ = 0;
  bool is_stopping_ = false;
  engine::WorkerPool pool_;
};

}  // namespace penstock::holds_net
