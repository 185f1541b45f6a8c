// Memory of the program's own that becomes symmetric: behind the heap, in each PE's window.
#include "device_far.h"
#include "limits.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "penstock/symm/device_heap.h"

namespace penstock::symm {

// What a PE tells the others of memory that it brings.
struct AdoptedFacts {
  uint64_t bytes = 0;  // 0: it could not
  uint64_t place = 0;
  friend bool operator==(const AdoptedFacts&, const AdoptedFacts&) = default;
};

namespace {

std::optional<AdoptedFacts> facts_of(const job::Brought& brought) {
  AdoptedFacts facts;
  if (brought.bytes.size() != sizeof facts) return std::nullopt;
  std::memcpy(&facts, brought.bytes.data(), sizeof facts);
  return facts;
}

// The first PE that brings something else than all are to bring.
std::optional<uint32_t> first_other(const std::vector<job::Brought>& all,
                                    const AdoptedFacts& wanted) {
  for (uint32_t pe = 0; pe < all.size(); ++pe) {
    if (facts_of(all[pe]) != wanted) return pe;
  }
  return std::nullopt;
}

}  // namespace

// The lowest that is free; 0: none is. The same on all PEs, as they make the same calls.
uint64_t DeviceHeap::place_for(uint64_t bytes) const {
  uint64_t place = memory_.bytes;
  for (const auto& [offset, length] : adopted_) {
    if (offset - place >= bytes) return place;
    place = offset + length;
  }
  return memory_.stride - place >= bytes ? place : 0;
}

void DeviceHeap::set_reach() {
  const uint64_t reach =
      adopted_.empty() ? memory_.bytes : adopted_.rbegin()->first + adopted_.rbegin()->second;
  reach_.store(reach, std::memory_order_relaxed);
  state_.heap_bytes = reach;
}

// Far PEs' requests for it come to the proxy.
void DeviceHeap::tell_proxy(const std::map<uint64_t, uint64_t>& adopted) {
  if (far_ != nullptr) far_->set_adopted(adopted);
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
Outcome<std::vector<job::Brought>> DeviceHeap::tell_of_adopted(const char* what, bool could,
                                                               const AdoptedFacts& facts,
                                                               std::span<const int> descriptors) {
  const AdoptedFacts told = could ? facts : AdoptedFacts{};
  return group_.exchange(what, {std::as_bytes(std::span(&told, 1)), descriptors});
}

Outcome<void> DeviceHeap::adopt_at(uint64_t place, const void* memory, uint64_t bytes,
                                   std::vector<bool>& is_mapped) {
  Outcome<UniqueFd> own =
      Failure{Code::invalid_argument,
              fmt::format("{} bytes at {}: a length is a multiple of {}, and all together are {}",
                          bytes, memory, limits::kGranule, limits::kAdoptedBytesMax)};
  if (place != 0) own = window_->adopt(group_.me() * memory_.stride + place, bytes, memory);
  is_mapped[group_.me()] = own.has_value();
  const int descriptor = own ? own->get() : -1;
  TRY_ASSIGN(const auto all, tell_of_adopted("device buffer", own.has_value(), {bytes, place},
                                             {&descriptor, own ? size_t{1} : size_t{0}}));
  Outcome<void> mapped =
      own ? map_of_others(place, bytes, all, is_mapped) : Outcome<void>(own.error());
  if (mapped) {
    auto with_it = adopted_;
    with_it[place] = bytes;
    tell_proxy(with_it);
  }
  TRY_ASSIGN(const auto ready,
             tell_of_adopted("device buffer mapped", mapped.has_value(), {bytes, place}, {}));
  TRY(mapped);
  const auto other = first_other(ready, {bytes, place});
  if (!other) return {};
  return Failure{Code::not_supported, fmt::format("PE {} could not map it", *other)};
}

Outcome<std::byte*> DeviceHeap::adopt(const void* memory, uint64_t bytes) {
  const bool is_whole = memory != nullptr && bytes != 0 && bytes % limits::kGranule == 0 &&
                        bytes <= limits::kAdoptedBytesMax;
  const uint64_t place = is_whole ? place_for(bytes) : 0;
  std::vector<bool> is_mapped(group_.size(), false);
  if (const Outcome<void> adopted = adopt_at(place, memory, bytes, is_mapped); !adopted) {
    tell_proxy(adopted_);
    unmap_of_all(place, is_mapped);
    return adopted.error();
  }
  adopted_[place] = bytes;
  set_reach();
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
  const auto found = adopted_.find(place);
  if (found == adopted_.end() || found->second != bytes) return Code::invalid_argument;
  adopted_.erase(found);
  tell_proxy(adopted_);
  std::vector<bool> is_mapped(group_.size(), false);
  for (uint32_t pe = 0; pe < group_.size(); ++pe) is_mapped[pe] = is_near(pe);
  unmap_of_all(place, is_mapped);
  set_reach();
  return {};
}

}  // namespace penstock::symm
