// What is in the database: docs/formats/names-on-postgresql.md.
#pragma once

#include "postgres_link.h"

#include <string_view>

#include "penstock/kv.h"

namespace penstock::kv::postgres {

inline constexpr uint64_t kSchemaVersion = 2;
// What readers understand as well: without `owner` and `standby`.
inline constexpr uint64_t kSchemaVersionBefore = 1;

// Names of advisory locks: numbers that all processes agree upon. Those of keys have the top bit.
inline constexpr uint64_t kGate = 0x70656e7374'6f636b;
inline constexpr uint64_t kMaking = kGate + 1;  // whoever makes the schema
// Of a process that has the database alone: each of its connections has it, shared, as long as it
// lives.
inline constexpr uint64_t kOwner = kGate + 2;

namespace statement {

inline constexpr Statement kBeginRead{"begin_read",
                                      "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"};
inline constexpr Statement kBegin{"begin", "BEGIN ISOLATION LEVEL READ COMMITTED"};
inline constexpr Statement kCommit{"commit", "COMMIT"};
inline constexpr Statement kRollback{"rollback", "ROLLBACK"};
inline constexpr Statement kGet{"get", "SELECT value, xmin FROM penstock.record WHERE key = $1"};
inline constexpr Statement kGetMany{
    "get_many", "SELECT key, value, xmin FROM penstock.record WHERE key = ANY($1::bytea[])"};
inline constexpr Statement kScan{
    "scan", "SELECT key, value, xmin FROM penstock.record WHERE key >= $1 ORDER BY key LIMIT $2"};
inline constexpr Statement kScanBelow{"scan_below",
                                      "SELECT key, value, xmin FROM penstock.record "
                                      "WHERE key >= $1 AND key < $3 ORDER BY key LIMIT $2"};
inline constexpr Statement kLockAlone{"lock_alone", "SELECT pg_advisory_xact_lock($1)"};
inline constexpr Statement kTryLock{"try_lock", "SELECT pg_try_advisory_xact_lock($1)::integer"};
inline constexpr Statement kTryOwn{"try_own", "SELECT pg_try_advisory_lock($1)::integer"};
inline constexpr Statement kShareOwn{"share_own",
                                     "SELECT pg_try_advisory_lock_shared($1)::integer"};
inline constexpr Statement kEndOwn{"end_own", "SELECT pg_advisory_unlock($1)::integer"};
inline constexpr Statement kPut{"put",
                                "SELECT penstock.commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"};
// Makes the row of a connection, or takes it over: commits up to number $3 cannot happen any more.
// Of those that happened `number` is the last.
inline constexpr Statement kFence{
    "fence",
    "INSERT INTO penstock.connection AS c (process, place, number, fence, used) "
    "VALUES ($1, $2, 0, $3, now()) ON CONFLICT (process, place) DO UPDATE "
    "SET fence = greatest(c.fence, excluded.fence), used = now() RETURNING number, fence"};
// The same for the process that has the names: no row for any other. Who takes them over waits for
// this, or this for it.
inline constexpr Statement kFenceOwned{
    "",
    "WITH mine AS (SELECT FROM penstock.owner WHERE process = $1::bytea FOR SHARE) "
    "INSERT INTO penstock.connection AS c (process, place, number, fence, used) "
    "SELECT $1::bytea, $2::integer, 0, $3::bigint, now() FROM mine "
    "ON CONFLICT (process, place) DO UPDATE "
    "SET fence = greatest(c.fence, excluded.fence), used = now() RETURNING number, fence"};
inline constexpr Statement kReadOwner{"", "SELECT process, term, who FROM penstock.owner"};
inline constexpr Statement kBeginOwning{
    "", "UPDATE penstock.owner SET process = $1, term = term + 1, who = $2 RETURNING term"};
inline constexpr Statement kTakeOver{
    "",
    "UPDATE penstock.owner SET process = $1, term = term + 1, who = $2 WHERE process = $3 "
    "RETURNING term"};
inline constexpr Statement kTellOwner{"", "UPDATE penstock.owner SET who = $2 WHERE process = $1"};
// Waits for commits that are under way. No other commit of theirs comes later.
inline constexpr Statement kDropOthers{"", "DELETE FROM penstock.connection WHERE process <> $1"};
// Of whoever has the lock of owners, but this connection.
inline constexpr Statement kEndOthers{
    "",
    "SELECT count(pg_terminate_backend(pid))::integer FROM pg_locks WHERE locktype = 'advisory' "
    "AND objsubid = 1 AND (classid::bigint << 32 | objid::bigint) = $1::bigint AND database = "
    "(SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> "
    "pg_backend_pid()"};
inline constexpr Statement kStandBy{
    "",
    "INSERT INTO penstock.standby (number, who, seen) VALUES ($1, $2, now()) ON CONFLICT (number) "
    "DO UPDATE SET who = excluded.who, seen = now()"};
inline constexpr Statement kStopStandingBy{"", "DELETE FROM penstock.standby WHERE number = $1"};
inline constexpr Statement kStandbys{
    "",
    "SELECT who FROM penstock.standby WHERE seen > now() - interval '1 minute' ORDER BY number"};
inline constexpr Statement kPlaces{
    "places", "SELECT place, number FROM penstock.connection WHERE process = $1"};
inline constexpr Statement kCollect{
    "collect", "DELETE FROM penstock.connection WHERE used < now() - interval '7 days'"};
inline constexpr Statement kForgetRow{
    "forget_row", "DELETE FROM penstock.connection WHERE process = $1 AND place = $2"};
inline constexpr Statement kForget{"forget", "DELETE FROM penstock.connection WHERE process = $1"};
inline constexpr Statement kAbout{
    "about", "SELECT version, convert_to(cluster, 'UTF8') FROM penstock.about"};

// What connections prepare. The others are said once.
inline constexpr Statement kPrepared[] = {kBeginRead, kBegin,     kCommit,    kRollback,  kGet,
                                          kGetMany,   kScan,      kScanBelow, kLockAlone, kPut,
                                          kFence,     kForgetRow, kForget};

}  // namespace statement

// A server as its first connection finds it. A refusal tells why and what to do.
struct Found {
  bool writable = false;
  bool flushes = true;  // fsync is on
};
Outcome<Found> look_at_server(Link& link, const std::string& name, engine::Time deadline);

// Makes what is missing, if `create` says so, and compares what is there with `options`.
Outcome<void> check_schema(Link& link, const std::string& name, const PostgresOptions& options,
                           engine::Time deadline);

// Limits of time, and one way to plan all statements: by the index, however few rows there are.
Link::Outcome<std::vector<Answer>> set_up_session(Link& link, engine::Time deadline);

// Removes all of it, if it is that cluster's.
Outcome<void> drop_schema(Link& link, const std::string& name, const PostgresOptions& options,
                          engine::Time deadline);

// "metadata database NAME: REASON (ADVICE)".
Failure failure(Status status, const std::string& name, std::string_view reason,
                std::string_view advice);

}  // namespace penstock::kv::postgres
