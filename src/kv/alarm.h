// What went wrong in an open database: told by RocksDB, remembered until it is opened anew.
#pragma once

#include <atomic>
#include <rocksdb/listener.h>

#include "penstock/base.h"

namespace penstock::kv {

// Thread safe. RocksDB calls it before the write that failed returns, and from its own threads.
class Alarm final : public rocksdb::EventListener {
 public:
  // ok as long as nothing failed; then how the first failed: RocksDB refuses commits from there on.
  Status status() const { return code_.load(); }
  void raise(Status cause) {
    Code none = Code::ok;
    if (!cause.ok() && code_.compare_exchange_strong(none, cause.code())) stopped_.set(1);
  }
  // Nothing calls any more: the database is closed.
  void reset() {
    code_.store(Code::ok);
    stopped_.set(0);
  }

  void OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* error) override;
  // Going on after an error is ours. RocksDB's own way looks for room every five seconds only,
  // holds writes back meanwhile, and keeps a log that is torn at its end.
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* automatic) override {
    *automatic = false;
  }

 private:
  std::atomic<Code> code_{Code::ok};        // sequentially consistent
  metrics::Counter stopped_{"kv.stopped"};  // how many databases take no commits now
};

}  // namespace penstock::kv
