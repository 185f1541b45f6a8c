// Transactions on PostgreSQL: read from a snapshot, locked, checked and written in one trip by a
// function of the database. Why that is right: docs/decisions/0060-names-on-postgresql.md.
#include "postgres_kv.h"

#include "limits.h"

namespace penstock::kv::postgres {
namespace {

engine::Time in(engine::Duration time) {
  return engine::system_clock().now() + time;
}

}  // namespace

PostgresKv::PostgresKv(Address address, const PostgresOptions& options, std::string process,
                       std::unique_ptr<Link> owner)
    : read_only_(options.read_only),
      patience_(options.patience),
      owner_(std::move(owner)),
      pool_(std::move(address), options, std::move(process)),
      workers_(options.worker_threads, [this](engine::KvOp& op) { return run(op); }) {}

PostgresKv::~PostgresKv() {
  pool_.close();
  workers_.stop();
  pool_.forget(in(kPostgresLockTime));
}

Status PostgresKv::run(engine::KvOp& op) {
  const bool reads = op.mode == engine::KvMode::read;
  if (!reads && read_only_) return Code::read_only;
  const engine::Time deadline = in(patience_);
  for (int conflicts = 0;;) {
    const bool alone = conflicts >= kPostgresSharedAttempts;
    const Way way = reads ? Way::read : alone ? Way::alone : Way::shared;
    const Ending ending = attempt(op, way, deadline);
    if (ending.what == Ending::What::ended) return ending.status;
    conflicts += ending.conflicted;
    if (conflicts >= engine::kKvAttemptsMax) return Code::busy;
    if (engine::system_clock().now() >= deadline) return ending.status;
  }
}

PostgresKv::Ending PostgresKv::attempt(engine::KvOp& op, Way way, engine::Time deadline) {
  Result<Pool::Use> use = pool_.take(deadline);
  if (!use) return ended(use.error());
  Ending ending = attempt_on(**use, op, way);
  if (ending.what == Ending::What::unknown) ending = resolve(**use);
  return ending;
}

PostgresKv::Ending PostgresKv::attempt_on(Pool::Place& place, engine::KvOp& op, Way way) {
  Transaction transaction(*place.link, way);
  const Status status = op.body(transaction);
  if (transaction.fault()) return after(*transaction.fault());
  // What was read was so in one snapshot: nothing is left to check.
  if (!status.ok() || way == Way::read || transaction.changes_nothing()) return ended(status);
  return commit(place, transaction);
}

PostgresKv::Ending PostgresKv::after(const Fault& fault) {
  if (fault.reach == Reach::operation) {
    log::error("metadata database {}: {}", pool_.address().name(), fault.reason);
    return ended(fault.status);
  }
  count_retry(fault);
  const bool conflicted = fault.reach == Reach::attempt;
  if (conflicted) conflicts_.add();
  const bool by_others = fault.status.code() == Code::conflict;
  return {Ending::What::again, conflicted, by_others ? Status(Code::busy) : fault.status};
}

PostgresKv::Ending PostgresKv::commit(Pool::Place& place, Transaction& transaction) {
  // Whatever becomes of it, no other commit of this place has this number.
  const uint64_t number = ++place.tried;
  ASSERT(number > place.known.load());
  const auto committed = transaction.commit({pool_.process(), place.row.load(), number});
  if (!committed) {
    if (committed.error().reach != Reach::connection) return after(committed.error());
    count_retry(committed.error());
    return {Ending::What::unknown, false, committed.error().status};
  }
  place.known_at.store(engine::system_clock().now());
  place.known.store(number);
  commits_.add();
  return ended(Code::ok);
}

PostgresKv::Ending PostgresKv::resolve(Pool::Place& place) {
  unknown_.add();
  const Result<bool> happened = pool_.happened(place, in(patience_));
  if (!happened) return ended(happened.error());
  resolved_.add();
  if (!*happened) return {Ending::What::again, false, Code::peer_gone};
  commits_.add();
  return ended(Code::ok);
}

}  // namespace penstock::kv::postgres
