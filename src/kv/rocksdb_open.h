// Opening, with the file system below exchangeable for tests.
#pragma once

#include <rocksdb/env.h>

#include "penstock/kv.h"

namespace penstock::kv {

// `env` outlives the Kv; null is the machine's own.
Outcome<std::unique_ptr<engine::Kv>> open_rocksdb(const RocksDbOptions& options, rocksdb::Env* env);

}  // namespace penstock::kv
