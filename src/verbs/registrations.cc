#include "registrations.h"

#include <algorithm>

namespace penstock::verbs {

Registrations::~Registrations() {
  while (!idle_.empty()) remove(*idle_.pop_front());
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

// Nothing goes for what cannot have room all the same.
bool Registrations::make_room(uint64_t bytes) {
  if (bytes > bytes_max_ || pinned_ - idle_bytes_ > bytes_max_ - bytes) return false;
  while (pinned_ > bytes_max_ - bytes) {
    Entry& oldest = *idle_.pop_front();
    idle_bytes_ -= oldest.region.bytes.size();
    remove(oldest);
  }
  return true;
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
  ASSERT(entry.registered && entry.uses == 0 && !entry.linked());
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
  if (known != nullptr && provider_.facts().closes_at_once && keeps(*known)) {
    if (known->linked()) {
      known->unlink();
      idle_bytes_ -= known->region.bytes.size();
    }
    ++known->uses;
    return known;
  }
  if (!is_device) return take_once({memory.bytes()}, writable);
  const auto taken = take_once(known->region.part(memory.bytes()), writable);
  if (!taken && taken.error() != Code::busy) known->refused = true;
  return taken;
}

// What the device does not take as a whole, for whatever reason, it is not asked for again: calls
// would have the kernel try it each time.
bool Registrations::keeps(Entry& entry) {
  if (entry.registered) return true;
  if (entry.refused) return false;
  const Status added = add(entry, true);
  entry.refused = !added.ok() && added != Code::busy;
  return added.ok();
}

Result<Registrations::Entry*> Registrations::take_once(const Region& region, bool writable) {
  if (free_.empty()) free_.push_back(others_.emplace_back(std::make_unique<Entry>()).get());
  Entry& entry = *free_.back();
  entry.region = region;
  TRY(add(entry, writable));
  free_.pop_back();
  ++temporary_;
  entry.uses = 1;
  return &entry;
}

void Registrations::give_back(Entry& entry) {
  ASSERT(entry.uses > 0);
  if (--entry.uses != 0) return;
  if (entry.announced) {
    idle_.push_back(entry);
    idle_bytes_ += entry.region.bytes.size();
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
  for (uint64_t at = 0; at < bytes.size(); at += limits::kAnnouncedPartBytes) {
    const uint64_t length = std::min<uint64_t>(limits::kAnnouncedPartBytes, bytes.size() - at);
    auto entry = std::make_unique<Entry>();
    entry->region = region.part(bytes.subspan(at, length));
    entry->announced = true;
    announced_.emplace(entry->region.bytes.data(), std::move(entry));
  }
}

Status Registrations::take_back(MutableBytes region) {
  const auto first = announced_.find(region.data());
  auto end = first;
  uint64_t length = 0;
  for (; end != announced_.end() && length < region.size(); ++end) {
    if (end->second->uses != 0) return Code::in_use;
    length += end->second->region.bytes.size();
  }
  if (first == announced_.end() || length != region.size()) return Code::not_found;
  for (auto one = first; one != end; ++one) {
    Entry& entry = *one->second;
    if (!entry.registered) continue;
    entry.unlink();
    idle_bytes_ -= entry.region.bytes.size();
    remove(entry);
  }
  announced_.erase(first, end);
  return Code::ok;
}

}  // namespace penstock::verbs
