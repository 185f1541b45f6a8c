// engine::Kv on an open RocksDB database.
#pragma once

#include "durable_mark.h"
#include "fair_lock.h"
#include "rocksdb_open.h"
#include "sync_group.h"
#include "versions.h"
#include "workers.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <rocksdb/db.h>
#include <string>

#include "penstock/kv.h"

namespace penstock::kv {

Status from_rocksdb(const rocksdb::Status& status);

class RocksDbKv final : public engine::Kv {
 public:
  RocksDbKv(std::unique_ptr<Database> database, const Opening& opening, DurableMark mark);
  ~RocksDbKv() override;

  void submit(engine::KvOp& op) override { workers_.submit(op); }
  using engine::Kv::run;
  Status run(engine::KvOp& op) override;
  Status sync() override;
  Outcome<void> checkpoint(const std::string& path);

 private:
  class Transaction;

  Status run_read(engine::KvOp& op);
  Status attempt(engine::KvOp& op);
  Status commit(Transaction& transaction);
  Status write(Transaction& transaction);
  Status go_on();
  bool reopen();
  void fall_back();
  Status sync_log();
  Status sync_now();

  const RocksDbOptions options_;
  rocksdb::Env* const env_;
  const std::shared_ptr<Alarm> alarm_;

  // Held shared by threads that use the database, exclusively while it is opened anew, so that no
  // snapshot, iterator or commit lives through that. Null when not even reading was possible.
  FairLock uses_;
  std::unique_ptr<Database> database_;
  // The sequence number of the last commit that succeeded. What RocksDB says is higher after a
  // commit that failed, and the mark must not promise that.
  std::atomic<uint64_t> committed_;
  // Shared by all threads that commit: their writes of RocksDB's log cost a hundred times as much.
  metrics::Counter commits_{"kv.commits"};
  metrics::Counter conflicts_{"kv.conflicts"};

  DurableMark mark_;  // used inside sync_group_, or while uses_ is held exclusively
  Versions versions_;
  // Held shared by ordinary attempts, exclusively by one that conflicted too often.
  FairLock gate_;
  SyncGroup sync_group_;

  std::timed_mutex reopen_mutex_;  // before uses_
  engine::Time reopen_after_{};    // this and the next two under reopen_mutex_
  bool told_ = false;              // that it stopped
  bool told_refusal_ = false;      // that it could not be opened
  // A sync failed, or something committed is missing: only a new start looks at what is there.
  std::atomic<bool> lost_{false};

  Workers workers_;  // last: its threads use everything above
};

}  // namespace penstock::kv
