// A controller as long as its process runs: the state, kept in a Kv under a lease.
#pragma once

#include <optional>

#include "penstock/controller/records.h"

namespace penstock::controller {

struct KeeperConfig {
  engine::Kv* kv = nullptr;
  const engine::Clock* clock = nullptr;
  Uuid process;  // random, of this process: not all zeros
  Uuid cluster;  // of the cluster that is made where there is none
  engine::Duration lease = limits::kControllerLease;
  // Only this process can have the Kv open: whoever held the lease before has ended.
  bool alone = false;
  Timing timing;
};

// Several processes may have a Keeper over the same records; one at most leads. All calls come from
// one thread, which they block as long as the Kv does. What the config points to outlives it.
//
// A process that leads calls renew() every kRenewInterval, and handle() for all that happens,
// with a Tick every kTickInterval.
class Keeper {
 public:
  explicit Keeper(const KeeperConfig& config);

  // Takes the lease, renews it, or watches that of another. Once it leads, the state is loaded, and
  // made if there is none. Fails if the Kv does, or what it holds is damaged: it may be called
  // again.
  Outcome<void> renew();
  bool leads() const { return leads_; }

  // One step. What it returns is committed, and may be sent; grants are only part of it while
  // may_grant(), which is to be looked at again before they are sent. Fails if nothing is known to
  // be committed: then this keeper does not lead until renew() has loaded the state again, and
  // whoever asked for the event asks again.
  Result<Actions> handle(const Event& event);

  // The lease of this process has not run out.
  bool may_grant() const;
  // By this moment, whatever else happens, may_grant() is over if the lease is not renewed.
  engine::Time grants_until() const { return granted_until_; }

  // In order, so that the next one need not wait: the lease is given back.
  Status close();

  // Only while it leads.
  const State& state() const;

 private:
  bool is_over(const LeaseRecord& other, engine::Time now) const;
  // What the lease shall be, if it shall be written.
  std::optional<LeaseRecord> next_lease(const std::optional<LeaseRecord>& found,
                                        engine::Time asked) const;
  void watch(const LeaseRecord& other);
  Status load();
  Status commit(const Changes& changes);
  Status put_records(engine::KvTransaction& transaction, const Changes& changes) const;

  const KeeperConfig config_;
  State state_;
  bool leads_ = false;
  LeaseRecord lease_;  // that this keeper has, or had
  engine::Time granted_until_ = kLongAgo;
  // The lease of another, and since when it is seen unchanged.
  LeaseRecord seen_;
  engine::Time seen_since_ = kLongAgo;
};

}  // namespace penstock::controller
