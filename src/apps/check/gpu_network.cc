#include "gpu_network.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fmt/ranges.h>
#include <fstream>
#include <linux/pci_regs.h>
#include <set>

#include "penstock/resources.h"

namespace penstock::apps {
namespace {

namespace fs = std::filesystem;
using engine::DeviceId;

constexpr uint64_t kTriedBytes = 2 * kMiB;

template <class Number>
Number field_at(const std::string& bytes, size_t at) {
  Number number{};
  if (range_within(at, sizeof number, bytes.size())) {
    std::memcpy(&number, bytes.data() + at, sizeof number);
  }
  return number;
}

// Whether a bridge's configuration has the capability Access Control Services, and it redirects.
bool redirects(const std::string& configuration) {
  size_t at = PCI_CFG_SPACE_SIZE;
  // Each capability points to the next, which may not be trusted to end.
  for (size_t left = configuration.size() / sizeof(uint32_t); at != 0 && left > 0; --left) {
    const auto header = field_at<uint32_t>(configuration, at);
    if (PCI_EXT_CAP_ID(header) == PCI_EXT_CAP_ID_ACS) {
      const auto control = field_at<uint16_t>(configuration, at + PCI_ACS_CTRL);
      return (control & (PCI_ACS_RR | PCI_ACS_CR)) != 0;
    }
    at = PCI_EXT_CAP_NEXT(header);
  }
  return false;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Of the card, as of the GPU: "0000:17:00.0"; empty where there is no such device.
std::string pci_address_of(const std::string& root, const std::string& card) {
  std::error_code error;
  const fs::path device =
      fs::canonical(fs::path(root) / "sys/class/infiniband" / card / "device", error);
  return error ? "" : device.filename().string();
}

// Empty: the card takes it.
std::string why_not_taken(verbs::Provider& card, const engine::DmaBuf& memory) {
  const auto addresses = resources::DeviceAddresses::take(memory.offset, kTriedBytes);
  if (!addresses) return "no addresses are left for it";
  const auto taken =
      card.register_device_memory({(*addresses)->bytes(), memory.fd.get(), memory.offset});
  if (taken) {
    card.deregister_memory(*taken);
    return {};
  }
  if (taken.error() != Code::not_supported) {
    return "it cannot be registered: " + std::string(taken.error().name());
  }
  return "the card's driver or the kernel takes no dma-buf (that takes Linux 5.12 or later, and "
         "the driver mlx5_ib, or later one of irdma, bnxt_re and efa)";
}

std::string note_of(const std::string& root, const std::string& card, const std::string& gpu) {
  std::set<std::string> bridges;
  for (const std::string& address : {pci_address_of(root, card), gpu}) {
    for (std::string& bridge : redirecting_bridges(root, address))
      bridges.insert(std::move(bridge));
  }
  if (bridges.empty()) return "it is reached; 'penstock check net' measures the way between nodes";
  return fmt::format(
      "it is reached by way of the processor: PCI bridges redirect (ACS). Mend it with 'setpci -s "
      "{} ECAP_ACS+6.w=0000', for each of {}",
      *bridges.begin(), fmt::join(bridges, ", "));
}

}  // namespace

std::vector<std::string> redirecting_bridges(const std::string& root,
                                             const std::string& pci_address) {
  std::vector<std::string> bridges;
  std::error_code error;
  const fs::path devices = fs::path(root) / "sys/bus/pci/devices";
  const fs::path device =
      pci_address.empty() ? fs::path() : fs::canonical(devices / pci_address, error);
  if (error || device.empty()) return bridges;
  for (fs::path above = device.parent_path(); fs::exists(above / "config", error);
       above = above.parent_path()) {
    if (redirects(bytes_of(above / "config"))) bridges.push_back(above.filename());
  }
  return bridges;
}

std::vector<GpuWay> network_ways(engine::DeviceMemory& devices, DeviceId gpu, rails::Devices& cards,
                                 const std::string& no_cards, const std::string& root) {
  const GpuWay none{gpu.value, "another node", "network card to GPU", {}, no_cards};
  if (!no_cards.empty()) return {none};
  const engine::DeviceFacts& facts = devices.devices()[gpu.value];
  const Outcome<engine::DeviceSpan> span = devices.allocate(gpu, kTriedBytes);
  const Outcome<engine::DmaBuf> memory =
      span ? devices.export_dma_buf(*span) : Outcome<engine::DmaBuf>(span.error());
  std::vector<GpuWay> ways;
  for (const rails::Device& card : cards.all()) {
    GpuWay way = none;
    way.way = fmt::format("network card {} to GPU", card.name);
    const auto opened = cards.open(card);
    if (!memory) {
      way.note = memory.error().message;
    } else if (!opened) {
      way.note = opened.error().message;
    } else {
      way.note = why_not_taken(**opened, *memory);
      if (way.note.empty()) way.note = note_of(root, card.name, facts.pci_address);
    }
    ways.push_back(std::move(way));
  }
  if (span) static_cast<void>(devices.release(*span));
  return ways;
}

}  // namespace penstock::apps
