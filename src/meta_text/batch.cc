#include "batch.h"

#include "limits.h"

#include <fmt/format.h>

namespace penstock::meta_text {

Outcome<void> Batch::put(std::string key, std::string value) {
  ASSERT(!key.empty());
  bytes_ += key.size() + value.size();
  records_.emplace_back(std::move(key), std::move(value));
  if (records_.size() < kBatchRecords && bytes_ < kBatchBytes) return {};
  return flush();
}

Outcome<void> Batch::flush(engine::KvMode mode) {
  ASSERT(mode != engine::KvMode::read && records_.size() <= kBatchRecords);
  if (records_.empty()) return {};
  const Status status = kv_.run(mode, [&](engine::KvTransaction& transaction) -> Status {
    for (const auto& [key, value] : records_) transaction.put(key, value);
    return {};
  });
  if (!status.ok()) {
    return Failure{status, fmt::format("cannot be written: {}", status.name())};
  }
  records_.clear();
  bytes_ = 0;
  return {};
}

}  // namespace penstock::meta_text
