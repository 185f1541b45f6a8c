"""The headers: nvshmem_host.h, nvshmem_device.h, nvshmem.h, nvshmemx.h, and those that programs include by their
places in NVSHMEM's include folder."""

import functions
import repeats
import table
from c_text import comment, wrapped

GENERATED = "Made from src/fronts/nvshmem/table.py when the library is built."

CONSTANTS = """\
/* Of the OpenSHMEM specification whose functions these are, and of NVSHMEM. */
#define NVSHMEM_MAJOR_VERSION 1
#define NVSHMEM_MINOR_VERSION 3
#define NVSHMEM_VENDOR_MAJOR_VERSION 3
#define NVSHMEM_VENDOR_MINOR_VERSION 4
#define NVSHMEM_VENDOR_PATCH_VERSION 5
#define NVSHMEM_VENDOR_VERSION \\
  (NVSHMEM_VENDOR_MAJOR_VERSION * 10000 + NVSHMEM_VENDOR_MINOR_VERSION * 100 + NVSHMEM_VENDOR_PATCH_VERSION)
#define NVSHMEM_VENDOR_STRING "{vendor}"
#define NVSHMEM_MAX_NAME_LEN 256

/* Programs print these, or ask for them. There are no plugins here. */
#define NVSHMEM_VENDOR_PACKAGE_VERSION 0
#define NVSHMEM_TRANSPORT_PLUGIN_MAJOR_VERSION 3
#define NVSHMEM_TRANSPORT_PLUGIN_MINOR_VERSION 0
#define NVSHMEM_TRANSPORT_PLUGIN_PATCH_VERSION 0
#define NVSHMEM_BOOTSTRAP_PLUGIN_MAJOR_VERSION 3
#define NVSHMEM_BOOTSTRAP_PLUGIN_MINOR_VERSION 0
#define NVSHMEM_BOOTSTRAP_PLUGIN_PATCH_VERSION 0
#define NVSHMEM_BUILD_VARS ""

/* Ends the program if `status` is not 0; the other arguments are printf()'s. */
#define NONZERO_EXIT(status, ...) \\
  do {{ \\
    if ((status) != 0) {{ \\
      fprintf(stderr, "%s:%d: status %d, errno: %s: ", __FILE__, __LINE__, (int)(status), strerror(errno)); \\
      fprintf(stderr, __VA_ARGS__); \\
      exit(-1); \\
    }} \\
  }} while (0)

typedef enum {{
  NVSHMEM_THREAD_SINGLE = 0,
  NVSHMEM_THREAD_FUNNELED = 1,
  NVSHMEM_THREAD_SERIALIZED = 2,
  NVSHMEM_THREAD_MULTIPLE = 3,
  NVSHMEM_THREAD_TYPE_SENTINEL = INT_MAX
}} nvshmemx_thread_support_t;

/* What the word in memory has to be to the value. */
typedef enum {{
  NVSHMEM_CMP_EQ = 0,
  NVSHMEM_CMP_NE = 1,
  NVSHMEM_CMP_GT = 2,
  NVSHMEM_CMP_LE = 3,
  NVSHMEM_CMP_LT = 4,
  NVSHMEM_CMP_GE = 5,
  NVSHMEM_CMP_SENTINEL = INT_MAX
}} nvshmemx_cmp_type_t;

/* What becomes of a signal. */
typedef enum {{ NVSHMEM_SIGNAL_SET = 9, NVSHMEM_SIGNAL_ADD = 10 }} nvshmemx_signal_op_t;

/* Of nvshmemx_init_status(). MPG: several PEs on one GPU. */
typedef enum {{
  NVSHMEM_STATUS_NOT_INITIALIZED = 0,
  NVSHMEM_STATUS_IS_BOOTSTRAPPED = 1,
  NVSHMEM_STATUS_IS_INITIALIZED = 2,
  NVSHMEM_STATUS_LIMITED_MPG = 3,
  NVSHMEM_STATUS_FULL_MPG = 4,
  NVSHMEM_STATUS_INVALID = INT_MAX
}} nvshmemx_init_status_t;

/* Of calls that give a status: 0 is success. */
typedef enum {{
  NVSHMEMX_SUCCESS = 0,
  NVSHMEMX_ERROR_INVALID_VALUE = 1,
  NVSHMEMX_ERROR_OUT_OF_MEMORY = 2,
  NVSHMEMX_ERROR_NOT_SUPPORTED = 3,
  NVSHMEMX_ERROR_SYMMETRY = 4,
  NVSHMEMX_ERROR_GPU_NOT_SELECTED = 5,
  NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED = 6,
  NVSHMEMX_ERROR_INTERNAL = 7,
  NVSHMEMX_ERROR_SENTINEL = INT_MAX
}} nvshmemx_status;

enum {{
  NVSHMEMX_INIT_THREAD_PES = 1,
  NVSHMEMX_INIT_WITH_MPI_COMM = 1 << 1,
  NVSHMEMX_INIT_WITH_SHMEM = 1 << 2,
  NVSHMEMX_INIT_WITH_UNIQUEID = 1 << 3,
  NVSHMEMX_INIT_MAX = INT_MIN
}};

enum {{ NVSHMEM_PE_INVALID = -1 }};
"""

TYPES = """\
/* A team's number; those that are always there. Teams of a GPU and of the first PEs of each GPU are not: their numbers,
 * and those from NVSHMEM_TEAMS_MIN on, may be those of teams that the program makes. */
typedef int32_t nvshmem_team_t;
typedef nvshmem_team_t nvshmemx_team_t;
typedef enum {
  NVSHMEM_TEAM_INVALID = -1,
  NVSHMEM_TEAM_WORLD = 0,
  NVSHMEM_TEAM_WORLD_INDEX = 0,
  NVSHMEM_TEAM_SHARED = 1,           /* PEs that reach one another by loads and stores */
  NVSHMEM_TEAM_SHARED_INDEX = 1,
  NVSHMEMX_TEAM_NODE = 2,            /* PEs of one host */
  NVSHMEM_TEAM_NODE_INDEX = 2,
  NVSHMEMX_TEAM_SAME_MYPE_NODE = 3,  /* of each host the PE that is there what this one is here */
  NVSHMEM_TEAM_SAME_MYPE_NODE_INDEX = 3,
  NVSHMEM_TEAM_SAME_GPU_INDEX = 4,
  NVSHMEM_TEAM_GPU_LEADERS_INDEX = 5,
  NVSHMEM_TEAMS_MIN = 6,
  NVSHMEM_TEAM_INDEX_MAX = INT_MAX
} nvshmem_team_id_t;

/* What members of the structures below have that are not set. */
#define INIT_ARGS_SCALAR_INVALID (-1)
#define TEAM_CONFIG_SCALAR_INVALID (-1)
#define TEAM_ULSCALAR_INVALID UINT64_MAX

typedef uint64_t nvshmemx_team_uniqueid_t;
#define NVSHMEM_TEAM_UNIQUID_INITIALIZER TEAM_ULSCALAR_INVALID

/* Structures name their version in `version`; it is (1 or 2 << 16) + sizeof. Use the initialisers. No function here takes
 * nvshmem_team_config_v1 or nvshmemx_init_args_v1, which programs for older headers name. */
#define NVSHMEM_TEAM_CONFIG_V1_RESERVED_BYTES 56
#define NVSHMEM_TEAM_CONFIG_V2_RESERVED_BYTES 48
typedef struct {
  int version;
  int num_contexts;
  char padding[NVSHMEM_TEAM_CONFIG_V1_RESERVED_BYTES];
} nvshmem_team_config_v1;
typedef struct {
  int version;
  int num_contexts;
  nvshmemx_team_uniqueid_t uniqueid;
  char padding[NVSHMEM_TEAM_CONFIG_V2_RESERVED_BYTES];
} nvshmem_team_config_v2;
typedef nvshmem_team_config_v2 nvshmem_team_config_t;
#define NVSHMEM_TEAM_CONFIG_VERSION_2_IDENTIFIER ((int)((2 << 16) + sizeof(nvshmem_team_config_t)))
#define NVSHMEM_TEAM_CONFIG_INITIALIZER \\
  { NVSHMEM_TEAM_CONFIG_VERSION_2_IDENTIFIER, TEAM_CONFIG_SCALAR_INVALID, NVSHMEM_TEAM_UNIQUID_INITIALIZER, {0} }
#define NVSHMEM_TEAM_CONFIG_MASK_NUM_CONTEXTS 1L
#define NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID 2L

/* Made by one PE, handed to all by the program's own means: what they join by. */
typedef struct {
  int version;
  char internal[124];
} nvshmemx_uniqueid_v1;
typedef nvshmemx_uniqueid_v1 nvshmemx_uniqueid_t;
#define NVSHMEMX_UNIQUEID_INITIALIZER { (int)((1 << 16) + sizeof(nvshmemx_uniqueid_t)), {0} }

typedef struct {
  int version;
  nvshmemx_uniqueid_t *id;
  int myrank;
  int nranks;
} nvshmemx_uniqueid_args_v1;
typedef nvshmemx_uniqueid_args_v1 nvshmemx_uniqueid_args_t;
#define NVSHMEMX_UNIQUEID_ARGS_INITIALIZER { (int)((1 << 16) + sizeof(nvshmemx_uniqueid_args_t)), NULL, -1, -1 }

#define NVSHMEMX_INIT_ARGS_V1_RESERVED_BYTES 96
#define NVSHMEMX_INIT_ARGS_V2_RESERVED_BYTES 92
typedef struct {
  int version;
  nvshmemx_uniqueid_args_t uid_args;
  char content[NVSHMEMX_INIT_ARGS_V1_RESERVED_BYTES];
} nvshmemx_init_args_v1;
typedef struct {
  int version;
  nvshmemx_uniqueid_args_t uid_args;
  int cuda_device_id; /* the calling thread's device from here on; -1: the program sets it itself */
  char content[NVSHMEMX_INIT_ARGS_V2_RESERVED_BYTES];
} nvshmemx_init_args_v2;
typedef nvshmemx_init_args_v2 nvshmemx_init_args_t;
#define NVSHMEM_INIT_ARGS_V2_IDENTIFIER ((int)((2 << 16) + sizeof(nvshmemx_init_args_t)))
#define NVSHMEMX_INIT_ARGS_V2_INITIALIZER \\
  { NVSHMEM_INIT_ARGS_V2_IDENTIFIER, NVSHMEMX_UNIQUEID_ARGS_INITIALIZER, INIT_ARGS_SCALAR_INVALID, {0} }
#define NVSHMEMX_INIT_ARGS_INITIALIZER NVSHMEMX_INIT_ARGS_V2_INITIALIZER

typedef struct {
  int version;
  void *mpi_comm; /* a pointer to an MPI_Comm */
  nvshmemx_init_args_t args;
} nvshmemx_init_attr_v2;
typedef nvshmemx_init_attr_v2 nvshmemx_init_attr_v1;
typedef nvshmemx_init_attr_v2 nvshmemx_init_attr_t;
#define NVSHMEM_INIT_ATTR_VER 1
#define NVSHMEM_INIT_ATTR_V1_IDENTIFIER ((int)((1 << 16) + sizeof(nvshmemx_init_attr_t)))
#define NVSHMEM_INIT_ATTR_V2_IDENTIFIER ((int)((2 << 16) + sizeof(nvshmemx_init_attr_t)))
#define NVSHMEMX_INIT_ATTR_INITIALIZER { NVSHMEM_INIT_ATTR_V2_IDENTIFIER, NULL, NVSHMEMX_INIT_ARGS_V2_INITIALIZER }

/* In attributes of version 1 cuda_device_id has no meaning. The macro sets the versions alone, as programs want it whose
 * attributes have no initialiser. */
#define NVSHMEMX_INIT_ATTR_V1_INITIALIZER \\
  { NVSHMEM_INIT_ATTR_V1_IDENTIFIER, NULL, \\
    { (int)((1 << 16) + sizeof(nvshmemx_init_args_t)), NVSHMEMX_UNIQUEID_ARGS_INITIALIZER, INIT_ARGS_SCALAR_INVALID, {0} } }
#define nvshmemx_init_init_attr_ver_only(attr) \\
  do { \\
    (attr).version = NVSHMEM_INIT_ATTR_V1_IDENTIFIER; \\
    (attr).args.version = (int)((1 << 16) + sizeof(nvshmemx_init_args_t)); \\
    (attr).args.uid_args.version = (int)((1 << 16) + sizeof(nvshmemx_uniqueid_args_t)); \\
  } while (0);

typedef struct {
  int major;
  int minor;
  int patch;
} nvshmemi_version_t;
"""

MARKS = """\
/* Both are declared once for host and device code where nvcc compiles; NVSHMEM_HOSTLIB_ONLY leaves the latter out. */
#if defined(__CUDACC__) && !defined(NVSHMEM_HOSTLIB_ONLY)
#define NVSHMEM_WITH_DEVICE 1
#define NVSHMEM_HOST_DEVICE __host__ __device__
#else
#define NVSHMEM_HOST_DEVICE
#endif
#define NVSHMEMI_HOSTDEVICE_PREFIX NVSHMEM_HOST_DEVICE
#define NVSHMEMI_DEVICE_PREFIX __device__
"""


def lines(chosen, mark, end=";"):
    """Declarations, those with types that C does not have apart."""
    both = "\n".join(wrapped(mark(function) + function.prototype(), end) for function in chosen if not function.only_cxx)
    cxx = "\n".join(wrapped(mark(function) + function.prototype(), end) for function in chosen if function.only_cxx)
    if cxx:
        both += f"\n#ifdef __cplusplus\n{cxx}\n#endif"
    return both


def sections(choose, mark):
    for section in table.SECTIONS:
        chosen = [function for function in functions.of_section(section) if choose(function)]
        if chosen:
            yield comment(section.title, section.text) + "\n" + lines(chosen, mark) + "\n"


def host_h(vendor):
    declarations = "\n".join(sections(
        lambda function: "host" in function.by,
        lambda function: "NVSHMEM_HOST_DEVICE " if "device" in function.by else ""))
    return f"""\
/* NVSHMEM, the part that programs call from the host: memory of all PEs' GPUs, reached from kernels, streams and host
 * code. For C from C99 on and C++.
 *
 * Functions NAME_on_stream are done in the order of a CUDA stream, and may be captured in CUDA graphs. Errors: a PE or an
 * address that is not there ends the job, with a message that names call, PE and address.
 *
 * Not here: tiles, multicast memory and queue pairs.
 *
 * {GENERATED} */
#ifndef NVSHMEM_HOST_H
#define NVSHMEM_HOST_H

/* Programs expect the most of these from here. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <cuda_runtime.h>
#ifdef __cplusplus
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

{MARKS}
#ifdef __cplusplus
extern "C" {{
#endif

{CONSTANTS.format(vendor=vendor)}
{TYPES}
{declarations}
{repeats.text()}
#define nvshmem_sync nvshmem_team_sync
#define nvshmemx_sync_warp nvshmemx_team_sync_warp
#define nvshmemx_sync_block nvshmemx_team_sync_block
#define nvshmemx_sync_on_stream nvshmemx_team_sync_on_stream

#ifdef __cplusplus
}}
#endif

#endif /* NVSHMEM_HOST_H */
"""


def body(function):
    names = ", ".join(name for _, name in function.arguments)
    scope = "penstock::device::Scope::" + function.scope
    if function.operation is None:
        call = "penstock::nvshmem::" + function.name.removeprefix("nvshmem_").removeprefix("nvshmemx_")
        if function.name.endswith("_" + function.scope):
            call = f"{call.removesuffix('_' + function.scope)}<{scope}>"
        elif "scopes" in function.by or function.name in SCOPED:
            call += f"<{scope}>"
    else:
        call = "penstock::nvshmem::" + function.operation.call
        if "scopes" in function.operation.by.split():
            head, less, rest = call.partition("<")
            call = f"{head}<{scope}{', ' + rest if less else '>'}"
        if function.element.startswith("block") or function.element == "memory":
            bits = int(function.element.removeprefix("block")) if function.element != "memory" else 8
            kind = functions.WHOLE[bits]
            names = ", ".join(cast(kind, *argument) for argument in function.arguments)
    result = "" if function.result == "void" else "return "
    return wrapped(f"  {result}{call}({names})", ";")


def definition(function):
    host = "__host__ " if "host" in function.by else ""
    return wrapped(f"inline {host}__device__ {function.prototype()}", " {") + f"\n{body(function)}\n}}"


def cast(kind, declared, name):
    if declared in ("void *", "const void *"):
        return f"static_cast<{declared.replace('void', kind)}>({name})"
    return name


# Functions of one thread whose templates are given a scope.
SCOPED = {"nvshmem_barrier", "nvshmem_barrier_all", "nvshmem_team_sync", "nvshmem_sync_all"}


def device_h():
    chosen = [function for function in functions.all_functions() if "device" in function.by]
    only = lines([function for function in chosen if "host" not in function.by], lambda function: "__device__ ")
    definitions = "\n".join(definition(function) for function in chosen)
    return f"""\
/* NVSHMEM, the part that programs call from kernels. Included by nvshmem.h.
 *
 * All of it is inline: programs need no relocatable device code, and may use it. Its definitions are for the passes of
 * nvcc that compile for a GPU; the library has those for the host.
 *
 * {GENERATED} */
#ifndef NVSHMEM_DEVICE_H
#define NVSHMEM_DEVICE_H

#include "nvshmem_host.h"

#include "penstock_nvshmem.h"

extern "C" {{

{only}

#ifdef __CUDA_ARCH__

{definitions}

#endif /* __CUDA_ARCH__ */

}} /* extern "C" */

#endif /* NVSHMEM_DEVICE_H */
"""


def nvshmem_h():
    return f"""\
/* NVSHMEM: memory of all PEs' GPUs, reached from kernels, streams and host code.
 *
 * {GENERATED} */
#ifndef NVSHMEM_H
#define NVSHMEM_H

#include "nvshmem_host.h"
#ifdef NVSHMEM_WITH_DEVICE
#include "nvshmem_device.h"
#endif
#include "penstock_nvshmem_launch.h"

#endif /* NVSHMEM_H */
"""


def guarded(name, comment_text):
    up = "../" * name.count("/")
    guard = "PENSTOCK_" + name.upper().replace("/", "_").replace(".", "_")
    return f'/* {name}{comment_text} */\n#ifndef {guard}\n#define {guard}\n#include "{up}nvshmem.h"\n#endif\n'


def other(name):
    """A header under another name, or in a folder where programs look for it."""
    return guarded(name, ", where programs look for it.")


def without_own(name, missing):
    """A header that programs include, though nothing of what it has at NVSHMEM's is here."""
    return guarded(name, f": {missing} Programs may include it.")


OTHERS = [
    "nvshmemx.h",
    "bootstrap_device_host/nvshmem_uniqueid.h",
    "device/nvshmem_coll_defines.cuh",
    "device/nvshmem_defines.h",
    "device/nvshmemx_coll_defines.cuh",
    "device/nvshmemx_collective_launch_apis.h",
    "device/nvshmemx_defines.h",
    "device_host/nvshmem_common.cuh",
    "device_host/nvshmem_types.h",
    "device_host_transport/nvshmem_constants.h",
    "host/nvshmem_api.h",
    "host/nvshmem_coll_api.h",
    "host/nvshmemx_api.h",
    "host/nvshmemx_coll_api.h",
    "non_abi/nvshmem_version.h",
    "non_abi/nvshmemx_error.h",
]

WITHOUT_OWN = {
    "device/nvshmem_device_macros.h": "marks for NVSHMEM's own device functions are not here.",
    "device_host/nvshmem_proxy_channel.h": "this library has no proxy.",
    "device_host/nvshmem_tensor.h": "tiles are not here.",
    "device_host_transport/nvshmem_common_ibgda.h": "this library has no such transport.",
    "device_host_transport/nvshmem_common_transport.h": "this library has no transports that programs see.",
    "host/nvshmem_macros.h": "all it has is in nvshmem_host.h.",
    "non_abi/nvshmem_build_options.h": "this library has no options that programs see.",
}
