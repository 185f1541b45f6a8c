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
  const auto offset = static_cast<uint64_t>(bytes.data() - entry.bytes.data());
  return range_within(offset, bytes.size(), entry.bytes.size()) ? &entry : nullptr;
}

bool Registrations::make_room(uint64_t bytes) {
  if (bytes > bytes_max_) return false;
  while (pinned_ > bytes_max_ - bytes && !idle_.empty()) remove(idle_.front());
  return pinned_ <= bytes_max_ - bytes;
}

Status Registrations::add(Entry& entry, bool writable) {
  if (!make_room(entry.bytes.size())) return Code::busy;
  TRY_ASSIGN(entry.memory, provider_.register_memory(entry.bytes, writable));
  entry.registered = true;
  pinned_ += entry.bytes.size();
  return Code::ok;
}

void Registrations::remove(Entry& entry) {
  ASSERT(entry.registered && entry.uses == 0 && pinned_ >= entry.bytes.size());
  if (entry.linked()) entry.unlink();
  provider_.deregister_memory(entry.memory);
  entry.registered = false;
  pinned_ -= entry.bytes.size();
}

Result<Registrations::Entry*> Registrations::take(MutableBytes bytes, bool writable) {
  ASSERT(!bytes.empty());
  Entry* const known = provider_.facts().closes_at_once ? announced_around(bytes) : nullptr;
  if (known != nullptr) {
    if (!known->registered) TRY(add(*known, true));
    if (known->linked()) known->unlink();
    ++known->uses;
    return known;
  }
  if (free_.empty()) free_.push_back(others_.emplace_back(std::make_unique<Entry>()).get());
  Entry& entry = *free_.back();
  entry.bytes = bytes;
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
    return;
  }
  remove(entry);
  free_.push_back(&entry);
}

void Registrations::announce(MutableBytes region) {
  ASSERT(!region.empty());
  const auto after = announced_.upper_bound(region.data());
  ASSERT(after == announced_.end() || region.data() + region.size() <= after->first);
  if (after != announced_.begin()) {
    const MutableBytes before = std::prev(after)->second->bytes;
    ASSERT(before.data() + before.size() <= region.data());
  }
  auto entry = std::make_unique<Entry>();
  entry->bytes = region;
  entry->announced = true;
  announced_.emplace(region.data(), std::move(entry));
}

Status Registrations::take_back(MutableBytes region) {
  const auto found = announced_.find(region.data());
  if (found == announced_.end() || found->second->bytes.size() != region.size()) {
    return Code::not_found;
  }
  Entry& entry = *found->second;
  if (entry.uses != 0) return Code::in_use;
  if (entry.registered) remove(entry);
  announced_.erase(found);
  return Code::ok;
}

}  // namespace penstock::verbs
