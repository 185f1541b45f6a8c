// One PE of a test's job: runs the scenario that it is told, over a group of all PEs.
#include "devices.h"

#include <cstring>
#include <optional>

namespace penstock::symm::test {
namespace {

Scenario find(const char* name) {
  for (const Named* all :
       {kMemoryScenarios, kCollectiveScenarios, kSmallScenarios, kTeamScenarios, kEndScenarios,
        kDeviceScenarios, kDeviceFaultScenarios, kDeviceApartScenarios, kDeviceFarScenarios,
        kFarOperationScenarios, kFarScenarios, kRandomScenarios, kFarKernelScenarios}) {
    for (const Named* one = all; one->name != nullptr; ++one) {
      if (std::strcmp(one->name, name) == 0) return one->run;
    }
  }
  return nullptr;
}

// Reaches all of other nodes, which takes no more than that somebody wants something of them, and
// waits until they are reached by RDMA.
void reach_by_rdma(Group& group) {
  for (uint32_t pe = 0; pe < group.size(); ++pe) {
    if (group.is_near(pe)) continue;
    uint64_t word = 0;
    CHECK(group.get(&word, group.heap_address(0), sizeof word, pe).ok());
    FarWay way;
    while (!(way = group.far_way(pe)).is_decided) group.progress();
    if (!way.is_rdma) std::fprintf(stderr, "symm_pes: PE %u: %s\n", pe, way.why.c_str());
    CHECK(way.is_rdma);
  }
  CHECK(group.barrier(group.world()).ok());
}

constexpr const char* kSimulated = "simulated";

int run(const char* name, bool simulated) {
  const Scenario scenario = find(name);
  if (scenario == nullptr) {
    std::fprintf(stderr, "symm_pes: no scenario is called %s\n", name);
    return 2;
  }
  auto member = job::Member::from_environment();
  if (!member) {
    std::fprintf(stderr, "symm_pes: %s\n", member.error().message.c_str());
    return 2;
  }
  const auto rdma = rdma_from_environment();
  if (!rdma) {
    std::fprintf(stderr, "symm_pes: %s\n", rdma.error().message.c_str());
    return 2;
  }
  auto group = Group::join(
      **member, {.heap_bytes = uint64_t{64} << 20, .has_program_data = true, .rdma = *rdma});
  if (!group) {
    std::fprintf(stderr, "symm_pes: %s\n", group.error().message.c_str());
    return 2;
  }
  if (rdma->use == RdmaChoice::Use::required) reach_by_rdma(**group);
  std::optional<penstock::test::SimulatedDevices> gpus;
  if (simulated) {
    gpus.emplace(penstock::test::SimulatedDeviceOptions{.devices = kSimulatedGpusMost});
    gpu::replace_symmetric_devices(&*gpus);
  }
  scenario({**member, **group, simulated ? &*gpus : nullptr});
  group->reset();
  (*member)->leave();
  return 0;
}

// By hand: a job of this program, with so many PEs.
int launch(const char* self, const char* pes, const char* scenario, bool simulated) {
  job::LaunchOptions options;
  options.size = static_cast<uint32_t>(std::strtoul(pes, nullptr, 10));
  options.command = {self, scenario};
  if (simulated) options.command.push_back(kSimulated);
  options.keep_going = true;
  const auto code = job::launch(options);
  if (!code) std::fprintf(stderr, "symm_pes: %s\n", code.error().message.c_str());
  return code ? *code : 2;
}

}  // namespace
}  // namespace penstock::symm::test

int main(int argc, char** argv) {
  using namespace penstock::symm::test;
  const bool simulated = argc > 2 && std::strcmp(argv[argc - 1], kSimulated) == 0;
  const int words = simulated ? argc - 1 : argc;
  if (words == 2) return run(argv[1], simulated);
  if (words == 3) return launch(argv[0], argv[1], argv[2], simulated);
  std::fprintf(stderr,
               "usage: symm_pes [PES] SCENARIO [simulated] (without PES it is one of a job)\n");
  return 2;
}
