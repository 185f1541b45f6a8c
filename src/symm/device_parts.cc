// What comes behind the heap, in each PE's window: memory by which it grows, and memory of the
// program's own that becomes symmetric.
#include "device_far.h"
#include "limits.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "penstock/symm/device_heap.h"

namespace penstock::symm {

// What a PE tells the others of memory that it brings.
struct PartFacts {
  uint64_t bytes = 0;  // 0: it could not
  uint64_t place = 0;
  friend bool operator==(const PartFacts&, const PartFacts&) = default;
};

namespace {

std::optional<PartFacts> facts_of(const job::Brought& brought) {
  PartFacts facts;
  if (brought.bytes.size() != sizeof facts) return std::nullopt;
  std::memcpy(&facts, brought.bytes.data(), sizeof facts);
  return facts;
}

// The first PE that brings something else than all are to bring.
std::optional<uint32_t> first_other(const std::vector<job::Brought>& all, const PartFacts& wanted) {
  for (uint32_t pe = 0; pe < all.size(); ++pe) {
    if (facts_of(all[pe]) != wanted) return pe;
  }
  return std::nullopt;
}

}  // namespace

std::optional<uint64_t> DeviceHeap::allocate(uint64_t bytes, uint64_t alignment) {
  auto place = heap_.allocate(bytes, alignment);
  for (auto part = grown_.begin(); !place && part != grown_.end(); ++part)
    place = part->second.allocate(bytes, alignment);
  return place;
}

bool DeviceHeap::release(uint64_t offset) {
  const auto behind = grown_.upper_bound(offset);
  return behind == grown_.begin() ? heap_.release(offset)
                                  : std::prev(behind)->second.release(offset);
}

uint64_t DeviceHeap::largest_free() const {
  uint64_t largest = heap_.largest_free();
  for (const auto& [offset, part] : grown_) largest = std::max(largest, part.largest_free());
  return largest;
}

// In large pieces, as each takes a while; in what is asked for where there is no more.
Outcome<void> DeviceHeap::grow(uint64_t bytes) {
  uint64_t has = heap_.end() - heap_.begin();
  for (const auto& [offset, part] : grown_) has += part.end() - part.begin();
  const uint64_t room = most_ > has ? align_down(most_ - has, limits::kGranule) : 0;
  if (bytes == 0 || bytes > room) {
    return Failure{Code::no_memory,
                   fmt::format("a heap of {} bytes cannot grow by {}: {} is the most", has, bytes,
                               std::max(has, most_))};
  }
  const uint64_t least = align_up(bytes, limits::kGranule);
  const uint64_t wanted = std::max(least, std::min(limits::kGrowth, room));
  Outcome<void> grown = grow_by(wanted);
  if (grown || wanted == least) return grown;
  // Where all have come it fails on all of them, so that all try again.
  const Code why = grown.error().status.code();
  const bool all_came = why != Code::peer_gone && why != Code::timed_out && why != Code::cancelled;
  return all_came ? grow_by(least) : grown;
}

Outcome<void> DeviceHeap::grow_by(uint64_t bytes) {
  const uint64_t place = place_for(bytes);
  Outcome<UniqueFd> own =
      Failure{Code::no_memory, fmt::format("no room for {} bytes behind the heap", bytes)};
  if (place != 0) own = window_->allocate(group_.me() * memory_.stride + place, bytes);
  TRY(extend(place, bytes, own));
  grown_.try_emplace(place, place, place + bytes);
  return {};
}

// The lowest that is free; 0: none is. The same on all PEs, as they make the same calls.
uint64_t DeviceHeap::place_for(uint64_t bytes) const {
  uint64_t place = memory_.bytes;
  for (const auto& [offset, length] : behind_) {
    if (offset - place >= bytes) return place;
    place = offset + length;
  }
  return memory_.stride - place >= bytes ? place : 0;
}

void DeviceHeap::set_reach() {
  const uint64_t reach =
      behind_.empty() ? memory_.bytes : behind_.rbegin()->first + behind_.rbegin()->second;
  reach_.store(reach, std::memory_order_relaxed);
  state_.heap_bytes = reach;
}

// Far PEs' requests for it come to the proxy.
void DeviceHeap::tell_proxy(const std::map<uint64_t, uint64_t>& behind) {
  if (far_ != nullptr) far_->set_adopted(behind);
}

// The memory of near PEs beside the own one; `is_mapped` says of whom it is.
Outcome<void> DeviceHeap::map_of_others(uint64_t place, uint64_t bytes,
                                        const std::vector<job::Brought>& all,
                                        std::vector<bool>& is_mapped) {
  if (const auto other = first_other(all, {bytes, place})) {
    return Failure{Code::invalid_argument,
                   fmt::format("PE {} could not, or has another length", *other)};
  }
  for (uint32_t pe = 0; pe < group_.size(); ++pe) {
    if (pe == group_.me() || !is_near(pe)) continue;
    if (all[pe].descriptors.size() != 1)
      return Failure{Code::bad_message, fmt::format("PE {} gave no descriptor", pe)};
    TRY(window_->map(pe * memory_.stride + place, bytes, all[pe].descriptors[0].get()));
    is_mapped[pe] = true;
  }
  return {};
}

// Who could not brings that, so that nobody waits for it.
Outcome<std::vector<job::Brought>> DeviceHeap::tell_of_part(const char* what, bool could,
                                                            const PartFacts& facts,
                                                            std::span<const int> descriptors) {
  const PartFacts told = could ? facts : PartFacts{};
  return group_.exchange(what, {std::as_bytes(std::span(&told, 1)), descriptors});
}

Outcome<void> DeviceHeap::extend_at(uint64_t place, uint64_t bytes, const Outcome<UniqueFd>& own,
                                    std::vector<bool>& is_mapped) {
  is_mapped[group_.me()] = own.has_value();
  const int descriptor = own ? own->get() : -1;
  TRY_ASSIGN(const auto all, tell_of_part("device memory behind", own.has_value(), {bytes, place},
                                          {&descriptor, own ? size_t{1} : size_t{0}}));
  Outcome<void> mapped =
      own ? map_of_others(place, bytes, all, is_mapped) : Outcome<void>(own.error());
  if (mapped) {
    auto with_it = behind_;
    with_it[place] = bytes;
    tell_proxy(with_it);
  }
  TRY_ASSIGN(const auto ready,
             tell_of_part("device memory mapped", mapped.has_value(), {bytes, place}, {}));
  TRY(mapped);
  const auto other = first_other(ready, {bytes, place});
  if (!other) return {};
  return Failure{Code::not_supported, fmt::format("PE {} could not map it", *other)};
}

// `own` is this PE's memory, which stands at its place already, or why there is none.
Outcome<void> DeviceHeap::extend(uint64_t place, uint64_t bytes, const Outcome<UniqueFd>& own) {
  std::vector<bool> is_mapped(group_.size(), false);
  if (const Outcome<void> extended = extend_at(place, bytes, own, is_mapped); !extended) {
    tell_proxy(behind_);
    unmap_of_all(place, is_mapped);
    return extended;
  }
  behind_[place] = bytes;
  set_reach();
  return {};
}

Outcome<std::byte*> DeviceHeap::adopt(const void* memory, uint64_t bytes) {
  const bool is_whole = memory != nullptr && bytes != 0 && bytes % limits::kGranule == 0 &&
                        bytes <= limits::kAdoptedBytesMax;
  const uint64_t place = is_whole ? place_for(bytes) : 0;
  Outcome<UniqueFd> own =
      Failure{Code::invalid_argument,
              fmt::format("{} bytes at {}: a length is a multiple of {}, and all together are {}",
                          bytes, memory, limits::kGranule, limits::kAdoptedBytesMax)};
  if (place != 0) own = window_->adopt(group_.me() * memory_.stride + place, bytes, memory);
  TRY(extend(place, bytes, own));
  return memory_.own + place;
}

void DeviceHeap::unmap_of_all(uint64_t place, const std::vector<bool>& is_mapped) {
  for (uint32_t pe = 0; pe < group_.size(); ++pe) {
    if (is_mapped[pe]) window_->unmap(pe * memory_.stride + place);
  }
}

Status DeviceHeap::disown(const void* symmetric, uint64_t bytes) {
  // Nobody takes it away while another one is not here yet.
  TRY(group_.barrier(group_.world()));
  const uint64_t place = memory_.offset_of(symmetric);
  const auto found = behind_.find(place);
  if (found == behind_.end() || found->second != bytes || grown_.contains(place))
    return Code::invalid_argument;
  behind_.erase(found);
  tell_proxy(behind_);
  std::vector<bool> is_mapped(group_.size(), false);
  for (uint32_t pe = 0; pe < group_.size(); ++pe) is_mapped[pe] = is_near(pe);
  unmap_of_all(place, is_mapped);
  set_reach();
  return {};
}

}  // namespace penstock::symm
