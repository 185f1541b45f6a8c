#include "penstock/inodes/chain_tables.h"

#include <algorithm>

#include "penstock/inodes/limits.h"

namespace penstock::inodes {
namespace {

bool is_like(const ChainTable& table, const ChainTables::Wanted& wanted) {
  return table.copies == wanted.copies &&
         (wanted.media == meta::Media::any || table.media == wanted.media);
}

}  // namespace

Status ChainTables::offer(const ChainTable& table) {
  const bool good = table.chain_count > 0 && table.copies > 0 && table.copies <= meta::kCopiesMax &&
                    static_cast<uint8_t>(table.media) < meta::kMediaNumbers &&
                    range_within(table.chain_first, table.chain_count, limits::kChainsMax);
  if (!good) return Code::invalid_argument;
  const std::lock_guard lock(mutex_);
  const auto place =
      std::lower_bound(tables_.begin(), tables_.end(), table.id,
                       [](const ChainTable& one, uint32_t id) { return one.id < id; });
  if (place != tables_.end() && place->id == table.id) {
    *place = table;
    return Code::ok;
  }
  if (tables_.size() >= limits::kTablesMax) return Code::too_large;
  tables_.insert(place, table);
  ASSERT(tables_.size() <= limits::kTablesMax);
  return Code::ok;
}

std::vector<ChainTable> ChainTables::all() const {
  const std::lock_guard lock(mutex_);
  return tables_;
}

std::optional<ChainTable> ChainTables::find(uint32_t id) const {
  const std::lock_guard lock(mutex_);
  for (const ChainTable& table : tables_) {
    if (table.id == id) return table;
  }
  return std::nullopt;
}

std::optional<ChainTable> ChainTables::choose(const Wanted& wanted) const {
  const std::lock_guard lock(mutex_);
  std::optional<ChainTable> best, present;
  for (const ChainTable& table : tables_) {
    if (!is_like(table, wanted)) continue;
    if (table.id == wanted.present) present = table;
    if (!best || table.chain_count > best->chain_count) best = table;
  }
  if (present && best->chain_count / limits::kMuchLarger < present->chain_count) best = present;
  ASSERT(!best || is_like(*best, wanted));
  return best;
}

}  // namespace penstock::inodes
