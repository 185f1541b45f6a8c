// engine::Kv on an open RocksDB database.
#pragma once

#include "durable_mark.h"
#include "fair_lock.h"
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
  RocksDbKv(std::unique_ptr<rocksdb::DB> db, DurableMark mark, const RocksDbOptions& options);
  ~RocksDbKv() override;

  void submit(engine::KvOp& op) override { workers_.submit(op); }
  using engine::Kv::run;
  Status run(engine::KvOp& op) override;
  Status sync() override;

 private:
  class Transaction;

  Status run_read(engine::KvOp& op);
  Status attempt(engine::KvOp& op);
  Status commit(Transaction& transaction);
  Status write(Transaction& transaction);
  bool resume();
  Status sync_log();

  const std::string path_;
  const bool read_only_;
  std::unique_ptr<rocksdb::DB> db_;
  DurableMark mark_;  // used inside sync_group_ only, after the start
  Versions versions_;
  // Held shared by ordinary attempts, exclusively by one that conflicted too often.
  FairLock gate_;
  SyncGroup sync_group_;

  // The database refuses writes since an error. Set after the first failing write returned, so
  // whoever saw it set before its own write knows that that one had no effect. Sequentially
  // consistent.
  std::atomic<bool> stopped_{false};
  std::mutex resume_mutex_;
  engine::Time resume_after_{};  // both under resume_mutex_
  bool sync_failed_ = false;

  Workers workers_;  // last: its threads use everything above
};

}  // namespace penstock::kv
