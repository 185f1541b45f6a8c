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

// Closed with it, unless a provider takes it.
struct Context {
  explicit Context(ibv_device& its) : device(ibv_open_device(&its)) {}
  ~Context() {
    if (device != nullptr) (void)ibv_close_device(device);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  ibv_context* device;
};

// One port, with the address that `choice` names or that is the best one there.
struct Port {
  PortFacts facts;
  bool is_ethernet = false;
  bool is_active = false;
  bool closes_at_once = true;
  std::string lack;  // empty: it can be used when it is active
};

Port look_at(ibv_context* context, const DeviceChoice& choice) {
  Port port;
  port.facts.number = choice.port;
  ibv_device_attr device{};
  ibv_port_attr found{};
  if (ibv_query_device(context, &device) != 0) {
    port.lack = "it does not answer";
    return port;
  }
  if (ibv_query_port(context, choice.port, &found) != 0) {
    port.lack = "there is no such port";
    return port;
  }
  port.is_ethernet = found.link_layer == IBV_LINK_LAYER_ETHERNET;
  port.closes_at_once = device.vendor_id != kSoftwareVendor;
  port.lack = lack_of(device);
  port.is_active = found.state == IBV_PORT_ACTIVE;
  port.facts.gid_index = static_cast<uint8_t>(choose_gid(context, choice, found.gid_tbl_len));
  port.facts.lid = found.lid;
  port.facts.mtu = std::min(choice.mtu_max, static_cast<uint8_t>(found.active_mtu));
  ibv_gid gid{};
  if (ibv_query_gid(context, choice.port, port.facts.gid_index, &gid) != 0) {
    port.lack = "the port has no such address";
  }
  std::memcpy(port.facts.gid.data(), gid.raw, port.facts.gid.size());
  return port;
}

Outcome<std::unique_ptr<Provider>> open_one(ibv_device& device, const DeviceChoice& choice) {
  const std::string name = ibv_get_device_name(&device);
  const auto failure = [&](Code code, std::string_view why) {
    return Failure{code, fmt::format("verbs: device {}, port {}: {}", name, choice.port, why)};
  };
  Context context(device);
  if (context.device == nullptr) return failure(Code::not_supported, std::strerror(errno));
  const Port port = look_at(context.device, choice);
  if (!port.lack.empty()) return failure(Code::not_supported, port.lack);
  if (!port.is_active) return failure(Code::not_supported, "the port is not active");
  auto provider =
      std::make_unique<IbvProvider>(std::exchange(context.device, nullptr), port.facts,
                                    DeviceFacts{name, numa_node_of(device), port.closes_at_once});
  if (const Status status = provider->create(); !status.ok()) {
    return failure(status.code(), fmt::format("its queues could not be made: {} (is the limit of "
                                              "locked memory high enough? ulimit -l)",
                                              status.name()));
  }
  return std::unique_ptr<Provider>(std::move(provider));
}

void add_ports(ibv_device& device, std::vector<PortFound>& to) {
  PortFound found;
  found.device = ibv_get_device_name(&device);
  found.numa_node = numa_node_of(device);
  const Context context(device);
  ibv_device_attr attributes{};
  if (context.device == nullptr || ibv_query_device(context.device, &attributes) != 0) {
    found.lack = std::string("it cannot be opened: ") + std::strerror(errno);
    to.push_back(std::move(found));
    return;
  }
  for (uint8_t number = 1; number <= attributes.phys_port_cnt; ++number) {
    const Port port = look_at(context.device, {.name = found.device, .port = number});
    found.port = number;
    found.is_ethernet = port.is_ethernet;
    found.gid = port.facts.gid;
    found.mtu = port.facts.mtu;
    found.is_active = port.is_active;
    found.lack = port.lack;
    to.push_back(found);
  }
}

}  // namespace

std::vector<std::string> device_names() {
  const Devices devices;
  std::vector<std::string> names;
  for (int i = 0; i < devices.count; ++i) names.emplace_back(ibv_get_device_name(devices.list[i]));
  return names;
}

std::vector<PortFound> find_ports() {
  const Devices devices;
  std::vector<PortFound> ports;
  for (int i = 0; i < devices.count; ++i) add_ports(*devices.list[i], ports);
  return ports;
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
