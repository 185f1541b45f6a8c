// Which devices there are, and whether this transport can use them.
#include "ibverbs.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "penstock/base.h"

namespace penstock::verbs {
namespace {

struct Devices {
  Devices() : list(ibv_get_device_list(&count)) {}
  ~Devices() {
    if (list != nullptr) ibv_free_device_list(list);
  }
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;

  int count = 0;
  ibv_device** list;
};

int numa_node_of(const ibv_device& device) {
  int node = -1;
  std::ifstream(std::string(device.ibdev_path) + "/device/numa_node") >> node;
  return node;
}

bool is_ipv4(const ibv_gid& gid) {
  constexpr std::array<uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kMapped.data(), kMapped.size()) == 0;
}

// RoCE version 2 where there is any, of these an IPv4 address, as others come and go by themselves.
int choose_gid(ibv_context* context, const DeviceChoice& choice, int table_length) {
  if (choice.gid >= 0) return choice.gid;
  int chosen = 0;
  int rank = 0;
  for (int index = 0; index < std::min(table_length, 256); ++index) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context, choice.port, static_cast<uint32_t>(index), &entry, 0) != 0) {
      continue;
    }
    if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) continue;
    const int its = is_ipv4(entry.gid) ? 2 : 1;
    if (its <= rank) continue;
    rank = its;
    chosen = index;
  }
  return chosen;
}

// What the kernel's own devices say, which are no hardware.
constexpr uint32_t kSoftwareVendor = 0xffffff;

// What the device lacks; empty: nothing.
std::string lack_of(const ibv_device_attr& attributes) {
  if ((attributes.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) == 0 ||
      (attributes.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) == 0) {
    return "it has no memory windows of type 2B";
  }
  if (attributes.max_cqe < static_cast<int>(limits::kCompletionsMax)) {
    return "its completion queues are too short";
  }
  if (attributes.max_srq_wr < static_cast<int>(limits::kLinksMax * limits::kReceivesOfLink)) {
    return "its shared receive queues are too short";
  }
  if (attributes.max_qp_rd_atom < limits::kReadsMax) return "it has too few reads at a time";
  return {};
}

Outcome<std::unique_ptr<Provider>> open_one(ibv_device& device, const DeviceChoice& choice) {
  const std::string name = ibv_get_device_name(&device);
  const auto failure = [&](Code code, std::string_view why) {
    return Failure{code, fmt::format("verbs: device {}, port {}: {}", name, choice.port, why)};
  };
  ibv_context* const context = ibv_open_device(&device);
  if (context == nullptr) return failure(Code::not_supported, std::strerror(errno));
  ibv_port_attr port{};
  if (ibv_query_port(context, choice.port, &port) != 0) {
    (void)ibv_close_device(context);
    return failure(Code::not_found, "there is no such port");
  }
  ibv_device_attr attributes{};
  std::string lack = "it does not answer";
  if (ibv_query_device(context, &attributes) == 0) lack = lack_of(attributes);
  if (lack.empty() && port.state != IBV_PORT_ACTIVE) lack = "the port is not active";
  PortFacts facts;
  facts.number = choice.port;
  facts.gid_index = static_cast<uint8_t>(choose_gid(context, choice, port.gid_tbl_len));
  facts.lid = port.lid;
  facts.mtu = std::min(choice.mtu_max, static_cast<uint8_t>(port.active_mtu));
  ibv_gid gid{};
  if (ibv_query_gid(context, choice.port, facts.gid_index, &gid) != 0) {
    lack = "the port has no such address";
  }
  std::memcpy(facts.gid.data(), gid.raw, facts.gid.size());
  if (!lack.empty()) {
    (void)ibv_close_device(context);
    return failure(Code::not_supported, lack);
  }
  const bool closes_at_once = attributes.vendor_id != kSoftwareVendor;
  auto provider = std::make_unique<IbvProvider>(
      context, facts, DeviceFacts{name, numa_node_of(device), closes_at_once});
  if (const Status status = provider->create(); !status.ok()) {
    return failure(status.code(), fmt::format("its queues could not be made: {} (is the limit of "
                                              "locked memory high enough? ulimit -l)",
                                              status.name()));
  }
  return std::unique_ptr<Provider>(std::move(provider));
}

}  // namespace

std::vector<std::string> device_names() {
  const Devices devices;
  std::vector<std::string> names;
  for (int i = 0; i < devices.count; ++i) names.emplace_back(ibv_get_device_name(devices.list[i]));
  return names;
}

Outcome<std::unique_ptr<Provider>> open_device(const DeviceChoice& choice) {
  const Devices devices;
  Failure why{Code::not_found, choice.name.empty()
                                   ? std::string("verbs: this machine has no RDMA device")
                                   : fmt::format("verbs: there is no device {}", choice.name)};
  for (int i = 0; i < devices.count; ++i) {
    if (!choice.name.empty() && choice.name != ibv_get_device_name(devices.list[i])) continue;
    auto provider = open_one(*devices.list[i], choice);
    if (provider || !choice.name.empty()) return provider;
    why = provider.error();
  }
  return why;
}

}  // namespace penstock::verbs
