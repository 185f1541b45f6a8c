#include "rank_set.h"

namespace penstock::job {

void write_ranks(ByteWriter& to, std::span<const uint32_t> ranks) {
  ByteWriter runs;
  uint32_t count = 0;
  for (size_t at = 0; at < ranks.size(); ++count) {
    const size_t first = at++;
    uint32_t stride = 1;
    if (at < ranks.size()) stride = ranks[at] - ranks[first];
    while (at < ranks.size() && ranks[at] - ranks[at - 1] == stride) ++at;
    // Two ranks of any distance make no run that the next ones could not begin better.
    if (at - first == 2 && stride != 1) --at;
    if (at - first == 1) stride = 1;
    runs.number<uint32_t>(ranks[first]);
    runs.number<uint32_t>(stride);
    runs.number<uint32_t>(static_cast<uint32_t>(at - first));
  }
  to.number(count);
  to.raw(runs.bytes());
}

std::optional<std::vector<uint32_t>> read_ranks(ByteReader& from, uint32_t size) {
  const auto runs = from.number<uint32_t>();
  if (runs == 0 || runs > size) return std::nullopt;
  std::vector<uint32_t> ranks;
  for (uint32_t run = 0; run < runs; ++run) {
    const uint64_t start = from.number<uint32_t>();
    const uint64_t stride = from.number<uint32_t>();
    const uint64_t count = from.number<uint32_t>();
    if (!from.good() || stride == 0 || count == 0 || count > size) return std::nullopt;
    if (start + stride * (count - 1) >= size) return std::nullopt;
    if (!ranks.empty() && start <= ranks.back()) return std::nullopt;
    for (uint64_t i = 0; i < count; ++i) {
      ranks.push_back(static_cast<uint32_t>(start + stride * i));
    }
  }
  return ranks;
}

}  // namespace penstock::job
