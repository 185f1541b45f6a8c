// Programs that ask for what they began with: levels of threads, versions of attributes, teams'
// configs.
#include "simulated_pes.h"

#include <cstring>

namespace penstock::nvshmem::test {
namespace {

void thread_levels() {
  int level = 7;
  CHECK(nvshmem_init_thread(NVSHMEM_THREAD_MULTIPLE + 1, &level) == NVSHMEMX_ERROR_INVALID_VALUE);
  CHECK(level == 7 && nvshmemx_init_status() == NVSHMEM_STATUS_NOT_INITIALIZED);
  for (const int requested : {NVSHMEM_THREAD_SINGLE, NVSHMEM_THREAD_FUNNELED,
                              NVSHMEM_THREAD_SERIALIZED, NVSHMEM_THREAD_MULTIPLE}) {
    CHECK(nvshmem_init_thread(requested, &level) == 0 && level == requested);
    level = 7;
    nvshmem_query_thread(&level);
    CHECK(level == requested);
    nvshmem_finalize();
  }
}

// cuda_device_id has no meaning in them, whatever is there.
void attributes_of_version_1() {
  gpus().set_current(engine::DeviceId(0));
  nvshmemx_init_attr_t attributes;
  std::memset(&attributes, 0, sizeof attributes);
  attributes.args.cuda_device_id = 1;
  nvshmemx_init_init_attr_ver_only(attributes);
  CHECK(nvshmemx_hostlib_init_attr(0, &attributes) == 0);
  nvshmemx_init_attr_t initialized = NVSHMEMX_INIT_ATTR_V1_INITIALIZER;
  initialized.args.cuda_device_id = 1;
  CHECK(nvshmemx_hostlib_init_attr(0, &initialized) == 0);
  CHECK(gpus().current()->value == 0);
  nvshmemx_hostlib_finalize();
  nvshmemx_hostlib_finalize();
}

nvshmem_team_config_t config_of(nvshmem_team_t team) {
  nvshmem_team_config_t config{};
  config.num_contexts = 7;
  nvshmem_team_get_config(team, &config);
  return config;
}

void team_configs() {
  nvshmem_init();
  gpus().set_current(engine::DeviceId(static_cast<uint32_t>(nvshmem_my_pe()) % 2));
  for (const nvshmem_team_t team : {NVSHMEM_TEAM_WORLD, NVSHMEM_TEAM_SHARED, NVSHMEMX_TEAM_NODE,
                                    NVSHMEMX_TEAM_SAME_MYPE_NODE}) {
    CHECK(config_of(team).num_contexts == 0);
    CHECK(config_of(team).version == NVSHMEM_TEAM_CONFIG_VERSION_2_IDENTIFIER);
  }
  nvshmem_team_config_t given = NVSHMEM_TEAM_CONFIG_INITIALIZER;
  given.num_contexts = 5;
  for (const long mask : {0L, NVSHMEM_TEAM_CONFIG_MASK_NUM_CONTEXTS}) {
    nvshmem_team_t all = NVSHMEM_TEAM_INVALID;
    CHECK(nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 1, nvshmem_n_pes(), &given, mask,
                                     &all) == 0);
    CHECK(config_of(all).num_contexts == (mask == 0 ? 0 : 5));
    nvshmem_team_destroy(all);
  }
  CHECK(config_of(NVSHMEM_TEAM_INVALID).num_contexts == 7);
  nvshmem_finalize();
}

void config_of_no_team() {
  nvshmem_init();
  config_of(17);
}

}  // namespace

const Named kSetupPrograms[] = {
    {"thread_levels", thread_levels},
    {"attributes_of_version_1", attributes_of_version_1},
    {"team_configs", team_configs},
    {"config_of_no_team", config_of_no_team},
    {nullptr, nullptr},
};

}  // namespace penstock::nvshmem::test
