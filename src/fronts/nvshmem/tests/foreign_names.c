/* Names that programs written for NVSHMEM use beyond its functions: values, structures, macros, and
 * what they expect the headers to bring. C from C99 on, C++ from C++11 on, and for nvcc. The first
 * headers are those that have nothing of their own: a program may have no other. */
#include <device/nvshmem_device_macros.h>
#include <device_host/nvshmem_proxy_channel.h>
#include <device_host/nvshmem_tensor.h>
#include <device_host_transport/nvshmem_common_ibgda.h>
#include <device_host_transport/nvshmem_common_transport.h>
#include <host/nvshmem_api.h>
#include <host/nvshmem_macros.h>
#include <non_abi/nvshmem_build_options.h>

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
/* As a declaration, where C99 has no assertion. */
#define HOLDS(...) extern int JOIN(holds_, __LINE__)[(__VA_ARGS__) ? 1 : -1]

/* ---- values ---- */

HOLDS(NVSHMEM_STATUS_INVALID == INT_MAX && NVSHMEM_CMP_SENTINEL == INT_MAX);
HOLDS(NVSHMEM_THREAD_TYPE_SENTINEL == INT_MAX && NVSHMEMX_ERROR_SENTINEL == INT_MAX);
HOLDS(NVSHMEMX_INIT_MAX == INT_MIN);
HOLDS(NVSHMEM_TEAM_WORLD_INDEX == NVSHMEM_TEAM_WORLD &&
      NVSHMEM_TEAM_SHARED_INDEX == NVSHMEM_TEAM_SHARED);
HOLDS(NVSHMEM_TEAM_NODE_INDEX == NVSHMEMX_TEAM_NODE);
HOLDS(NVSHMEM_TEAM_SAME_MYPE_NODE_INDEX == NVSHMEMX_TEAM_SAME_MYPE_NODE);
HOLDS(NVSHMEM_TEAM_SAME_GPU_INDEX == 4 && NVSHMEM_TEAM_GPU_LEADERS_INDEX == 5 &&
      NVSHMEM_TEAMS_MIN == 6);
HOLDS(NVSHMEM_TEAM_INDEX_MAX == INT_MAX);
HOLDS(sizeof(nvshmem_team_id_t) == sizeof(nvshmem_team_t));
HOLDS(INIT_ARGS_SCALAR_INVALID == -1 && TEAM_CONFIG_SCALAR_INVALID == -1);
HOLDS(TEAM_ULSCALAR_INVALID == UINT64_MAX);
HOLDS(NVSHMEM_INIT_ATTR_VER == 1 && NVSHMEM_VENDOR_PACKAGE_VERSION == 0);
HOLDS(NVSHMEM_TRANSPORT_PLUGIN_MAJOR_VERSION * 10000 +
          NVSHMEM_TRANSPORT_PLUGIN_MINOR_VERSION * 100 + NVSHMEM_TRANSPORT_PLUGIN_PATCH_VERSION ==
      30000);
HOLDS(NVSHMEM_BOOTSTRAP_PLUGIN_MAJOR_VERSION * 10000 +
          NVSHMEM_BOOTSTRAP_PLUGIN_MINOR_VERSION * 100 + NVSHMEM_BOOTSTRAP_PLUGIN_PATCH_VERSION ==
      30000);
HOLDS(NVSHMEM_INIT_ATTR_V1_IDENTIFIER == 0x10000 + 144 &&
      NVSHMEM_INIT_ATTR_V2_IDENTIFIER == 0x20000 + 144);
HOLDS(NVSHMEM_INIT_ARGS_V2_IDENTIFIER == 0x20000 + 128 &&
      NVSHMEM_TEAM_CONFIG_VERSION_2_IDENTIFIER == 0x20000 + 64);

/* ---- structures ---- */

HOLDS(sizeof(nvshmemx_uniqueid_v1) == 128 && sizeof(nvshmemx_uniqueid_args_v1) == 24);
HOLDS(sizeof(nvshmemx_init_args_v1) == 128 && sizeof(nvshmemx_init_args_v2) == 128);
HOLDS(sizeof(nvshmemx_init_attr_v1) == 144 && sizeof(nvshmemx_init_attr_v2) == 144);
HOLDS(sizeof(nvshmem_team_config_v1) == 64 && sizeof(nvshmem_team_config_v2) == 64);
HOLDS(sizeof(((nvshmemx_init_args_v1*)0)->content) == NVSHMEMX_INIT_ARGS_V1_RESERVED_BYTES);
HOLDS(sizeof(((nvshmemx_init_args_v2*)0)->content) == NVSHMEMX_INIT_ARGS_V2_RESERVED_BYTES);
HOLDS(sizeof(((nvshmem_team_config_v1*)0)->padding) == NVSHMEM_TEAM_CONFIG_V1_RESERVED_BYTES);
HOLDS(sizeof(((nvshmem_team_config_v2*)0)->padding) == NVSHMEM_TEAM_CONFIG_V2_RESERVED_BYTES);
HOLDS(offsetof(nvshmem_team_config_t, uniqueid) == 8 &&
      offsetof(nvshmemx_init_args_t, cuda_device_id) == 32);

nvshmemx_init_args_v2 foreign_args = NVSHMEMX_INIT_ARGS_V2_INITIALIZER;
nvshmemi_version_t foreign_version = {NVSHMEM_VENDOR_MAJOR_VERSION, NVSHMEM_VENDOR_MINOR_VERSION,
                                      NVSHMEM_VENDOR_PATCH_VERSION};

int foreign_begin(nvshmemx_uniqueid_v1* id, int rank, int ranks) {
  nvshmemx_init_attr_v1 first = NVSHMEMX_INIT_ATTR_V1_INITIALIZER;
  nvshmemx_uniqueid_args_v1 args = NVSHMEMX_UNIQUEID_ARGS_INITIALIZER;
  nvshmem_team_config_v2 config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
  nvshmem_team_id_t team = NVSHMEM_TEAM_WORLD;
  nvshmemx_init_attr_t attributes;
  nvshmemx_init_attr_t* pointer = &first;
  args.id = id;
  first.args.uid_args = args;
  NONZERO_EXIT(nvshmemx_set_attr_uniqueid_args(rank, ranks, id, &attributes), "no attributes\n");
  nvshmemx_init_init_attr_ver_only(attributes);
  nvshmemx_init_init_attr_ver_only((*pointer)) if (attributes.version != first.version)
      NONZERO_EXIT(errno, "%s of %d\n", NVSHMEM_BUILD_VARS, rank);
  nvshmem_team_get_config(team, &config);
  printf("%d of %d, %zu\n", rank, ranks, strlen(getenv("HOME")));
  return nvshmemx_hostlib_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes);
}

/* ---- macros that repeat one for each type ---- */

#define ONE(...) +1
#ifdef __cplusplus
#define NARROW_FLOATS 2
#else
#define NARROW_FLOATS 0
#endif
HOLDS(NVSHMEMI_REPT_FOR_STANDARD_RMA_TYPES(ONE) == 23 + NARROW_FLOATS);
HOLDS(NVSHMEMI_REPT_FOR_STANDARD_RMA_TYPES_WITH_SCOPE(ONE, warp) == 23 + NARROW_FLOATS);
HOLDS(NVSHMEMI_REPT_FOR_STANDARD_RMA_TYPES_AND_SCOPES2(ONE) == 3 * (23 + NARROW_FLOATS));
HOLDS(NVSHMEMI_REPT_FOR_SIZES(ONE) == 5 && NVSHMEMI_REPT_FOR_SIZES_WITH_TYPE(ONE) == 5);
HOLDS(NVSHMEMI_REPT_FOR_SIZES_WITH_SCOPE2(ONE, block, _block, x) == 5);
HOLDS(NVSHMEMI_REPT_FOR_WAIT_TYPES(ONE) == 14);
HOLDS(NVSHMEMI_REPT_TYPES_AND_OPS_FOR_REDUCE(ONE) == 3 * 14 + 4 * (22 + NARROW_FLOATS));
HOLDS(NVSHMEMI_REPT_TYPES_AND_OPS_AND_SCOPES2_FOR_REDUCE(ONE) ==
      3 * (3 * 14 + 4 * (22 + NARROW_FLOATS)));
HOLDS(NVSHMEMI_REPT_FOR_ARITH_REDUCE_TYPES(ONE, sum) == 22 + NARROW_FLOATS);
HOLDS(NVSHMEMI_REPT_FOR_ARITH_REDUCE_TYPES_WITH_SCOPE(ONE, warp, sum) == 22 + NARROW_FLOATS);
HOLDS(NVSHMEMI_REPT_FOR_STANDARD_REDUCE_TYPES_WITH_SCOPE(ONE, warp, max) == 22 + NARROW_FLOATS);
HOLDS(NVSHMEMI_REPT_FOR_BITWISE_REDUCE_TYPES_WITH_SCOPE(ONE, warp, and) == 14);

#define EACH_PUT(NAME, TYPE) \
  void (*put_##NAME)(TYPE*, const TYPE*, size_t, int) = nvshmem_##NAME##_put;
#define EACH_SIZE(BITS) void (*put_of_##BITS)(void*, const void*, size_t, int) = nvshmem_put##BITS;
#define EACH_WAIT(NAME, TYPE) \
  void (*wait_##NAME)(TYPE*, int, TYPE, cudaStream_t) = nvshmemx_##NAME##_wait_until_on_stream;
#define EACH_REDUCE(NAME, TYPE, OP)                                       \
  int (*OP##_reduce_##NAME)(nvshmem_team_t, TYPE*, const TYPE*, size_t) = \
      nvshmem_##NAME##_##OP##_reduce;
#define NVSHMEMI_DECL_TYPE_ADD(NAME, TYPE, OP) \
  void (*OP##_##NAME)(TYPE*, TYPE, int) = nvshmem_##NAME##_atomic_##OP;
NVSHMEMI_REPT_FOR_STANDARD_RMA_TYPES(EACH_PUT)
NVSHMEMI_REPT_FOR_SIZES(EACH_SIZE)
NVSHMEMI_REPT_FOR_WAIT_TYPES(EACH_WAIT)
NVSHMEMI_REPT_TYPES_AND_OPS_FOR_REDUCE(EACH_REDUCE)
NVSHMEMI_REPT_OPGROUP_FOR_BITWISE_AMO(ADD, add)
NVSHMEMI_REPT_OPGROUP_FOR_BITWISE_AMO(ADD, xor)
NVSHMEMI_REPT_OPGROUP_FOR_STANDARD_AMO(ADD, add)
NVSHMEMI_REPT_OPGROUP_FOR_STANDARD_AMO(ADD, set)
NVSHMEMI_REPT_OPGROUP_FOR_BITWISE_AMO(ADD, set)
NVSHMEMI_REPT_OPGROUP_FOR_EXTENDED_AMO(ADD, set)

/* ---- in kernels ---- */

#ifdef __CUDACC__
NVSHMEMI_HOSTDEVICE_PREFIX int foreign_square(int value) {
  return value * value;
}
NVSHMEMI_DEVICE_PREFIX int foreign_next() {
  return foreign_square(nvshmem_my_pe() + 1);
}

int (*sync_of_team)(nvshmem_team_t) = nvshmem_sync;
extern decltype(&nvshmemx_sync_warp) sync_of_warp;
extern decltype(&nvshmemx_sync_block) sync_of_block;

/* Declarations alone: functions for all types would take a minute to compile. */
#define EACH_SCOPE_PUT(SCOPE, SUFFIX, PREFIX, NAME, TYPE) \
  extern decltype(&nvshmem##PREFIX##_##NAME##_put##SUFFIX) put_##SCOPE##_##NAME;
NVSHMEMI_REPT_FOR_STANDARD_RMA_TYPES_AND_SCOPES2(EACH_SCOPE_PUT)
#define EACH_SCOPE_REDUCE(SCOPE, SUFFIX, PREFIX, NAME, TYPE, OP) \
  extern decltype(&nvshmem##PREFIX##_##NAME##_##OP##_reduce##SUFFIX) OP##_##SCOPE##_##NAME;
NVSHMEMI_REPT_TYPES_AND_OPS_AND_SCOPES2_FOR_REDUCE(EACH_SCOPE_REDUCE)
__global__ void foreign_get(int* dest, const int* source) {
  nvshmem_int_get(dest, source, 1, foreign_next());
}
#endif
