#include "postgres_schema.h"

#include "limits.h"

namespace penstock::kv::postgres {
namespace {

constexpr Statement kServer{"",
                            "SELECT current_setting('server_version_num')::integer, "
                            "(current_setting('transaction_read_only') = 'off')::integer, "
                            "(current_setting('fsync') <> 'off')::integer"};
// Read as a table: what a session knows of tables by itself may be older than a lock that it waited
// for.
constexpr Statement kIsThere{"",
                             "SELECT count(*)::integer FROM pg_catalog.pg_tables "
                             "WHERE schemaname = 'penstock' AND tablename = 'about'"};

// A setting that a server does not know is left out. A server whose log is flushed later would lose
// what was acknowledged when it crashes; stricter settings than `on` are the administrator's.
constexpr Statement kSettings{
    "",
    "SELECT set_config(name, wanted.setting, false) FROM (VALUES "
    "('statement_timeout', $1::bigint::text), ('lock_timeout', $2::bigint::text), "
    "('idle_in_transaction_session_timeout', '300000'), ('client_connection_check_interval', "
    "'5000'), "
    "('tcp_keepalives_idle', '5'), ('tcp_keepalives_interval', '3'), ('tcp_keepalives_count', "
    "'3'), "
    "('search_path', 'pg_catalog'), ('client_min_messages', 'warning'), ('jit', 'off'), "
    "('enable_seqscan', 'off'), ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off'), "
    "('enable_bitmapscan', 'off'), ('plan_cache_mode', 'force_generic_plan'), "
    "('synchronous_commit', 'on')) AS wanted (name, setting) JOIN pg_catalog.pg_settings AS now "
    "USING (name) WHERE name <> 'synchronous_commit' OR now.setting = 'off'"};

constexpr Statement kMake[] = {
    {"", "CREATE SCHEMA IF NOT EXISTS penstock"},
    {"",
     "CREATE TABLE penstock.about (single boolean PRIMARY KEY DEFAULT true CHECK (single), "
     "version integer NOT NULL, cluster text NOT NULL)"},
    // Room for new versions of a row in its own page.
    {"",
     "CREATE TABLE penstock.record (key bytea PRIMARY KEY, value bytea NOT NULL) "
     "WITH (fillfactor = 90)"},
    {"",
     "CREATE TABLE penstock.connection (process bytea, place integer, number bigint NOT NULL, "
     "fence bigint NOT NULL, used timestamptz NOT NULL, PRIMARY KEY (process, place)) "
     "WITH (fillfactor = 20)"},
    // Each statement in it sees what was committed before it began: the check sees all that held
    // one of the locks before.
    {"", R"sql(
CREATE FUNCTION penstock.commit(process bytea, place integer, number bigint, locks bigint[],
  shared boolean[], seen bytea[], versions xid[], keys bytea[], contents bytea[], erased bytea[])
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
  PERFORM CASE WHEN l.shared THEN pg_advisory_xact_lock_shared(l.id)
               ELSE pg_advisory_xact_lock(l.id) END
    FROM unnest($4, $5) AS l(id, shared);
  IF cardinality($6) > 0 AND EXISTS (
    SELECT FROM unnest($6, $7) AS s(key, version) LEFT JOIN penstock.record AS r USING (key)
      WHERE r.xmin IS DISTINCT FROM s.version) THEN
    RAISE EXCEPTION 'penstock: something that was read has changed' USING ERRCODE = '40001';
  END IF;
  UPDATE penstock.connection AS c SET number = $3, used = now()
    WHERE c.process = $1 AND c.place = $2 AND c.number < $3 AND c.fence < $3;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'penstock: this connection may not commit any more' USING ERRCODE = 'PN001';
  END IF;
  IF cardinality($8) > 0 THEN
    INSERT INTO penstock.record AS r (key, value)
      SELECT n.key, n.value FROM unnest($8, $9) AS n(key, value)
      ON CONFLICT (key) DO UPDATE SET value = excluded.value;
  END IF;
  IF cardinality($10) > 0 THEN
    DELETE FROM penstock.record AS r WHERE r.key = ANY($10);
  END IF;
END $$)sql"},
};
// What version 2 has beside. The row is always there.
constexpr Statement kMakeOwner[] = {
    {"",
     "CREATE TABLE penstock.owner (single boolean PRIMARY KEY DEFAULT true CHECK (single), "
     "process bytea NOT NULL, term bigint NOT NULL, who bytea NOT NULL)"},
    {"", "INSERT INTO penstock.owner (process, term, who) VALUES ('', 0, '')"},
    {"",
     "CREATE TABLE penstock.standby (number bytea PRIMARY KEY, who bytea NOT NULL, "
     "seen timestamptz NOT NULL)"},
};
constexpr Statement kRaise{"", "UPDATE penstock.about SET version = $1 WHERE version = $2"};
constexpr Statement kDescribe{
    "", "INSERT INTO penstock.about (version, cluster) VALUES ($1, convert_from($2, 'UTF8'))"};

constexpr Statement kDrop{"", "DROP SCHEMA penstock CASCADE"};

constexpr uint64_t kServerVersionMin = 130000;

Failure failed(const Fault& fault, const std::string& name, std::string_view what) {
  const std::string_view advice = fault.status.code() == Code::access_denied
                                      ? "give the role the right to create in the database, or "
                                        "what is in the schema penstock to it"
                                      : "";
  return failure(fault.status, name, fmt::format("{}: {}", what, fault.reason), advice);
}

Outcome<void> make(Link& link, const std::string& name, const PostgresOptions& options,
                   engine::Time deadline) {
  Arguments lock, about;
  lock.int8(kMaking);
  about.int4(kSchemaVersion).bytes(options.cluster);
  // Of two processes the second waits here, and finds it made.
  const Step first[] = {
      {statement::kBegin, kNoArguments}, {statement::kLockAlone, lock}, {kIsThere, kNoArguments}};
  const auto there = link.run(first, deadline);
  if (!there) return failed(there.error(), name, "cannot make it");
  std::vector<Step> steps;
  if (there->at(2).number(0, 0) == 0) {
    for (const Statement& each : kMake) steps.push_back({each, kNoArguments});
    for (const Statement& each : kMakeOwner) steps.push_back({each, kNoArguments});
    steps.push_back({kDescribe, about});
  }
  steps.push_back({statement::kCommit, kNoArguments});
  const auto made = link.run(steps, deadline);
  if (!made) return failed(made.error(), name, "cannot make it");
  return {};
}

// From the version before. Programs of then refuse it from now on.
Outcome<void> raise(Link& link, const std::string& name, engine::Time deadline) {
  Arguments lock, versions;
  lock.int8(kMaking);
  versions.int4(kSchemaVersion).int4(kSchemaVersionBefore);
  const Step first[] = {{statement::kBegin, kNoArguments},
                        {statement::kLockAlone, lock},
                        {statement::kAbout, kNoArguments}};
  const auto there = link.run(first, deadline);
  if (!there) return failed(there.error(), name, "cannot bring its tables up to date");
  std::vector<Step> steps;
  if (there->at(2).rows() == 1 && there->at(2).number(0, 0) == kSchemaVersionBefore) {
    for (const Statement& each : kMakeOwner) steps.push_back({each, kNoArguments});
    steps.push_back({kRaise, versions});
  }
  steps.push_back({statement::kCommit, kNoArguments});
  const auto raised = link.run(steps, deadline);
  if (!raised) return failed(raised.error(), name, "cannot bring its tables up to date");
  return {};
}

}  // namespace

Failure failure(Status status, const std::string& name, std::string_view reason,
                std::string_view advice) {
  std::string message = fmt::format("metadata database {}: {}", name, reason);
  if (!advice.empty()) message += fmt::format(" ({})", advice);
  return {status, std::move(message)};
}

Outcome<Found> look_at_server(Link& link, const std::string& name, engine::Time deadline) {
  const Step steps[] = {{kServer, kNoArguments}};
  const auto answers = link.run(steps, deadline);
  if (!answers) return failed(answers.error(), name, "cannot ask the server what it is");
  const Answer& answer = answers->front();
  const std::optional<uint64_t> version = answer.number(0, 0);
  if (!version || *version < kServerVersionMin) {
    return failure(Code::wrong_version, name, "the server is too old",
                   "PostgreSQL 13 or newer is needed");
  }
  return Found{answer.number(0, 1) == 1, answer.number(0, 2) == 1};
}

Outcome<void> check_schema(Link& link, const std::string& name, const PostgresOptions& options,
                           engine::Time deadline) {
  const Step look[] = {{kIsThere, kNoArguments}};
  const auto there = link.run(look, deadline);
  if (!there) return failed(there.error(), name, "cannot look into it");
  if (there->front().number(0, 0) == 0) {
    if (!options.create || options.read_only) {
      return failure(Code::not_found, name, "there are no names of Penstock in it", "");
    }
    TRY(make(link, name, options, deadline));
  }
  const Step read[] = {{statement::kAbout, kNoArguments}};
  const auto about = link.run(read, deadline);
  if (!about) return failed(about.error(), name, "cannot read whose it is");
  if (about->front().rows() != 1) {
    return failure(Code::corrupt, name, "the table penstock.about has not one row",
                   "restore the database from a backup");
  }
  const std::optional<uint64_t> version = about->front().number(0, 0);
  const bool is_before = version == kSchemaVersionBefore;
  if (version != kSchemaVersion && !is_before) {
    return failure(Code::wrong_version, name,
                   fmt::format("its tables have version {}, this program knows {}",
                               version.value_or(0), kSchemaVersion),
                   "use the newest release");
  }
  const std::string_view cluster = about->front().bytes(0, 1);
  if (cluster == options.cluster && is_before && !options.read_only) {
    return raise(link, name, deadline);
  }
  if (cluster == options.cluster) return {};
  if (options.cluster.empty() && options.read_only) return {};
  return failure(
      Code::in_use, name,
      fmt::format("it has the names of cluster {}, this is cluster {}", cluster, options.cluster),
      "give each cluster a database of its own; what is in the way of a new one goes with 'psql -c "
      "\"DROP SCHEMA penstock CASCADE\"', and the names of that other one with it");
}

Outcome<void> drop_schema(Link& link, const std::string& name, const PostgresOptions& options,
                          engine::Time deadline) {
  ASSERT(!options.cluster.empty());
  const Step look[] = {{kIsThere, kNoArguments}};
  const auto there = link.run(look, deadline);
  if (!there) return failed(there.error(), name, "cannot look into it");
  if (there->front().number(0, 0) == 0) return {};
  TRY(check_schema(link, name, options, deadline));
  const Step drop[] = {{kDrop, kNoArguments}};
  const auto dropped = link.run(drop, deadline);
  if (!dropped) return failed(dropped.error(), name, "cannot remove what is in it");
  return {};
}

Link::Outcome<std::vector<Answer>> set_up_session(Link& link, engine::Time deadline) {
  using std::chrono::milliseconds;
  Arguments times;
  times.int8(milliseconds(kPostgresStatementTime).count());
  times.int8(milliseconds(kPostgresLockTime).count());
  const Step steps[] = {{kSettings, times}};
  return link.run(steps, deadline);
}

}  // namespace penstock::kv::postgres
