#include "device_access.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fmt/format.h>

namespace penstock::symm {
namespace {

constexpr uint64_t bit(uint32_t pe) {
  return uint64_t{1} << pe;
}

// Pairs that are named to people; of more the number.
constexpr size_t kPairsNamed = 8;

// Who told why it does not reach somebody, the first of all.
size_t first_with_reason(std::span<const AccessTold> all) {
  const auto found =
      std::find_if(all.begin(), all.end(), [](const AccessTold& one) { return !one.why.empty(); });
  return static_cast<size_t>(found - all.begin());
}

}  // namespace

bool DeviceAccess::has_any() const {
  return std::any_of(apart_.begin(), apart_.end(), [](uint64_t others) { return others != 0; });
}

std::vector<DeviceAccess::Pair> DeviceAccess::pairs() const {
  std::vector<Pair> all;
  for (uint32_t one = 0; one < apart_.size(); ++one) {
    for (uint32_t other = one + 1; other < apart_.size(); ++other) {
      if (are_apart(one, other)) all.push_back({one, other});
    }
  }
  return all;
}

bool DeviceAccess::has_any_in(const PeSet& set) const {
  uint64_t members = 0;
  for (uint32_t index = 0; index < set.size; ++index) members |= bit(set.pe(index));
  for (uint32_t index = 0; index < set.size; ++index) {
    if ((apart_[set.pe(index)] & members) != 0) return true;
  }
  return false;
}

PeSet DeviceAccess::sharing(uint64_t node, uint32_t me) const {
  const PeSet alone = {me, 1, 1};
  const uint64_t reached = node & ~apart_[me];
  std::vector<uint32_t> pes;
  for (uint32_t pe = 0; pe < apart_.size(); ++pe) {
    if ((reached & bit(pe)) == 0) continue;
    if ((node & ~apart_[pe]) != reached) return alone;
    pes.push_back(pe);
  }
  if (pes.size() < 2) return alone;
  const PeSet row = {pes[0], int64_t{pes[1]} - pes[0], static_cast<uint32_t>(pes.size())};
  for (uint32_t index = 0; index < row.size; ++index) {
    if (row.pe(index) != pes[index]) return alone;
  }
  return row;
}

std::vector<std::byte> encode(const AccessTold& told) {
  std::vector<std::byte> bytes(sizeof told.facts + told.why.size());
  std::memcpy(bytes.data(), &told.facts, sizeof told.facts);
  std::memcpy(bytes.data() + sizeof told.facts, told.why.data(), told.why.size());
  return bytes;
}

std::optional<AccessTold> decode_access(std::span<const std::byte> bytes) {
  AccessTold told;
  if (bytes.size() < sizeof told.facts) return std::nullopt;
  std::memcpy(&told.facts, bytes.data(), sizeof told.facts);
  told.why.assign(reinterpret_cast<const char*>(bytes.data()) + sizeof told.facts,
                  bytes.size() - sizeof told.facts);
  return told;
}

DeviceAccess access_of(std::span<const AccessTold> all) {
  DeviceAccess access;
  for (uint32_t one = 0; one < all.size(); ++one) {
    for (uint32_t other = 0; other < all.size(); ++other) {
      const AccessFacts& facts = all[one].facts;
      if (one != other && (facts.tried & ~facts.mapped & bit(other)) != 0) access.part(one, other);
    }
  }
  return access;
}

std::string describe(const DeviceAccess& access, std::span<const AccessTold> all) {
  const std::vector<DeviceAccess::Pair> pairs = access.pairs();
  if (pairs.empty()) return "";
  std::string text;
  for (size_t i = 0; i < std::min(pairs.size(), kPairsNamed); ++i)
    text += fmt::format("{}PE {} and PE {}", i == 0 ? "" : ", ", pairs[i].first, pairs[i].second);
  if (pairs.size() > kPairsNamed) text += fmt::format(" and {} more", pairs.size() - kPairsNamed);
  const size_t teller = first_with_reason(all);
  return teller == all.size() ? text : fmt::format("{} (PE {}: {})", text, teller, all[teller].why);
}

Outcome<void> check_access(const DeviceAccess& access, std::span<const AccessTold> all) {
  if (!access.has_any()) return {};
  const bool all_ask = std::all_of(all.begin(), all.end(),
                                   [](const AccessTold& one) { return one.facts.asks_hosts != 0; });
  if (all_ask) return {};
  const size_t teller = std::min(first_with_reason(all), all.size() - 1);
  return Failure{
      Code::not_supported,
      fmt::format("PE {}: {}; keep the PEs of a job on GPUs that reach one another ('nvidia-smi "
                  "topo -p2p rw'), or let the hosts carry what goes between others, which "
                  "PENSTOCK_GPUS_OF_NODES=0 forbids",
                  teller, all[teller].why)};
}

}  // namespace penstock::symm
