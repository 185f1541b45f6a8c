// One PE of a test's job: runs the scenario that it is told, over a group of all PEs.
#include "pes.h"

#include <cstring>

namespace penstock::symm::test {
namespace {

Scenario find(const char* name) {
  for (const Named* all : {kMemoryScenarios, kCollectiveScenarios, kTeamScenarios, kEndScenarios}) {
    for (const Named* one = all; one->name != nullptr; ++one) {
      if (std::strcmp(one->name, name) == 0) return one->run;
    }
  }
  return nullptr;
}

int run(const char* name) {
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
  auto group = Group::join(**member, {.heap_bytes = uint64_t{64} << 20, .has_program_data = true});
  if (!group) {
    std::fprintf(stderr, "symm_pes: %s\n", group.error().message.c_str());
    return 2;
  }
  scenario({**member, **group});
  group->reset();
  (*member)->leave();
  return 0;
}

}  // namespace
}  // namespace penstock::symm::test

int main(int argc, char** argv) {
  return argc == 2 ? penstock::symm::test::run(argv[1]) : 2;
}
