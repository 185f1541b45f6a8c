#include <algorithm>
#include <fmt/format.h>

#include "penstock/base.h"
#include "penstock/testing_cluster.h"

namespace penstock::test {

void Register::begin_write(uint64_t value) {
  values_.push_back(value);
  write_begun_at_ = begin_read();
}

void Register::end_write(Written how) {
  // One that began before a death may be lost by it.
  if (how == Written::perhaps) return;
  if (how == Written::for_now && died_since(write_begun_at_)) return;
  written_ = values_.size() - 1;
  if (how == Written::durably) durable_ = written_;
  raise(written_);
}

void Register::synced(uint64_t written) {
  ASSERT(written < values_.size());
  durable_ = std::max(durable_, written);
}

void Register::die() {
  written_ = durable_;
  floors_.push_back(durable_);
  died_at_ = begin_read();
}

void Register::raise(uint64_t floor) {
  if (floor > floors_.back()) floors_.push_back(floor);
}

std::string Register::check(uint64_t begun_at, uint64_t value) {
  ASSERT(begun_at < floors_.size());
  const auto since = floors_.begin() + static_cast<ptrdiff_t>(begun_at);
  const uint64_t floor = *std::min_element(since, floors_.end());
  const auto oldest = values_.begin() + static_cast<ptrdiff_t>(floor);
  const auto found = std::find(oldest, values_.end(), value);
  if (found == values_.end()) {
    const bool is_old = std::find(values_.begin(), oldest, value) != oldest;
    return fmt::format("says {} ({}) where write {} of {}, which left {}, was known to be there",
                       value, is_old ? "an older one" : "never written", floor, values_.size() - 1,
                       *oldest);
  }
  if (!died_since(begun_at)) raise(static_cast<uint64_t>(found - values_.begin()));
  return {};
}

}  // namespace penstock::test
