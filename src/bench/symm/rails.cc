#include "penstock/rails.h"

#include "penstock/bench/symm_rails.h"
#include "penstock/gpu.h"

namespace penstock::bench {
namespace {

Json json_of(const rails::DevicePlace& place) {
  return {{"path", place.path}, {"numa_node", place.numa_node}};
}

rails::DevicePlace place_from(const Json& json) {
  rails::DevicePlace place{text_at(json, "path")};
  const auto node = json.find("numa_node");
  if (node != json.end() && node->is_number_integer()) place.numa_node = node->get<int>();
  return place;
}

// The objects of a list under a key.
std::vector<Json> objects_at(const Json& json, const char* key) {
  std::vector<Json> objects;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return objects;
  for (const Json& one : *found) {
    if (one.is_object()) objects.push_back(one);
  }
  return objects;
}

uint64_t nvlinks_of(uint32_t gpu, size_t gpus) {
  uint64_t links = 0;
  for (uint32_t other = 0; other < gpus && other < 64; ++other) {
    if (other == gpu) continue;
    const auto link = gpu::peer_link(engine::DeviceId(gpu), engine::DeviceId(other));
    if (link && *link == gpu::PeerLink::nvlink) links |= uint64_t{1} << other;
  }
  return links;
}

SymmRail rail_from_to(const std::vector<RailPe>& pes, uint32_t from, uint32_t to) {
  const RailPe& here = pes[from];
  const RailPe& there = pes[to];
  const rails::GpuRail chosen =
      rails::choose_rail(here.sees, *here.gpu, there.sees, *there.gpu, rails::rail_costs({}));
  SymmRail rail{from, to, chosen.gpu, {}, chosen.bytes_per_second, chosen.why};
  if (chosen.card) rail.card = here.sees.cards[*chosen.card].name;
  return rail;
}

}  // namespace

rails::RailNode own_rail_node() {
  rails::RailNode node;
  node.cards = rails::machine_cards();
  const auto devices = gpu::devices();
  if (!devices) return node;
  const auto all = (*devices)->devices();
  for (uint32_t gpu = 0; gpu < all.size(); ++gpu) {
    rails::DevicePlace place = rails::place_of_pci("/sys", all[gpu].pci_address);
    if (place.numa_node < 0) place.numa_node = all[gpu].numa_node;
    node.gpus.push_back({std::move(place), nvlinks_of(gpu, all.size())});
  }
  return node;
}

Json json_of(const rails::RailNode& node) {
  Json gpus = Json::array();
  for (const rails::RailGpu& gpu : node.gpus)
    gpus.push_back({{"place", json_of(gpu.place)}, {"nvlinks", gpu.nvlinks}});
  Json cards = Json::array();
  for (const rails::RailCard& card : node.cards) {
    cards.push_back({{"name", card.name},
                     {"place", json_of(card.place)},
                     {"bytes_per_second", card.bytes_per_second},
                     {"rail", card.rail}});
  }
  return {{"gpus", gpus}, {"cards", cards}};
}

rails::RailNode rail_node_from(const Json& json) {
  rails::RailNode node;
  for (const Json& one : objects_at(json, "gpus"))
    node.gpus.push_back(
        {place_from(one.value("place", Json::object())), number_at(one, "nvlinks")});
  for (const Json& one : objects_at(json, "cards")) {
    rails::RailCard card{text_at(one, "name"), place_from(one.value("place", Json::object())), 0,
                         text_at(one, "rail")};
    const auto rate = one.find("bytes_per_second");
    if (rate != one.end() && rate->is_number()) card.bytes_per_second = rate->get<double>();
    node.cards.push_back(std::move(card));
  }
  return node;
}

std::vector<SymmRail> rails_between(const std::vector<RailPe>& pes,
                                    const std::vector<SymmPair>& pairs) {
  std::vector<SymmRail> all;
  for (const SymmPair& pair : pairs) {
    const RailPe& from = pes[pair.from];
    const RailPe& to = pes[pair.to];
    if (from.node == to.node || !from.gpu || !to.gpu) continue;
    all.push_back(rail_from_to(pes, pair.from, pair.to));
    all.push_back(rail_from_to(pes, pair.to, pair.from));
  }
  return all;
}

}  // namespace penstock::bench
