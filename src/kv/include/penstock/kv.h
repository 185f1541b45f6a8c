// engine::Kv for real: RocksDB embedded in the process, a PostgreSQL server, and a map in memory.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/engine.h"

namespace penstock::kv {

struct RocksDbOptions {
  std::string path;        // a directory of its own
  bool create = false;     // make the database if the directory is missing or empty
  bool read_only = false;  // writing transactions end with Code::read_only
  int worker_threads = 2;  // they execute submit()ed operations
  size_t block_cache_bytes = 64 * kMiB;
  size_t write_buffer_bytes = 32 * kMiB;  // of one; two may exist, and one of history
};

// Opens or creates the database. Nothing is ever re-created or dropped silently: a directory that
// is not empty but is no intact database is refused and left as it is. A torn end of the log after
// a kill or a power cut is cut off; a log that lost what was synced is refused.
//
// The returned Kv must be destroyed after the loops that its operations complete on have stopped
// submitting; operations still queued then end with closed.
Outcome<std::unique_ptr<engine::Kv>> open_rocksdb(RocksDbOptions options);

// Makes a copy of an open database, as it is now, in the directory `path`, which does not exist:
// all that was committed before the call is in it. It is there whole or not at all, for its owner
// alone, and is opened like any other. Tables are links to those of the database, so that both are
// on one file system, and the copy keeps them; the log is copied. `kv` goes on meanwhile. Thread
// safe; blocks. Nothing keeps the copy over a power cut. not_supported if `kv` is not
// open_rocksdb()'s; what the database itself says if it takes no commits at the moment.
Outcome<void> make_checkpoint(engine::Kv& kv, const std::string& path);

struct PostgresOptions {
  // As libpq takes it: postgresql://USER@HOST:PORT/DATABASE, with all hosts that may be the
  // primary, or "host=... dbname=...". Passwords and TLS are libpq's own (~/.pgpass, sslmode).
  std::string url;
  // Whose names these are: a database has those of one. Empty, of a reader only: anybody's.
  std::string cluster;
  bool create = false;     // make the tables if there are none
  bool read_only = false;  // writing transactions end with Code::read_only
  // No other process has it open so: waits with `patience` for what a process before has left, then
  // in_use. As long as the server was not started again meanwhile, and there is no pooler between.
  bool alone = false;
  // What others are told of a process that has it so, and of whom it is taken from: one that is
  // lost, perhaps stopped or cut off, if it is that one still and the record has that value still;
  // stale otherwise (docs/decisions/0069-names-taken-over.md).
  std::string who = {};
  struct Lost {
    std::string process;
    std::string key;
    std::optional<std::string> value;
  };
  std::optional<Lost> lost = {};
  // Another process has it now, and all that is asked here ends with io_error. Once; any thread,
  // which must not block.
  std::function<void()> taken = {};
  int worker_threads = 8;  // they execute submit()ed operations
  int connections = 8;     // at most; an operation has one as long as it lasts
  // How long an operation waits for a connection or runs again, and how long a commit is asked for
  // whose answer was lost. A server that crashed replays its log meanwhile.
  engine::Duration patience = std::chrono::seconds(30);
};

// Opens the names in a database of a PostgreSQL server. What is there is never changed by an
// opening that is refused, and several processes of one cluster may have it open. An operation has
// patience with a server that is gone, then ends with peer_gone; with one that has no connection
// left likewise, then with busy. Every commit is durable as the server understands it. Keys have at
// most 2,600 bytes, else the commit ends with too_large. not_supported in a program that was built
// without libpq.
//
// The returned Kv must be destroyed as that of open_rocksdb().
Outcome<std::unique_ptr<engine::Kv>> open_postgres(PostgresOptions options);

// Looks at who has the names that open_postgres() opens `alone`, without being one of them. One
// thread at a time; each call takes some seconds at most, and fails when the server cannot be asked
// now.
class PostgresWatch {
 public:
  // Fails like an opening that makes nothing. Of the options only `url` and `cluster` count.
  static Outcome<std::unique_ptr<PostgresWatch>> open(const PostgresOptions& options);
  virtual ~PostgresWatch() = default;

  struct Seen {
    std::string process;  // that has them, or had them last; empty: there was none yet
    uint64_t term = 0;    // how often another has got them
    std::string who;
    std::vector<std::optional<std::string>> values;  // of the keys
    std::vector<std::string> standbys;  // what stand_by() has said lately, of all processes
  };
  virtual Outcome<Seen> look(std::span<const std::string> keys) = 0;
  // This process waits for its turn; to be said every few seconds. `number` is its directory's.
  virtual Outcome<void> stand_by(const std::string& number, const std::string& who) = 0;
  virtual Outcome<void> stop_standing_by(const std::string& number) = 0;
  // What others are told from now on of the process that has them, if that is `process` still.
  virtual Outcome<void> tell(const std::string& process, const std::string& who) = 0;
};

// Removes the names that open_postgres() would open to write, with all tables; ok if there are
// none.
Outcome<void> drop_postgres(const PostgresOptions& options);

// An address as it may be kept and shown.
struct PostgresUrl {
  std::string url;            // without passwords, and always as postgresql://
  bool had_password = false;  // that of the user; whoever needs it has it from elsewhere then
};
Outcome<PostgresUrl> without_password(const std::string& url);

// For tests, benchmarks and throw-away nodes. submit() runs on one worker thread.
std::unique_ptr<engine::Kv> make_memory_kv();

}  // namespace penstock::kv
