#include "check/net_check.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "penstock/console.h"

namespace penstock::apps {
namespace {

using probe::CardFacts;
using probe::MachineFacts;
using probe::WayFacts;

// Below that registered memory runs out at once where there is RDMA.
constexpr uint64_t kLockedBytesForRdma = kGiB;
// More than these in a thousand packets sent again cost throughput.
constexpr uint64_t kRetransmissionsPermille = 1;
constexpr uint64_t kRetransmissionsLeast = 20;
// Headers of a packet with options; only of cards that send as much over a wire.
constexpr uint64_t kHeadersMost = 120;
constexpr uint64_t kWireMtuMost = 16'000;
// No packet of the internet's protocol is larger, whatever a card would take.
constexpr uint64_t kPacketMost = 65'535;

Json list_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : Json::array();
}

Bytes bytes_at(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string title_of(const NetDocument::Node& node) {
  return node.name.empty() ? fmt::format("node {}", node.node)
                           : fmt::format("node {} ({})", node.node, node.name);
}

// "45 us".
std::string micro_text(uint64_t nanoseconds) {
  return fmt::format("{:.{}f} us", static_cast<double>(nanoseconds) / 1000,
                     nanoseconds < 10'000 ? 1 : 0);
}

std::string rate_text(uint64_t bytes_per_second) {
  return bytes_per_second == 0 ? "-" : console::human_rate(static_cast<double>(bytes_per_second));
}

std::string tls_of(const WayFacts& way) {
  if (way.from.empty()) return "-";
  if (way.protection == probe::Protection::none) return "none";
  return way.protection == probe::Protection::kernel ? "kernel" : "user space";
}

std::string host_part(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

// The card of the other node at which this way arrives; null: it is not known.
const CardFacts* card_there(const NetDocument& document, const NetDocument::Pair& pair,
                            const WayFacts& way) {
  const auto node = std::find_if(document.nodes.begin(), document.nodes.end(),
                                 [&](const NetDocument::Node& one) { return one.node == pair.to; });
  if (node == document.nodes.end() || !node->machine) return nullptr;
  const auto card =
      std::find_if(node->machine->cards.begin(), node->machine->cards.end(),
                   [&](const CardFacts& one) { return one.address == host_part(way.to); });
  return card == node->machine->cards.end() || card->mtu == 0 ? nullptr : &*card;
}

std::string link_text(const CardFacts& card) {
  if (card.name.empty()) return "no card of this machine has the address";
  std::string text = card.is_up ? "up" : "DOWN";
  if (card.megabits >= 1000) text += fmt::format(", {} Gbit/s", card.megabits / 1000);
  if (card.megabits > 0 && card.megabits < 1000) text += fmt::format(", {} Mbit/s", card.megabits);
  if (card.rail > 0) text += fmt::format(", rail {}", card.rail);
  return text + fmt::format(", MTU {}", card.mtu);
}

Finding of_card(const CardFacts& card, const std::string& area) {
  Finding finding{area,
                  fmt::format("{} ({})", card.name.empty() ? "card" : card.name, card.address),
                  Verdict::good, link_text(card), ""};
  if (!card.name.empty() && card.is_up) return finding;
  finding.verdict = Verdict::bad;
  finding.mend = card.name.empty() ? "ip address (and listen at one that is there: penstock up DIR "
                                     "--listen HOST:PORT)"
                                   : fmt::format("ip link set {} up", card.name);
  return finding;
}

Finding of_rdma(const MachineFacts& machine, const std::string& area) {
  Finding finding{area, "RDMA", Verdict::good, "no device", ""};
  if (machine.rdma_without_library) {
    finding.verdict = Verdict::note;
    finding.found = "the kernel has a device, and there is no library for it";
    finding.mend = "apt-get install rdma-core ibverbs-providers";
  }
  if (machine.rdma_devices.empty()) return finding;
  finding.found = "";
  for (const std::string& device : machine.rdma_devices) {
    finding.found += (finding.found.empty() ? "" : ", ") + device;
  }
  return finding;
}

// Memory that cards reach is pinned: without RDMA nobody pins any for them.
Finding of_memlock(const MachineFacts& machine, const std::string& area) {
  Finding finding{area, "locked memory (memlock)", Verdict::good,
                  machine.memlock_bytes == UINT64_MAX
                      ? "unlimited"
                      : console::human_bytes(static_cast<double>(machine.memlock_bytes)),
                  ""};
  if (machine.rdma_devices.empty() || machine.memlock_bytes >= kLockedBytesForRdma) return finding;
  finding.verdict = Verdict::bad;
  finding.found += ": too little for RDMA, whose memory is pinned";
  finding.mend =
      "ulimit -l unlimited before the node is started; of a service of systemd: LimitMEMLOCK="
      "infinity under [Service], then systemctl daemon-reload";
  return finding;
}

Finding of_kernel_tls(const MachineFacts& machine, const std::string& area) {
  const char* const found = machine.kernel_tls == probe::KernelTls::loaded ? "module tls is loaded"
                            : machine.kernel_tls == probe::KernelTls::loadable
                                ? "module tls is there, and not loaded (modprobe tls)"
                                : "this kernel has no module tls: records are made in user space";
  return {area, "TLS in the kernel", Verdict::good, found, ""};
}

std::string direction(const NetDocument::Pair& pair) {
  return fmt::format("node {} to node {}", pair.from, pair.to);
}

// Small packets pass and large ones do not: somebody on the way drops what is too large for it, and
// the kernel does not hear of that.
Finding of_large_packets(const NetDocument::Pair& pair, const WayFacts& way) {
  const bool is_towards = way.place_bytes_per_second == 0;
  const uint64_t sender = is_towards ? pair.to : pair.from;
  const uint64_t headers = way.to.starts_with('[') ? 48 : 28;
  return {
      "between nodes", direction(pair), Verdict::bad,
      fmt::format("{}: small calls pass, and 1 MiB from node {} does not: {}", way.to, sender,
                  way.trouble),
      fmt::format("ping -M do -s {} {} on node {} shows whether large packets pass; if not, let "
                  "what is in between pass them, or on both nodes: ip link set {} mtu 1500",
                  std::max(way.card_mtu, headers) - headers,
                  host_part(is_towards ? way.from : way.to), sender, way.card)};
}

void add_reach(const NetDocument::Pair& pair, const WayFacts& way, std::vector<Finding>& out) {
  if (way.trouble.empty()) return;
  if (way.latency_median_ns > 0 && !way.from.empty()) {
    out.push_back(of_large_packets(pair, way));
    return;
  }
  // Who could not connect says to where.
  const bool names_it = way.trouble.starts_with(way.to + ": ");
  const std::string why = names_it ? way.trouble.substr(way.to.size() + 2) : way.trouble;
  out.push_back(
      {"between nodes", direction(pair), Verdict::bad,
       fmt::format("{} is not reached: {}", way.to, why),
       fmt::format("penstock status DIR on node {} (is it up, and does it listen there?); "
                   "from node {}: ping {}",
                   pair.to, pair.from, host_part(way.to))});
}

// The whole way holds what both cards do, or less, and then each large packet is lost or cut.
void add_mtu(const NetDocument& document, const NetDocument::Pair& pair, const WayFacts& way,
             std::vector<Finding>& out) {
  const CardFacts* const there = card_there(document, pair, way);
  if (way.card_mtu == 0 || way.path_mtu == 0) return;
  const uint64_t cards = there != nullptr ? std::min(way.card_mtu, there->mtu) : way.card_mtu;
  const uint64_t both = std::min(cards, kPacketMost);
  if (there != nullptr && there->mtu != way.card_mtu) {
    const bool is_small_here = way.card_mtu < there->mtu;
    out.push_back(
        {"between nodes", direction(pair), Verdict::note,
         fmt::format("cards differ: MTU {} on {} of node {}, {} on {} of node {}", way.card_mtu,
                     way.card, pair.from, there->mtu, there->name, pair.to),
         fmt::format(
             "ip link set {} mtu {} on node {}, where all switches in between let that pass",
             is_small_here ? way.card : there->name, std::max(way.card_mtu, there->mtu),
             is_small_here ? pair.from : pair.to)});
  }
  const bool is_cut = way.segment_bytes > 0 && both <= kWireMtuMost &&
                      way.segment_bytes + kHeadersMost < std::min(both, way.path_mtu);
  if (way.path_mtu >= both && !is_cut) return;
  const uint64_t passes = way.path_mtu < both ? way.path_mtu : way.segment_bytes + 52;
  out.push_back(
      {"between nodes", direction(pair), Verdict::bad,
       fmt::format("packets of {} bytes pass at most, and both cards send {}", passes, both),
       fmt::format("let what is in between pass {} bytes, or on both nodes: ip link set "
                   "{} mtu {}",
                   both, way.card, passes)});
}

void add_retransmissions(const NetDocument::Pair& pair, const WayFacts& way,
                         std::vector<Finding>& out) {
  const bool is_much = way.retransmissions >= kRetransmissionsLeast &&
                       way.retransmissions * 1000 > way.segments * kRetransmissionsPermille;
  if (!is_much) return;
  out.push_back(
      {"between nodes", direction(pair), Verdict::note,
       fmt::format("{} of {} packets were sent again ({})", way.retransmissions, way.segments,
                   way.congestion),
       fmt::format("ethtool -S {} on both nodes shows who drops them: cable, switch, or a "
                   "queue of the card that is too short (ethtool -G)",
                   way.card)});
}

}  // namespace

NetDocument read_net_document(const Json& json) {
  NetDocument document;
  document.asked = number_at(json, "node");
  for (const Json& one : list_at(json, "nodes")) {
    NetDocument::Node node{number_at(one, "node"), text_at(one, "name"), std::nullopt,
                           text_at(one, "trouble")};
    const auto machine = one.find("machine");
    if (machine != one.end()) {
      const auto facts = probe::decode_machine(bytes_at(machine->dump()));
      if (facts) node.machine = *facts;
    }
    document.nodes.push_back(std::move(node));
  }
  for (const Json& one : list_at(json, "pairs")) {
    NetDocument::Pair pair{
        number_at(one, "from"), number_at(one, "to"), {}, text_at(one, "trouble")};
    if (auto ways = probe::decode_ways(bytes_at(list_at(one, "ways").dump()))) {
      pair.ways = std::move(*ways);
    }
    document.pairs.push_back(std::move(pair));
  }
  return document;
}

std::string table_of(const NetDocument& document) {
  console::Table table({"from", "to", "way", "at", "TLS", "small call", "99th", "towards", "away",
                        "packets", "sent again"},
                       {1, 2, 3, 4});
  for (const NetDocument::Pair& pair : document.pairs) {
    const std::string from = std::to_string(pair.from), to = std::to_string(pair.to);
    if (pair.ways.empty()) {
      table.add({from, to, "-", "not measured", "-", "-", "-", "-", "-", "-", "-"});
    }
    for (const WayFacts& way : pair.ways) {
      const bool is_well = way.latency_median_ns > 0;
      table.add({from, to, way.transport, way.to, tls_of(way),
                 is_well ? micro_text(way.latency_median_ns) : "-",
                 is_well ? micro_text(way.latency_p99_ns) : "-",
                 rate_text(way.place_bytes_per_second), rate_text(way.fetch_bytes_per_second),
                 way.path_mtu > 0 ? std::to_string(way.path_mtu) : "-",
                 way.from.empty() ? "-" : std::to_string(way.retransmissions)});
    }
  }
  return table.empty() ? "" : table.text();
}

std::string reasons_of(const NetDocument& document) {
  std::map<std::string, std::vector<uint64_t>> nodes_by_reason;
  for (const NetDocument::Pair& pair : document.pairs) {
    for (const WayFacts& way : pair.ways) {
      for (const std::string& reason : way.reasons) {
        std::vector<uint64_t>& nodes = nodes_by_reason[reason];
        if (nodes.empty() || nodes.back() != pair.from) nodes.push_back(pair.from);
      }
    }
  }
  std::string text;
  for (const auto& [reason, nodes] : nodes_by_reason) {
    text += fmt::format("  {} {}: {}\n", nodes.size() == 1 ? "node" : "nodes",
                        fmt::join(nodes, ", "), reason);
  }
  return text;
}

std::vector<Finding> findings_of(const MachineFacts& machine, const std::string& area) {
  std::vector<Finding> out;
  for (const CardFacts& card : machine.cards) out.push_back(of_card(card, area));
  if (machine.cards.empty()) {
    out.push_back({area, "cards", Verdict::bad,
                   "no network card but loopback has an address: no other machine is reached",
                   "ip address add ADDRESS/BITS dev CARD"});
  }
  out.push_back(of_rdma(machine, area));
  out.push_back(of_memlock(machine, area));
  out.push_back(of_kernel_tls(machine, area));
  if (machine.insecure) {
    out.push_back({area, "TLS", Verdict::note,
                   "INSECURE: nobody proves who they are, and bytes travel in the clear",
                   "penstock identity begin (docs/cluster.md, Who nodes are)"});
  }
  return out;
}

std::vector<Finding> findings_of(const NetDocument& document) {
  std::vector<Finding> out;
  for (const NetDocument::Node& node : document.nodes) {
    const std::string area = title_of(node);
    if (!node.trouble.empty()) {
      out.push_back({area, "its answer", Verdict::bad, "none: " + node.trouble,
                     fmt::format("penstock status DIR on node {}; a node that is lost for good: "
                                 "penstock remove DIR {}",
                                 node.node, node.node)});
    }
    if (!node.machine) continue;
    for (Finding& finding : findings_of(*node.machine, area)) out.push_back(std::move(finding));
  }
  for (const NetDocument::Pair& pair : document.pairs) {
    if (!pair.trouble.empty()) {
      out.push_back(
          {"between nodes", direction(pair), Verdict::bad, "not measured: " + pair.trouble, ""});
    }
    for (const WayFacts& way : pair.ways) {
      add_reach(pair, way, out);
      add_mtu(document, pair, way, out);
      add_retransmissions(pair, way, out);
    }
  }
  return out;
}

}  // namespace penstock::apps
