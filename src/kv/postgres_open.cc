// Opening a database of a PostgreSQL server.
#include "limits.h"
#include "postgres_kv.h"
#include "postgres_schema.h"
#include "postgres_watch.h"

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

}  // namespace

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

namespace {

// Nobody has it yet, with the certainty of 128 random bits.
std::string new_process() {
  const uint64_t words[2] = {engine::system_seed(), engine::system_seed()};
  return {reinterpret_cast<const char*>(words), sizeof words};
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
  bool is_anothers = false;
  while (true) {
    const auto got = link.run(attempt, deadline);
    // A server that is slow at the last attempt has said at an earlier one whose it is.
    const bool is_over = engine::system_clock().now() + kPostgresOwnerPause >= deadline;
    if (!got && !(is_anothers && is_over)) {
      return failure(got.error().status, name, "cannot be locked: " + got.error().reason, "");
    }
    if (got && got->front().number(0, 0) == 1) break;
    is_anothers = true;
    if (is_over) {
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

// Nobody else has it: from now on rows of connections are this process's alone.
Outcome<void> begin_owning(Link& link, const std::string& name, const PostgresOptions& options,
                           const std::string& process, engine::Time deadline) {
  Arguments mine, others;
  mine.bytes(process).bytes(options.who);
  others.bytes(process);
  const Step steps[] = {{statement::kBegin, kNoArguments},
                        {statement::kBeginOwning, mine},
                        {statement::kDropOthers, others},
                        {statement::kCommit, kNoArguments}};
  const auto begun = link.run(steps, deadline);
  if (begun && begun->at(1).rows() == 1) return {};
  return failure(begun ? Status(Code::corrupt) : begun.error().status, name,
                 begun ? "the table penstock.owner has no row" : begun.error().reason, "");
}

// So that nobody waits for a process that is stopped in the middle of something. Not needed for
// what is right.
void end_others(Link& link, const std::string& name, engine::Time deadline) {
  Arguments owner;
  owner.int8(kOwner);
  const Step steps[] = {{statement::kEndOthers, owner}};
  const auto ended = link.run(steps, deadline);
  if (ended) return;
  log::warning("metadata database {}: connections of the process before cannot be ended: {}", name,
               ended.error().reason);
}

// Docs/decisions/0069: once this is committed, no commit of the process before comes any more. What
// it did before is seen by all that is read from now on.
Outcome<void> take_over(Link& link, const std::string& name, const PostgresOptions& options,
                        const std::string& process, engine::Time deadline) {
  const PostgresOptions::Lost& lost = *options.lost;
  ASSERT(options.alone && lost.process != process);
  end_others(link, name, deadline);
  Arguments take, others, key, owner;
  take.bytes(process).bytes(options.who).bytes(lost.process);
  others.bytes(process);
  key.bytes(lost.key);
  owner.int8(kOwner);
  const Step change[] = {{statement::kBegin, kNoArguments},
                         {statement::kTakeOver, take},
                         {statement::kDropOthers, others},
                         {statement::kGet, key}};
  const auto changed = link.run(change, deadline);
  if (!changed) {
    return failure(changed.error().status, name, "cannot be taken over: " + changed.error().reason,
                   "");
  }
  const Answer& record = changed->at(3);
  const std::optional<std::string_view> now =
      record.rows() == 0 ? std::nullopt : std::optional(record.bytes(0, 0));
  const bool is_lost = changed->at(1).rows() == 1 && now == lost.value;
  const Step end[] = {{is_lost ? statement::kCommit : statement::kRollback, kNoArguments}};
  const auto ended = link.run(end, deadline);
  if (!is_lost) {
    return failure(Code::stale, name,
                   "the process that was taken for lost is not, or another took "
                   "the names over",
                   "");
  }
  if (!ended || ended->front().command() != "COMMIT" || link.warned()) {
    return failure(ended ? Status(Code::may_have_happened) : ended.error().status, name,
                   "it is not known whether it was taken over", "");
  }
  end_others(link, name, deadline);
  const Step share[] = {{statement::kShareOwn, owner}};
  const auto shared = link.run(share, deadline);
  if (shared && shared->front().number(0, 0) == 1) return {};
  return failure(shared ? Status(Code::busy) : shared.error().status, name, "cannot be locked", "");
}

// Returns the connection that keeps other processes away, if that is asked for.
Outcome<std::unique_ptr<Link>> check(const Address& address, const PostgresOptions& options,
                                     const std::string& process) {
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
  if (options.lost) {
    TRY(take_over(*link, name, options, process, deadline));
  } else if (options.alone) {
    const engine::Duration time = std::min<engine::Duration>(options.patience, kPostgresOwnerTime);
    TRY(own(*link, name, engine::system_clock().now() + time));
    TRY(begin_owning(*link, name, options, process, deadline));
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
  ASSERT(!options.lost || (options.alone && !options.read_only));
  std::string process = postgres::new_process();
  TRY_ASSIGN(auto owner, postgres::check(address, options, process));
  return std::unique_ptr<engine::Kv>(std::make_unique<postgres::PostgresKv>(
      std::move(address), options, std::move(process), std::move(owner)));
}

Outcome<std::unique_ptr<PostgresWatch>> PostgresWatch::open(const PostgresOptions& options) {
  ASSERT(!options.cluster.empty());
  TRY_ASSIGN(postgres::Address address, postgres::Address::parse(options.url));
  const engine::Time deadline = engine::system_clock().now() + options.patience;
  TRY_ASSIGN(std::unique_ptr<postgres::Link> link, postgres::connect(address));
  TRY_ASSIGN(const postgres::Found found,
             postgres::look_at_server(*link, address.name(), deadline));
  if (!found.writable) {
    return postgres::failure(Code::read_only, address.name(), "it takes no writes",
                             postgres::advice_for(Code::read_only));
  }
  PostgresOptions looks;
  looks.url = options.url;
  looks.cluster = options.cluster;
  looks.read_only = true;  // a process of an earlier release may have it, and knows no other tables
  TRY(postgres::check_schema(*link, address.name(), looks, deadline));
  const postgres::Step about[] = {{postgres::statement::kAbout, postgres::kNoArguments}};
  const auto version = link->run(about, deadline);
  if (!version || version->front().number(0, 0) != postgres::kSchemaVersion) {
    return postgres::failure(Code::wrong_version, address.name(),
                             "it does not say which process has its names",
                             "start the node that has them with this release, once");
  }
  return std::unique_ptr<PostgresWatch>(
      std::make_unique<postgres::Watch>(std::move(address), looks.cluster));
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
