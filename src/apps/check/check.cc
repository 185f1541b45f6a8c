// `penstock check`: what this machine can do, and why not more.
#include "check/host_check.h"
#include "check/net_check.h"
#include "commands.h"
#include "gpu_check.h"
#include "node/admin.h"
#include "node/node_service.h"

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include "penstock/console.h"
#include "penstock/gpu.h"
#include "penstock/json.h"
#include "penstock/route.h"

namespace penstock::apps {
namespace {

void print_device(engine::DeviceMemory& devices, uint32_t gpu) {
  const engine::DeviceFacts& facts = devices.devices()[gpu];
  const engine::CopyCosts costs = devices.costs(engine::DeviceId(gpu));
  std::printf("GPU %u: %s, %s, PCI %s%s\n", gpu, facts.name.c_str(),
              console::human_bytes(static_cast<double>(facts.memory_bytes)).c_str(),
              facts.pci_address.c_str(),
              facts.numa_node < 0 ? "" : fmt::format(", NUMA node {}", facts.numa_node).c_str());
  std::printf(
      "A copy engine moves %s and takes %.1f us more for each copy, the gather kernel moves %s:\n"
      "pieces from %s on go by the engine.\n\n",
      console::human_rate(costs.engine_bytes_per_second).c_str(),
      costs.engine_seconds_per_copy * 1e6,
      console::human_rate(costs.gather_bytes_per_second).c_str(),
      console::human_bytes(static_cast<double>(route::engine_bytes_min(costs))).c_str());
}

void print_ways(engine::DeviceMemory& devices, const std::vector<GpuWay>& ways) {
  for (uint32_t gpu = 0; gpu < devices.devices().size(); ++gpu) {
    print_device(devices, gpu);
    console::Table table({"from", "way", "bandwidth", "note"}, {1, 3});
    for (const GpuWay& way : ways) {
      if (way.gpu != gpu) continue;
      table.add({way.source, way.way,
                 way.bytes_per_second ? console::human_rate(*way.bytes_per_second) : "-",
                 way.note});
    }
    std::printf("%s\n", table.text().c_str());
  }
}

Json json_of(engine::DeviceMemory& devices, const std::vector<GpuWay>& ways) {
  Json json = {{"gpus", Json::array()}, {"ways", Json::array()}};
  for (const engine::DeviceFacts& facts : devices.devices()) {
    json["gpus"].push_back({{"name", facts.name},
                            {"pci_address", facts.pci_address},
                            {"memory_bytes", facts.memory_bytes},
                            {"numa_node", facts.numa_node}});
  }
  for (const GpuWay& way : ways) {
    Json one = {{"gpu", way.gpu}, {"source", way.source}, {"way", way.way}, {"note", way.note}};
    if (way.bytes_per_second) one["bytes_per_second"] = *way.bytes_per_second;
    json["ways"].push_back(std::move(one));
  }
  return json;
}

// Why no node is asked, for people; empty: one is.
std::string why_this_machine_only(const NetCheckOptions& options) {
  if (options.store.empty()) {
    return "no node was named (--store DIR of one that runs, or PENSTOCK_STORE)";
  }
  if (node_runs(absolute_path(options.store))) return "";
  return fmt::format("no node runs in {} ('penstock up {}' starts it)", options.store,
                     options.store);
}

int print_findings(const std::vector<Finding>& findings) {
  std::printf("%s", text_of(findings).c_str());
  return is_well(findings) ? kExitOk : kExitDifferent;
}

int check_this_machine(const NetCheckOptions& options, const std::string& why) {
  if (!options.node.empty()) {
    return fail("check net", {Code::not_found, why + ": node '" + options.node +
                                                   "' can be reached from a running node only"});
  }
  const probe::MachineFacts machine = probe::look_at_machine({});
  const std::vector<Finding> findings = findings_of(machine, "this machine");
  if (options.json) {
    Json json = json_of(findings);
    json["only_this_machine"] = why;
    json["machine"] = probe::json_of(machine);
    std::printf("%s\n", json.dump(2).c_str());
    return is_well(findings) ? kExitOk : kExitDifferent;
  }
  std::printf("only this machine was looked at: %s\n\n", why.c_str());
  return print_findings(findings);
}

int print_net(const NetCheckOptions& options, Json answer) {
  const NetDocument document = read_net_document(answer);
  const std::vector<Finding> findings = findings_of(document);
  if (options.json) {
    answer.update(json_of(findings));
    std::printf("%s\n", answer.dump(2).c_str());
    return is_well(findings) ? kExitOk : kExitDifferent;
  }
  const std::string table = table_of(document);
  if (!table.empty()) {
    std::printf(
        "%s\n1 MiB at a time, 8 at once: towards the node under 'from', and away from it\n\n",
        table.c_str());
  }
  const std::string reasons = reasons_of(document);
  if (!reasons.empty()) std::printf("why no better way is taken\n%s\n", reasons.c_str());
  return print_findings(findings);
}

// On the disk that is to be looked at.
std::string scratch_directory(const CheckOptions& options) {
  if (!options.directory.empty()) return options.directory;
  const char* const temporary = std::getenv("TMPDIR");
  return temporary != nullptr ? temporary : "/var/tmp";
}

}  // namespace

int run_check(const CheckOptions& options) {
  HostCheckOptions check;
  check.directory = scratch_directory(options);
  check.is_root = ::geteuid() == 0;
  const std::vector<Finding> findings = check_host(check);
  if (options.json) {
    std::printf("%s\n", json_of(findings).dump(2).c_str());
  } else {
    std::printf("%s", text_of(findings).c_str());
  }
  return is_well(findings) ? kExitOk : kExitDifferent;
}

int run_check_gpu(const CheckOptions& options) {
  const Outcome<engine::DeviceMemory*> devices = gpu::devices();
  if (!devices) return fail("check gpu", devices.error());
  GpuCheckOptions check;
  check.directory = scratch_directory(options);
  const Outcome<std::vector<GpuWay>> ways = check_gpus(**devices, check);
  if (!ways) return fail("check gpu", ways.error());
  if (options.json) {
    std::printf("%s\n", json_of(**devices, *ways).dump(2).c_str());
  } else {
    print_ways(**devices, *ways);
  }
  return kExitOk;
}

int run_check_net(const NetCheckOptions& options) {
  const std::string why = why_this_machine_only(options);
  if (!why.empty()) return check_this_machine(options, why);
  const auto milliseconds = static_cast<uint64_t>(options.seconds * 1000);
  const auto answer =
      ask_node(absolute_path(options.store),
               {{"command", "check net"}, {"node", options.node}, {"milliseconds", milliseconds}});
  if (!answer) return fail("check net", answer.error());
  if (answer->value("alone", false)) {
    return check_this_machine(options, options.store + ": this node is alone, of no cluster");
  }
  return print_net(options, *answer);
}

}  // namespace penstock::apps
