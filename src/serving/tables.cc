#include "penstock/serving/tables.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace penstock::serving {

uint32_t TableRoom::entries_for(uint32_t id) {
  return std::max(kEntriesFree, std::bit_ceil(id + 1));
}

Status TableRoom::reach(const std::shared_ptr<resources::Account>& account, uint32_t id,
                        uint64_t bytes) {
  if (id < entries_) return Code::ok;
  const uint32_t entries = entries_for(id);
  TRY_ASSIGN(heap_,
             resources::Charge::take(account, resources::Resource::heap_bytes, entries * bytes));
  entries_ = entries;
  return Code::ok;
}

void Announced::add_file(uint32_t id, client::FileRef file) {
  const std::lock_guard lock(mutex_);
  files_[id] = std::move(file);
}

void Announced::add_region(uint32_t id, const ServedRegion& region) {
  const std::lock_guard lock(mutex_);
  regions_[id] = region;
}

client::FileRef Announced::take_file(uint32_t id) {
  const std::lock_guard lock(mutex_);
  auto found = files_.extract(id);
  return found ? std::move(found.mapped()) : client::FileRef();
}

ServedRegion Announced::take_region(uint32_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.extract(id);
  return found ? found.mapped() : ServedRegion();
}

}  // namespace penstock::serving
