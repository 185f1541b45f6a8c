#include "registrations.h"

namespace penstock::verbs {

Registrations::~Registrations() {
  while (!idle_.empty()) remove(idle_.front());
  for (const auto& [start, entry] : announced_) ASSERT(entry->uses == 0);
  ASSERT(free_.size() == others_.size() && pinned_ == 0);
}

Registrations::Entry* Registrations::announced_around(MutableBytes bytes) {
  auto after = announced_.upper_bound(bytes.data());
  if (after == announced_.begin()) return nullptr;
  Entry& entry = *std::prev(after)->second;
  const MutableBytes known = entry.region.bytes;
  const auto offset = static_cast<uint64_t>(bytes.data() - known.data());
  return range_within(offset, bytes.size(), known.size()) ? &entry : nullptr;
}

bool Registrations::make_room(uint64_t bytes) {
  if (bytes > bytes_max_) return false;
  while (pinned_ > bytes_max_ - bytes && !idle_.empty()) remove(idle_.front());
  return pinned_ <= bytes_max_ - bytes;
}

Status Registrations::add(Entry& entry, bool writable) {
  const Region& region = entry.region;
  if (!make_room(region.bytes.size())) return Code::busy;
  TRY_ASSIGN(entry.memory, region.is_device() ? provider_.register_device_memory(region)
                                              : provider_.register_memory(region.bytes, writable));
  entry.registered = true;
  pinned_ += region.bytes.size();
  return Code::ok;
}

void Registrations::remove(Entry& entry) {
  ASSERT(entry.registered && entry.uses == 0 && pinned_ >= entry.region.bytes.size());
  if (entry.linked()) entry.unlink();
  provider_.deregister_memory(entry.memory);
  entry.registered = false;
  pinned_ -= entry.region.bytes.size();
}

Result<Registrations::Entry*> Registrations::take(const engine::MemoryRef& memory, bool writable) {
  ASSERT(memory.length > 0);
  Entry* const known = announced_around(memory.bytes());
  const bool is_device = memory.kind == engine::MemoryKind::device;
  if (is_device && (known == nullptr || !known->region.is_device() || known->refused)) {
    return Code::not_supported;
  }
  if (known != nullptr && provider_.facts().closes_at_once) return take_known(*known);
  if (free_.empty()) free_.push_back(others_.emplace_back(std::make_unique<Entry>()).get());
  Entry& entry = *free_.back();
  entry.region = is_device ? known->region.part(memory.bytes()) : Region{memory.bytes()};
  const Status added = add(entry, writable);
  if (is_device) known->refused = added.code() == Code::not_supported;
  TRY(added);
  free_.pop_back();
  ++temporary_;
  entry.uses = 1;
  return &entry;
}

Result<Registrations::Entry*> Registrations::take_known(Entry& entry) {
  if (!entry.registered) {
    const Status added = add(entry, true);
    // Calls would ask the kernel again and again.
    entry.refused = added.code() == Code::not_supported;
    TRY(added);
  }
  if (entry.linked()) entry.unlink();
  ++entry.uses;
  return &entry;
}

void Registrations::give_back(Entry& entry) {
  ASSERT(entry.uses > 0);
  if (--entry.uses != 0) return;
  if (entry.announced) {
    idle_.push_back(entry);
    return;
  }
  remove(entry);
  free_.push_back(&entry);
}

void Registrations::announce(const Region& region) {
  const MutableBytes bytes = region.bytes;
  ASSERT(!bytes.empty());
  const auto after = announced_.upper_bound(bytes.data());
  ASSERT(after == announced_.end() || bytes.data() + bytes.size() <= after->first);
  if (after != announced_.begin()) {
    const MutableBytes before = std::prev(after)->second->region.bytes;
    ASSERT(before.data() + before.size() <= bytes.data());
  }
  auto entry = std::make_unique<Entry>();
  entry->region = region;
  entry->announced = true;
  announced_.emplace(bytes.data(), std::move(entry));
}

Status Registrations::take_back(MutableBytes region) {
  const auto found = announced_.find(region.data());
  if (found == announced_.end() || found->second->region.bytes.size() != region.size()) {
    return Code::not_found;
  }
  Entry& entry = *found->second;
  if (entry.uses != 0) return Code::in_use;
  if (entry.registered) remove(entry);
  announced_.erase(found);
  return Code::ok;
}

}  // namespace penstock::verbs
