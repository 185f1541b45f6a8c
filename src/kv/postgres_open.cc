// Opening a database of a PostgreSQL server.
#include "limits.h"
#include "postgres_kv.h"
#include "postgres_schema.h"

#include <thread>

namespace penstock::kv {
namespace postgres {
namespace {

std::string_view advice_for(Status status) {
  switch (status.code()) {
    case Code::access_denied:
      return "check the user, the password in ~/.pgpass and the server's pg_hba.conf";
    case Code::not_found:
      return "create the database first, with 'createdb'";
    case Code::busy:
      return "raise max_connections of the server, or let fewer connections be used";
    case Code::read_only:
      return "name the primary, or all hosts with target_session_attrs=read-write";
    default:
      return "check that the server runs and accepts connections from here";
  }
}

// To the first host that answers as it should.
Outcome<std::unique_ptr<Link>> connect(const Address& address) {
  std::optional<Fault> fault;
  for (size_t host = 0; host < address.hosts(); ++host) {
    const engine::Time now = engine::system_clock().now();
    auto link = Link::connect(address, host, now + engine::Duration(kPostgresConnectTime));
    if (link) return std::move(*link);
    fault = link.error();
  }
  return failure(fault->status, address.name(), "cannot connect: " + fault->reason,
                 advice_for(fault->status));
}

// Whether one connection sees a lock of another: there are servers that take the statement and do
// nothing.
Outcome<void> check_locks(Link& link, Link& other, const std::string& name, engine::Time deadline) {
  Arguments lock;
  // One of its own for this process: others may open the database at the same time.
  lock.int8(engine::system_seed());
  const Step take[] = {{statement::kBegin, kNoArguments}, {statement::kLockAlone, lock}};
  const Step attempt[] = {{statement::kTryLock, lock}};
  const Step end[] = {{statement::kRollback, kNoArguments}};
  const auto taken = link.run(take, deadline);
  const auto got = other.run(attempt, deadline);
  const auto ended = link.run(end, deadline);
  for (const auto* answers : {&taken, &got, &ended}) {
    if (!*answers) {
      return failure(answers->error().status, name,
                     "cannot try its locks: " + answers->error().reason, "");
    }
  }
  if (got->front().number(0, 0) != 0) {
    return failure(Code::not_supported, name, "its advisory locks do nothing",
                   "a PostgreSQL server is needed; some that speak its protocol lack them");
  }
  return {};
}

// Has the database for this process alone from now on, by `link` at first. What a process before
// has left on the server ends before: its last commits are read then.
Outcome<void> own(Link& link, const std::string& name, engine::Time deadline) {
  Arguments owner;
  owner.int8(kOwner);
  const Step attempt[] = {{statement::kTryOwn, owner}};
  const Step share[] = {{statement::kShareOwn, owner}, {statement::kEndOwn, owner}};
  while (true) {
    const auto got = link.run(attempt, deadline);
    if (!got) {
      return failure(got.error().status, name, "cannot be locked: " + got.error().reason, "");
    }
    if (got->front().number(0, 0) == 1) break;
    if (engine::system_clock().now() + kPostgresOwnerPause >= deadline) {
      return failure(Code::in_use, name, "another process has these names open",
                     "stop it first; perhaps it serves a copy of this directory on another "
                     "machine");
    }
    std::this_thread::sleep_for(kPostgresOwnerPause);
  }
  const auto shared = link.run(share, deadline);
  if (shared && shared->front().number(0, 0) == 1) return {};
  return failure(shared ? Status(Code::busy) : shared.error().status, name, "cannot be locked", "");
}

// Returns the connection that keeps other processes away, if that is asked for.
Outcome<std::unique_ptr<Link>> check(const Address& address, const PostgresOptions& options) {
  const std::string& name = address.name();
  TRY_ASSIGN(std::unique_ptr<Link> link, connect(address));
  const engine::Time deadline = engine::system_clock().now() + options.patience;
  TRY_ASSIGN(const Found found, look_at_server(*link, name, deadline));
  if (!found.writable && !options.read_only) {
    return failure(Code::read_only, name,
                   "it takes no writes: a standby, or default_transaction_read_only is on",
                   advice_for(Code::read_only));
  }
  if (const auto ready = set_up_session(*link, deadline); !ready) {
    return failure(ready.error().status, name, ready.error().reason, "");
  }
  if (!options.read_only) {
    TRY_ASSIGN(const std::unique_ptr<Link> other, connect(address));
    TRY(check_locks(*link, *other, name, deadline));
  }
  TRY(check_schema(*link, name, options, deadline));
  if (options.read_only) return std::unique_ptr<Link>();
  if (options.alone) {
    const engine::Duration time = std::min<engine::Duration>(options.patience, kPostgresOwnerTime);
    TRY(own(*link, name, engine::system_clock().now() + time));
  }
  if (!found.flushes) {
    log::warning("metadata database {}: the server has fsync off: a power cut may destroy it",
                 name);
  }
  const Step collect[] = {{statement::kCollect, kNoArguments}};
  if (const auto collected = link->run(collect, deadline); !collected) {
    return failure(collected.error().status, name, collected.error().reason, "");
  }
  if (!options.alone) link.reset();
  return link;
}

}  // namespace
}  // namespace postgres

Outcome<std::unique_ptr<engine::Kv>> open_postgres(PostgresOptions options) {
  ASSERT(options.worker_threads >= 1 && options.worker_threads <= kWorkerThreadsMax);
  ASSERT(options.connections >= 1 && options.connections <= kPostgresConnectionsMax);
  ASSERT(options.read_only || !options.cluster.empty());
  TRY_ASSIGN(postgres::Address address, postgres::Address::parse(options.url));
  TRY_ASSIGN(auto owner, postgres::check(address, options));
  return std::unique_ptr<engine::Kv>(
      std::make_unique<postgres::PostgresKv>(std::move(address), options, std::move(owner)));
}

Outcome<void> drop_postgres(const PostgresOptions& options) {
  TRY_ASSIGN(const postgres::Address address, postgres::Address::parse(options.url));
  TRY_ASSIGN(const auto link, postgres::connect(address));
  return postgres::drop_schema(*link, address.name(), options,
                               engine::system_clock().now() + options.patience);
}

Outcome<PostgresUrl> without_password(const std::string& url) {
  TRY_ASSIGN(const postgres::Address address, postgres::Address::parse(url));
  return PostgresUrl{address.url(), address.has_password()};
}

}  // namespace penstock::kv
