// Records on their way into a store, so many in one transaction.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "penstock/engine.h"

namespace penstock::meta_text {

class Batch {
 public:
  // The store outlives the batch.
  explicit Batch(engine::Kv& kv) : kv_(kv) {}

  // Perhaps stores what was gathered.
  Outcome<void> put(std::string key, std::string value);
  // Stores what was gathered; with write_durable it is on stable storage, with all before it.
  Outcome<void> flush(engine::KvMode mode = engine::KvMode::write);

 private:
  engine::Kv& kv_;
  std::vector<std::pair<std::string, std::string>> records_;
  size_t bytes_ = 0;
};

}  // namespace penstock::meta_text
