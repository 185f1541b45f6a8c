"""What NVSHMEM 3.4 offers, without tiles, multicast and queue pairs: types, operations, and single functions.

Everything that has to name all functions is made from this table (generate.py): the headers and the programs that call
each function. Names, types and arguments are those of NVSHMEM's documentation.
"""

import dataclasses
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "base"))

import c_types  # noqa: E402

TYPES = {"half": "half", "bfloat16": "__nv_bfloat16", "float": "float", "double": "double"} | c_types.INTEGERS
ONLY_CXX = ["half", "bfloat16"]

RMA = list(TYPES)
ORDERED_REDUCE = [name for name in RMA if name != "ptrdiff"]

SETS = {
    "RMA": RMA,
    "AMO": c_types.AMO,
    "EXTENDED_AMO": c_types.EXTENDED_AMO,
    "BITWISE_AMO": c_types.BITWISE_AMO,
    "SYNC": c_types.SYNC,
    "BITWISE_REDUCE": c_types.BITWISE_REDUCE,
    "ORDERED_REDUCE": ORDERED_REDUCE,
}

REDUCTIONS = {
    "and": "BITWISE_REDUCE",
    "or": "BITWISE_REDUCE",
    "xor": "BITWISE_REDUCE",
    "max": "ORDERED_REDUCE",
    "min": "ORDERED_REDUCE",
    "sum": "ORDERED_REDUCE",
    "prod": "ORDERED_REDUCE",
}

SCOPES = ["warp", "block"]


@dataclasses.dataclass
class Operation:
    """A family of functions, one for each type. `T` in its arguments stands for the type."""

    name: str  # with {} where the type stands: "{}_put"
    types: str  # the name of a set
    result: str
    arguments: str
    call: str  # the template in penstock_nvshmem.h
    by: str  # who may call it: words of host, device, scopes (a warp, a block), stream
    blocks: str = ""  # with {} where a number of bits stands: "put{}"
    memory: str = ""  # the name of the form for bytes: "putmem"


@dataclasses.dataclass
class Section:
    """Functions that belong together: what a comment in the header says of them, and the functions."""

    title: str
    text: str
    operations: list
    functions: str = ""  # "who: prototype", one a line


SIGNAL = "uint64_t *sig_addr, uint64_t signal, int sig_op, int pe"
STRIDES = "ptrdiff_t dst, ptrdiff_t sst"
COPY = "T *dest, const T *source, size_t nelems, int pe"
STRIDED = f"T *dest, const T *source, {STRIDES}, size_t nelems, int pe"
EVERYBODY = "host device scopes stream"

PUT_GET = [
    operation
    for way in ("put", "get")
    for operation in (
        Operation("{}_" + way, "RMA", "void", COPY, way, EVERYBODY, blocks=way + "{}", memory=way + "mem"),
        Operation("{}_p", "RMA", "void", "T *dest, T value, int pe", "p", "host device stream") if way == "put" else
        Operation("{}_g", "RMA", "T", "const T *source, int pe", "g", "host device stream"),
        Operation("{}_i" + way, "RMA", "void", STRIDED, "i" + way, EVERYBODY, blocks="i" + way + "{}"),
    )
]

NOT_WAITING = [
    Operation("{}_" + way + "_nbi", "RMA", "void", COPY, way + "_nbi", EVERYBODY, blocks=way + "{}_nbi",
              memory=way + "mem_nbi")
    for way in ("put", "get")
]

PUT_SIGNAL = [
    Operation("{}_put_signal" + end, "RMA", "void", f"T *dest, const T *source, size_t nelems, {SIGNAL}", "put_signal",
              "device scopes stream", blocks="put{}_signal" + end, memory="putmem_signal" + end)
    for end in ("", "_nbi")
]


def atomic(name, types, result, arguments):
    return Operation("{}_atomic_" + name, types, result, arguments, "atomic_" + name, "host device")


ATOMICS = [
    atomic("fetch", "EXTENDED_AMO", "T", "const T *source, int pe"),
    atomic("set", "EXTENDED_AMO", "void", "T *dest, T value, int pe"),
    atomic("compare_swap", "AMO", "T", "T *dest, T cond, T value, int pe"),
    atomic("swap", "EXTENDED_AMO", "T", "T *dest, T value, int pe"),
    atomic("fetch_inc", "AMO", "T", "T *dest, int pe"),
    atomic("inc", "AMO", "void", "T *dest, int pe"),
    atomic("fetch_add", "AMO", "T", "T *dest, T value, int pe"),
    atomic("add", "AMO", "void", "T *dest, T value, int pe"),
] + [
    operation
    for bits in ("and", "or", "xor")
    for operation in (
        atomic("fetch_" + bits, "BITWISE_AMO", "T", "T *dest, T value, int pe"),
        atomic(bits, "BITWISE_AMO", "void", "T *dest, T value, int pe"),
    )
]


def waiting(name, result, arguments, by="device"):
    return Operation("{}_" + name, "SYNC", result, arguments, name, by)


MANY = "T *ivars, size_t nelems"

WAITS = [
    operation
    for way, whether in (("wait_until", "void"), ("test", "int"))
    for stream in (" stream" if way == "wait_until" else "",)
    for operation in (
        waiting(way, whether, "T *ivar, int cmp, T cmp_value", "device" + stream),
        waiting(way + "_all", whether, f"{MANY}, const int *status, int cmp, T cmp_value", "device" + stream),
        waiting(way + "_any", "size_t", f"{MANY}, const int *status, int cmp, T cmp_value"),
        waiting(way + "_some", "size_t", f"{MANY}, size_t *indices, const int *status, int cmp, T cmp_value"),
        waiting(way + "_all_vector", whether, f"{MANY}, const int *status, int cmp, T *cmp_values", "device" + stream),
        waiting(way + "_any_vector", "size_t", f"{MANY}, const int *status, int cmp, T *cmp_values"),
        waiting(way + "_some_vector", "size_t", f"{MANY}, size_t *indices, const int *status, int cmp, T *cmp_values"),
    )
]


def collective(name, arguments):
    return Operation("{}_" + name, "RMA", "int", "nvshmem_team_t team, T *dest, const T *source, " + arguments, name,
                     EVERYBODY, memory=name + "mem")


COLLECTIVES = [
    collective("broadcast", "size_t nelems, int PE_root"),
    collective("fcollect", "size_t nelems"),
    collective("alltoall", "size_t nelems"),
]

REDUCES = [
    Operation("{}_" + operator + "_" + way, types, "int",
              "nvshmem_team_t team, T *dest, const T *source, size_t nreduce", f"{way}<penstock::device::{operator.title()}>",
              EVERYBODY)
    for way in ("reduce", "reducescatter")
    for operator, types in REDUCTIONS.items()
]

SECTIONS = [
    Section("Begin and end", """\
Every PE calls nvshmem_init() or nvshmemx_init_attr(), and has set its CUDA device by the first call that needs one.""",
            [], """\
host: void nvshmem_init(void)
host: int nvshmem_init_thread(int requested, int *provided)
host: void nvshmem_query_thread(int *provided)
host: void nvshmem_finalize(void)
host device: void nvshmem_global_exit(int status)
host: int nvshmemx_init_status(void)
host: int nvshmemx_init_attr(unsigned int flags, nvshmemx_init_attr_t *attributes)
host: int nvshmemx_hostlib_init_attr(unsigned int flags, nvshmemx_init_attr_t *attributes)
host: void nvshmemx_hostlib_finalize(void)
host: int nvshmemx_get_uniqueid(nvshmemx_uniqueid_t *uniqueid)
host: int nvshmemx_set_attr_uniqueid_args(int myrank, int nranks, const nvshmemx_uniqueid_t *uniqueid, \
nvshmemx_init_attr_t *attr)
host: int nvshmemx_set_attr_mpi_comm_args(void *mpi_comm, nvshmemx_init_attr_t *attr)
host: int nvshmemx_cumodule_init(CUmodule module)
host: int nvshmemx_cumodule_finalize(CUmodule module)
host: int nvshmemx_culibrary_init(CUlibrary library)
host: int nvshmemx_culibrary_finalize(CUlibrary library)
host device: int nvshmem_my_pe(void)
host device: int nvshmem_n_pes(void)
host device: void nvshmem_info_get_version(int *major, int *minor)
host device: void nvshmem_info_get_name(char *name)
host device: void nvshmemx_vendor_get_version_info(int *major, int *minor, int *patch)"""),
    Section("Memory", """\
Symmetric is what these give. All PEs allocate and release in the same order, with the same arguments. nvshmem_ptr()
gives the address by which this PE's loads and stores reach another one's instance, or NULL. Multicast memory is not
used: nvshmemx_mc_ptr() gives NULL.""", [], """\
host: void *nvshmem_malloc(size_t size)
host: void *nvshmem_calloc(size_t count, size_t size)
host: void *nvshmem_align(size_t alignment, size_t size)
host: void nvshmem_free(void *ptr)
host device: void *nvshmem_ptr(const void *dest, int pe)
host device: void *nvshmemx_mc_ptr(nvshmem_team_t team, const void *ptr)
host: int nvshmemx_buffer_register(void *addr, size_t length)
host: int nvshmemx_buffer_unregister(void *addr)
host: void nvshmemx_buffer_unregister_all(void)
host: void *nvshmemx_buffer_register_symmetric(void *buf_ptr, size_t size, int flags)
host: int nvshmemx_buffer_unregister_symmetric(void *mmap_ptr, size_t size)"""),
    Section("Teams", "Splitting and destroying is done by all PEs of the (parent) team.", [], """\
host device: int nvshmem_team_my_pe(nvshmem_team_t team)
host device: int nvshmem_team_n_pes(nvshmem_team_t team)
host device: int nvshmem_team_translate_pe(nvshmem_team_t src_team, int src_pe, nvshmem_team_t dest_team)
host: void nvshmem_team_get_config(nvshmem_team_t team, nvshmem_team_config_t *config)
host: int nvshmem_team_split_strided(nvshmem_team_t parent_team, int PE_start, int PE_stride, int PE_size, \
const nvshmem_team_config_t *config, long config_mask, nvshmem_team_t *new_team)
host: int nvshmem_team_split_2d(nvshmem_team_t parent_team, int xrange, const nvshmem_team_config_t *xaxis_config, \
long xaxis_mask, nvshmem_team_t *xaxis_team, const nvshmem_team_config_t *yaxis_config, long yaxis_mask, \
nvshmem_team_t *yaxis_team)
host: void nvshmem_team_destroy(nvshmem_team_t team)
host: int nvshmemx_team_get_uniqueid(nvshmemx_team_uniqueid_t *uniqueid)
host: int nvshmemx_team_init(nvshmem_team_t *team, nvshmem_team_config_t *config, long config_mask, int npes, \
int pe_idx_in_team)"""),
    Section("Put and get", """\
nelems counts elements. A put returns when source may be written again, a get when dest is there. Strides count
elements, from the begin of one to the begin of the next. Forms for a warp or a block are called by all its threads,
with the same arguments.""", PUT_GET),
    Section("Put and get that are complete after nvshmem_quiet()", "", NOT_WAITING),
    Section("Put with signal", "Writes dest, and then the word at sig_addr: who sees the signal sees the bytes.",
            PUT_SIGNAL, """\
host device: uint64_t nvshmem_signal_fetch(uint64_t *sig_addr)
device: uint64_t nvshmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value)
stream: void nvshmemx_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value)
device stream: void nvshmemx_signal_op(uint64_t *sig_addr, uint64_t signal, int sig_op, int pe)"""),
    Section("Atomic operations", "", ATOMICS),
    Section("Waiting for words in the own memory", """\
Of many words, those count whose status is 0, or all if status is NULL. _any gives the index of one that compares,
SIZE_MAX when none counts (or, of a test, compares); _some how many compare, and puts their indices into indices.""",
            WAITS),
    Section("Order and completion", "", [], """\
host device: void nvshmem_fence(void)
host device stream: void nvshmem_quiet(void)"""),
    Section("Barriers", "A barrier is a quiet and then a sync.", [], """\
host device scopes stream: int nvshmem_barrier(nvshmem_team_t team)
host device scopes stream: void nvshmem_barrier_all(void)
host device scopes stream: int nvshmem_team_sync(nvshmem_team_t team)
host device scopes stream: void nvshmem_sync_all(void)"""),
    Section("Collective operations", """\
By all PEs of a team, with the same arguments; one at a time of each team. dest is ready on all PEs before the first
of them calls. Give 0, or another number when there is no such team.""", COLLECTIVES),
    Section("Reductions", """\
source and dest are the same array, or do not overlap. Of a reducescatter, source has nreduce elements for each PE, and
dest is not in it, or is this PE's part of it. Of a double2, x is the value and y what belongs to it, such as where it
was found: the first PE's with the greatest value.""", REDUCES, """\
device: int nvshmemx_double2_maxloc_reduce_block(nvshmem_team_t team, double2 *dest, const double2 *source, \
size_t nreduce)"""),
]
