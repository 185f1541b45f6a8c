// engine::Kv on a database of a PostgreSQL server.
#pragma once

#include "postgres_pool.h"
#include "postgres_transaction.h"
#include "workers.h"

#include "penstock/kv.h"

namespace penstock::kv::postgres {

class PostgresKv final : public engine::Kv {
 public:
  // `owner`: keeps other processes away, null if that was not asked for.
  PostgresKv(Address address, const PostgresOptions& options, std::string process,
             std::unique_ptr<Link> owner);
  ~PostgresKv() override;

  void submit(engine::KvOp& op) override { workers_.submit(op); }
  using engine::Kv::run;
  Status run(engine::KvOp& op) override;
  // Each commit was on stable storage when it was acknowledged.
  Status sync() override { return {}; }

 private:
  struct Ending {
    enum class What : uint8_t {
      ended,
      again,    // the body is to run again
      unknown,  // the connection was lost, and whether the commit happened is to be asked
    };
    What what = What::ended;
    bool conflicted = false;
    Status status;  // what the operation ends with, or would if it may not run again
  };
  static Ending ended(Status status) { return {Ending::What::ended, false, status}; }

  Ending attempt(engine::KvOp& op, Way way, engine::Time deadline);
  Ending attempt_on(Pool::Place& place, engine::KvOp& op, Way way);
  Ending after(const Fault& fault);
  Ending commit(Pool::Place& place, Transaction& transaction);
  Ending resolve(Pool::Place& place);

  const bool read_only_;
  const engine::Duration patience_;
  const std::unique_ptr<Link> owner_;
  Pool pool_;
  metrics::Counter commits_{"kv.commits"};
  metrics::Counter conflicts_{"kv.conflicts"};
  metrics::Counter unknown_{"kv.unknown_commits"};    // that had to be asked for
  metrics::Counter resolved_{"kv.resolved_commits"};  // of these, of which it was found

  Workers workers_;  // last: its threads use everything above
};

}  // namespace penstock::kv::postgres
