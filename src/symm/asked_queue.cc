#include "asked_queue.h"

#include <algorithm>
#include <bit>

namespace penstock::symm {

using device::FarEntry;

namespace {

uint64_t load(const uint64_t& word) {
  // Pairs with what a kernel did before it stored the word.
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}
void store(uint64_t& word, uint64_t value) {
  // Pairs with the fence behind a kernel's look at it.
  __atomic_store_n(&word, value, __ATOMIC_RELEASE);
}

}  // namespace

Result<AskedGeometry> AskedGeometry::make(uint32_t entries) {
  if (entries > device::kFarEntriesMax) return Code::invalid_argument;
  return AskedGeometry{std::bit_ceil(std::max(entries, device::kFarEntriesMin))};
}

AskedQueue::AskedQueue(MutableBytes memory, AskedGeometry geometry, uint32_t pes)
    : geometry_(geometry),
      log2_(static_cast<uint32_t>(std::countr_zero(geometry.entries))),
      header_(reinterpret_cast<device::FarHeader*>(memory.data())),
      entries_(reinterpret_cast<FarEntry*>(memory.data() + AskedGeometry::kEntriesAt)),
      answers_(reinterpret_cast<FarEntry*>(memory.data() + geometry.answers_at())),
      changes_(reinterpret_cast<device::FarChanges*>(memory.data() + geometry.changes_at())) {
  ASSERT(memory.size() >= geometry.host_bytes() && is_power_of_two(geometry.entries));
  ASSERT(geometry.entries >= device::kFarEntriesMin && pes <= device::kFarPesMax);
  ASSERT(is_aligned(memory.data(), 64));
  header_->magic = device::kFarMagic;
  header_->version = device::kFarVersion;
  header_->entries = geometry.entries;
  header_->pes = pes;
}

uint64_t AskedQueue::word(uint64_t position, uint32_t which) const {
  return load(entries_[position & (geometry_.entries - 1)].word[which]);
}

bool AskedQueue::is_new(uint64_t position) const {
  const uint64_t parity = device::far_parity(position >> log2_);
  return (word(position, 0) & device::kFarParity) == parity &&
         (word(position, 1) & device::kFarParity) == parity;
}

uint32_t AskedQueue::entries_at_head() const {
  return (word(head_, 1) & device::kFarSecond) != 0 ? 2 : 1;
}

bool AskedQueue::has_work() const {
  return is_new(head_) && (entries_at_head() == 1 || is_new(head_ + 1));
}

bool AskedQueue::peek(Taken* out) const {
  if (!has_work()) return false;
  device::FarEntries found{};
  // Read once: a kernel that writes them again meanwhile gets what it made of them.
  found.entry[0] = {{word(head_, 0), word(head_, 1)}};
  found.count = (found.entry[0].word[1] & device::kFarSecond) != 0 ? 2 : 1;
  if (found.count == 2) found.entry[1] = {{word(head_ + 1, 0), word(head_ + 1, 1)}};
  for (FarEntry& entry : found.entry) {
    for (uint64_t& one : entry.word) one &= ~device::kFarParity;
  }
  *out = {head_, device::decode(found)};
  return true;
}

void AskedQueue::take() {
  head_ += entries_at_head();
}

void AskedQueue::publish() {
  store(header_->taken, head_);
}

void AskedQueue::store_answer(uint64_t position, uint64_t value, uint64_t flags) {
  const uint64_t tag = device::far_tag(position >> log2_);
  FarEntry& to = answers_[position & (geometry_.entries - 1)];
  store(to.word[1], tag | value >> 32);
  store(to.word[0], tag | flags | device::far_low(value, 32));
}

void AskedQueue::answer(uint64_t position, uint64_t value) {
  store_answer(position, value, 0);
}
void AskedQueue::fail(uint64_t position, device::SymmFailure why) {
  store_answer(position, why, device::kFarFailed);
}

void AskedQueue::complete(uint32_t pe, uint64_t flush) {
  ASSERT(pe < device::kFarPesMax);
  store(header_->completed[pe], std::max(header_->completed[pe], flush + 1));
}

uint64_t AskedQueue::post(const device::FarPosted& change) {
  ASSERT(posted_ - served() < device::kFarPosted);
  changes_->entry[posted_ % device::kFarPosted] = change;
  store(changes_->posted, posted_ + 1);
  return posted_++;
}

uint64_t AskedQueue::served() const {
  // More than were posted, or fewer than can be missing: kernels write rubbish.
  const uint64_t seen = load(changes_->served);
  const uint64_t least = posted_ > device::kFarPosted ? posted_ - device::kFarPosted : 0;
  return seen > posted_ || seen < least ? least : seen;
}

uint64_t AskedQueue::before(uint64_t number) const {
  ASSERT(number < posted_);
  return load(changes_->before[number % device::kFarPosted]);
}

device::SymmFar AskedQueue::view() const {
  device::SymmFar out{};
  out.version = device::kFarVersion;
  out.entries_log2 = log2_;
  out.header = header_;
  out.entries = entries_;
  out.answers = answers_;
  out.changes = changes_;
  return out;
}

}  // namespace penstock::symm
