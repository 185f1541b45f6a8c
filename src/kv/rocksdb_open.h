// Opening, with the file system below exchangeable for tests.
#pragma once

#include "alarm.h"
#include "log_files.h"

#include <memory>
#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include "penstock/kv.h"

namespace penstock::kv {

// `env` outlives the Kv; null is the machine's own.
Outcome<std::unique_ptr<engine::Kv>> open_rocksdb(const RocksDbOptions& options, rocksdb::Env* env);

// An open database with what it needs as long as it is.
struct Database {
  std::shared_ptr<LogFileSystem> logs;
  std::unique_ptr<rocksdb::Env> env;
  std::unique_ptr<rocksdb::DB> db;
};

struct Opening {
  const RocksDbOptions& options;
  rocksdb::Env* env;  // below ours
  std::shared_ptr<Alarm> alarm;
};

// Opens a database that exists. Read-only, nothing is changed.
Outcome<std::unique_ptr<Database>> open_database(const Opening& opening, bool read_only);

// Whether the file system has room for what opening the database writes: what is in its logs as
// tables, a new log, and its own records.
bool room_to_open(const RocksDbOptions& options);

}  // namespace penstock::kv
