#include "cursor.h"

#include "limits.h"

namespace penstock::meta_text {

Cursor::Cursor(engine::KvTransaction& transaction, std::string begin, std::string end)
    : transaction_(transaction), begin_(std::move(begin)), end_(std::move(end)) {
  ASSERT(begin_ < end_);
}

Result<const Cursor::Record*> Cursor::peek() {
  if (at_ == records_.size() && !exhausted_) TRY(refill());
  ASSERT(at_ <= records_.size());
  return at_ < records_.size() ? &records_[at_] : nullptr;
}

void Cursor::next() {
  ASSERT(at_ < records_.size());
  ++at_;
}

Status Cursor::refill() {
  records_.clear();
  at_ = 0;
  size_t bytes = 0;
  exhausted_ = true;
  TRY(transaction_.scan(begin_, end_, [&](std::string_view key, std::string_view value) {
    records_.emplace_back(key, value);
    bytes += key.size() + value.size();
    exhausted_ = records_.size() < kScanRecords && bytes < kScanBytes;
    return exhausted_;
  }));
  // What follows the last key in the order of keys.
  if (!records_.empty()) begin_ = records_.back().first + '\0';
  return {};
}

}  // namespace penstock::meta_text
