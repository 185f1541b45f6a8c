#include "penstock/rails/gpu_rails.h"

#include <algorithm>
#include <fmt/format.h>

#include "penstock/rails/limits.h"

namespace penstock::rails {
namespace {

// One way: from the GPU, perhaps over NVLink to another, to a card.
struct RailWay {
  uint32_t gpu;
  uint32_t card;
  Nearness nearness;  // of the two
  bool is_on_rail;
  double rate;
  double seconds;
};

// "/sys/devices/pci0000:00/0000:00:01.0": the port of the processor's that a device is behind, with
// whatever bridges there are, or the device itself. Empty: unknown.
std::string port_of(const DevicePlace& place) {
  const size_t root = place.path.find("/pci");
  if (root == std::string::npos) return "";
  const size_t port = place.path.find('/', root + 1);
  if (port == std::string::npos) return "";
  return place.path.substr(0, place.path.find('/', port + 1));
}

// The nearest, the first of equal ones. None: there is no card.
std::optional<uint32_t> home_card(const RailNode& node, const DevicePlace& gpu) {
  std::optional<uint32_t> best;
  for (uint32_t card = 0; card < node.cards.size(); ++card) {
    if (!best || nearness(gpu, node.cards[card].place) < nearness(gpu, node.cards[*best].place))
      best = card;
  }
  return best;
}

RailWay way_by(const RailNode& here, uint32_t from, uint32_t by, uint32_t card,
               const std::string& rail, const RailCosts& costs) {
  const RailCard& one = here.cards[card];
  RailWay way{by, card, nearness(here.gpus[by].place, one.place), !rail.empty() && one.rail == rail,
              0,  0};
  const double card_rate =
      one.bytes_per_second > 0 ? one.bytes_per_second : limits::kCardBytesPerSecond;
  way.rate = std::min(card_rate, costs.pcie_bytes_per_second);
  if (way.nearness == Nearness::same_processor) way.rate *= costs.share_through_processor;
  if (way.nearness == Nearness::apart) way.rate *= costs.share_behind_processor;
  if (!way.is_on_rail) way.rate = std::min(way.rate, card_rate * costs.share_between_rails);
  if (by != from) way.rate = std::min(way.rate, costs.nvlink_bytes_per_second);
  way.seconds = static_cast<double>(limits::kRailPieceBytes) / way.rate +
                (by != from ? costs.seconds_per_copy : 0);
  return way;
}

// Of equal ones the one that stays: the own GPU, a near card, one on the rail, the GPU with the
// other one's number.
bool is_better(const RailWay& one, const RailWay& other, uint32_t from, uint32_t to) {
  constexpr double kSame = 1e-9;
  if (one.seconds < other.seconds * (1 - kSame)) return true;
  if (other.seconds < one.seconds * (1 - kSame)) return false;
  if ((one.gpu == from) != (other.gpu == from)) return one.gpu == from;
  if (one.nearness != other.nearness) return one.nearness < other.nearness;
  if (one.is_on_rail != other.is_on_rail) return one.is_on_rail;
  return one.gpu == to && other.gpu != to;
}

std::string rate_text(double rate) {
  return fmt::format("{:.1f} GB/s", rate / 1e9);
}

std::string reason(const RailNode& here, uint32_t from, const RailWay& way, const RailWay& stay,
                   const std::string& rail) {
  const std::string& card = here.cards[way.card].name;
  if (way.gpu != from) {
    return fmt::format("over NVLink to GPU {}, whose card {} is on rail {}: {} instead of {} by {}",
                       way.gpu, card, rail, rate_text(way.rate), rate_text(stay.rate),
                       here.cards[stay.card].name);
  }
  if (rail.empty()) return fmt::format("by {}: the other GPU's card is on no rail", card);
  if (way.is_on_rail) return fmt::format("by {}, which is on rail {}", card, rail);
  const bool is_here = std::any_of(here.cards.begin(), here.cards.end(),
                                   [&](const RailCard& one) { return one.rail == rail; });
  return fmt::format("by {}, between rails: {}", card,
                     is_here ? fmt::format("no better way to a card on rail {}", rail)
                             : fmt::format("no card of this node is on rail {}", rail));
}

}  // namespace

RailCosts rail_costs(const engine::CopyCosts& costs) {
  return {.pcie_bytes_per_second = costs.engine_bytes_per_second,
          .nvlink_bytes_per_second = limits::kNvlinkBytesPerSecond,
          .seconds_per_copy = costs.engine_seconds_per_copy,
          .share_through_processor = limits::kShareThroughProcessor,
          .share_behind_processor = limits::kShareBehindProcessor,
          .share_between_rails = limits::kShareBetweenRails};
}

Nearness nearness(const DevicePlace& one, const DevicePlace& other) {
  const std::string port = port_of(one);
  if (!port.empty() && port == port_of(other)) return Nearness::same_bridge;
  if (one.numa_node >= 0 && one.numa_node == other.numa_node) return Nearness::same_processor;
  return Nearness::apart;
}

GpuRail choose_rail(const RailNode& here, uint32_t from, const RailNode& there, uint32_t to,
                    const RailCosts& costs) {
  GpuRail chosen;
  chosen.gpu = from;
  if (from >= here.gpus.size() || here.cards.empty()) {
    chosen.why = "no network card of this node is known";
    return chosen;
  }
  std::string rail;
  if (to < there.gpus.size()) {
    if (const auto home = home_card(there, there.gpus[to].place)) rail = there.cards[*home].rail;
  }
  std::optional<RailWay> best;
  std::optional<RailWay> stay;
  for (uint32_t gpu = 0; gpu < here.gpus.size(); ++gpu) {
    const bool is_reached = gpu == from || (gpu < 64 && (here.gpus[from].nvlinks >> gpu & 1) != 0);
    if (!is_reached) continue;
    for (uint32_t card = 0; card < here.cards.size(); ++card) {
      const RailWay way = way_by(here, from, gpu, card, rail, costs);
      if (!best || is_better(way, *best, from, to)) best = way;
      if (gpu == from && (!stay || is_better(way, *stay, from, to))) stay = way;
    }
  }
  ASSERT(best && stay);
  chosen.gpu = best->gpu;
  chosen.card = best->card;
  chosen.bytes_per_second = best->rate;
  chosen.why = reason(here, from, *best, *stay, rail);
  return chosen;
}

}  // namespace penstock::rails
