"""What OpenSHMEM offers: types, operations, and the functions that have no type in their name.

Everything that has to name all functions is made from this table (generate.py): the headers, the definitions and the
programs that call each function once. Names, types and arguments are those of the OpenSHMEM specification 1.5, and of
1.6 where `since` says so.
"""

import dataclasses
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "base"))

from c_types import AMO, BITS, BITWISE_REDUCE, EXTENDED_AMO, INTEGERS, SAME_AS, SYNC  # noqa: E402

# Name in a function's name: the type in C. C++ has its own complex types, of the same layout.
TYPES = {"float": "float", "double": "double", "longdouble": "long double"} | INTEGERS | {
    "complexd": "shmem_complexd_t",
    "complexf": "shmem_complexf_t",
}

COMPLEX = ["complexd", "complexf"]
REAL = ["float", "double", "longdouble"]
RMA = [name for name in TYPES if name not in COMPLEX]
# Open MPI has the signed types, too.
BITWISE_AMO = ["int", "long", "longlong", "uint", "ulong", "ulonglong", "int32", "int64", "uint32", "uint64"]
OLD_INTEGERS = ["short", "int", "long", "longlong"]

# Sets of types as a selection by type knows them, by the name of its list of types.
SETS = {
    "RMA": RMA,
    "AMO": AMO,
    "EXTENDED_AMO": EXTENDED_AMO,
    "BITWISE_AMO": BITWISE_AMO,
    "SYNC": SYNC,
    "BITWISE_REDUCE": BITWISE_REDUCE,
    "ORDERED_REDUCE": RMA,
    "SUM_REDUCE": RMA + COMPLEX,
}

# Operator: types of reductions over a team, over an active set.
REDUCTIONS = {
    "and": ("BITWISE_REDUCE", OLD_INTEGERS),
    "or": ("BITWISE_REDUCE", OLD_INTEGERS),
    "xor": ("BITWISE_REDUCE", OLD_INTEGERS),
    "max": ("ORDERED_REDUCE", OLD_INTEGERS + REAL),
    "min": ("ORDERED_REDUCE", OLD_INTEGERS + REAL),
    "sum": ("SUM_REDUCE", OLD_INTEGERS + REAL + COMPLEX),
    "prod": ("SUM_REDUCE", OLD_INTEGERS + REAL + COMPLEX),
}



@dataclasses.dataclass
class Operation:
    """A family of functions, one for each type. `T` in its arguments stands for the type."""

    name: str  # with {} where the type stands: "{}_put"
    types: list
    result: str
    arguments: str
    call: str  # the template in typed_*.h
    context: bool = False  # also as shmem_ctx_NAME, with a context before the other arguments
    blocks: str = ""  # with {} where a number of bits stands: "put{}"
    memory: str = ""  # the name of the form for bytes: "putmem"
    generic: str = ""  # the name of the selection by type
    types_name: str = ""  # of the list of types that it selects from
    decided_by: int = 0  # the argument whose type decides
    deprecated: bool = False
    note: str = ""


@dataclasses.dataclass
class Section:
    """Functions that belong together: what a comment in the header says of them, and the functions."""

    title: str
    text: str
    operations: list
    functions: str = ""  # prototypes as they are, one a line; "deprecated" before one makes it so


def sets(name):
    return {"types": SETS[name], "types_name": name}


SIGNAL = "uint64_t *sig_addr, uint64_t signal, int sig_op, int pe"
STRIDES = "ptrdiff_t dst, ptrdiff_t sst"

PUT_GET = [
    Operation("{}_put", result="void", arguments="T *dest, const T *source, size_t nelems, int pe", call="put",
              context=True, blocks="put{}", memory="putmem", generic="put", **sets("RMA")),
    Operation("{}_p", result="void", arguments="T *dest, T value, int pe", call="put_one", context=True,
              generic="p", **sets("RMA")),
    Operation("{}_iput", result="void", arguments=f"T *dest, const T *source, {STRIDES}, size_t nelems, int pe",
              call="put_strided", context=True, blocks="iput{}", generic="iput", **sets("RMA")),
    Operation("{}_get", result="void", arguments="T *dest, const T *source, size_t nelems, int pe", call="get",
              context=True, blocks="get{}", memory="getmem", generic="get", **sets("RMA")),
    Operation("{}_g", result="T", arguments="const T *source, int pe", call="get_one", context=True, generic="g",
              **sets("RMA")),
    Operation("{}_iget", result="void", arguments=f"T *dest, const T *source, {STRIDES}, size_t nelems, int pe",
              call="get_strided", context=True, blocks="iget{}", generic="iget", **sets("RMA")),
]

PUT_GET_BLOCKS = [
    Operation("{}_ib" + way, result="void",
              arguments=f"T *dest, const T *source, {STRIDES}, size_t bsize, size_t nblocks, int pe",
              call=way + "_blocks", context=True, blocks="ib" + way + "{}", generic="ib" + way, **sets("RMA"))
    for way in ("put", "get")
]

NOT_WAITING = [
    Operation("{}_" + way + "_nbi", result="void", arguments="T *dest, const T *source, size_t nelems, int pe",
              call=call, context=True, blocks=way + "{}_nbi", memory=way + "mem_nbi", generic=way + "_nbi",
              **sets("RMA"))
    for way, call in (("put", "put"), ("get", "get_later"))
]

PUT_SIGNAL = [
    Operation("{}_put_signal" + end, result="void",
              arguments=f"T *dest, const T *source, size_t nelems, {SIGNAL}", call="put_signal", context=True,
              blocks="put{}_signal" + end, memory="putmem_signal" + end, generic="put_signal" + end, **sets("RMA"))
    for end in ("", "_nbi")
]


def atomic(name, types, result, arguments, call=None, **more):
    return Operation("{}_atomic_" + name, result=result, arguments=arguments, call="atomic_" + (call or name),
                     context=True, generic="atomic_" + name, **sets(types), **more)


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

ATOMICS_NOT_WAITING = [
    atomic("fetch_nbi", "EXTENDED_AMO", "void", "T *fetch, const T *source, int pe", call="fetch"),
    atomic("compare_swap_nbi", "AMO", "void", "T *fetch, T *dest, T cond, T value, int pe", call="compare_swap"),
    atomic("swap_nbi", "EXTENDED_AMO", "void", "T *fetch, T *dest, T value, int pe", call="swap"),
    atomic("fetch_inc_nbi", "AMO", "void", "T *fetch, T *dest, int pe", call="fetch_inc"),
    atomic("fetch_add_nbi", "AMO", "void", "T *fetch, T *dest, T value, int pe", call="fetch_add"),
] + [
    atomic(f"fetch_{bits}_nbi", "BITWISE_AMO", "void", "T *fetch, T *dest, T value, int pe", call="fetch_" + bits)
    for bits in ("and", "or", "xor")
]


def old_atomic(name, types, result, arguments, call):
    return Operation("{}_" + name, result=result, arguments=arguments, call="atomic_" + call, generic=name,
                     deprecated=True, **sets(types))


OLD_ATOMICS = [
    old_atomic("fetch", "EXTENDED_AMO", "T", "const T *source, int pe", "fetch"),
    old_atomic("set", "EXTENDED_AMO", "void", "T *dest, T value, int pe", "set"),
    old_atomic("cswap", "AMO", "T", "T *dest, T cond, T value, int pe", "compare_swap"),
    old_atomic("swap", "EXTENDED_AMO", "T", "T *dest, T value, int pe", "swap"),
    old_atomic("finc", "AMO", "T", "T *dest, int pe", "fetch_inc"),
    old_atomic("inc", "AMO", "void", "T *dest, int pe", "inc"),
    old_atomic("fadd", "AMO", "T", "T *dest, T value, int pe", "fetch_add"),
    old_atomic("add", "AMO", "void", "T *dest, T value, int pe", "add"),
]


def waiting(name, result, arguments):
    return Operation("{}_" + name, result=result, arguments=arguments, call=name, generic=name, **sets("SYNC"))


# Older programs have them volatile, newer ones not: so both may.
MANY = "volatile T *ivars, size_t nelems"

WAITS = [
    operation
    for way, whether in (("wait_until", "void"), ("test", "int"))
    for operation in (
        waiting(way, whether, "volatile T *ivar, int cmp, T cmp_value"),
        waiting(way + "_all", whether, f"{MANY}, const int *status, int cmp, T cmp_value"),
        waiting(way + "_any", "size_t", f"{MANY}, const int *status, int cmp, T cmp_value"),
        waiting(way + "_some", "size_t", f"{MANY}, size_t *indices, const int *status, int cmp, T cmp_value"),
        waiting(way + "_all_vector", whether, f"{MANY}, const int *status, int cmp, T *cmp_values"),
        waiting(way + "_any_vector", "size_t", f"{MANY}, const int *status, int cmp, T *cmp_values"),
        waiting(way + "_some_vector", "size_t", f"{MANY}, size_t *indices, const int *status, int cmp, T *cmp_values"),
    )
]

OLD_WAITS = [
    Operation("{}_wait", OLD_INTEGERS, "void", "volatile T *ivar, T cmp_value", call="wait_for_change", deprecated=True),
]


def collective(name, arguments):
    return Operation("{}_" + name, result="int", arguments="shmem_team_t team, T *dest, const T *source, " + arguments,
                     call=name, memory=name + "mem", generic=name, decided_by=1, **sets("RMA"))


COLLECTIVES = [
    collective("broadcast", "size_t nelems, int PE_root"),
    collective("collect", "size_t nelems"),
    collective("fcollect", "size_t nelems"),
    collective("alltoall", "size_t nelems"),
    collective("alltoalls", f"{STRIDES}, size_t nelems"),
]

REDUCES = [
    Operation("{}_" + operator + "_reduce", result="int",
              arguments="shmem_team_t team, T *dest, const T *source, size_t nreduce", call=f"reduce<shmem::{operator.title()}>",
              generic=operator + "_reduce", decided_by=1, **sets(types))
    for operator, (types, _) in REDUCTIONS.items()
]

SCANS = [
    Operation("{}_sum_" + way, result="int",
              arguments="shmem_team_t team, T *dest, const T *source, size_t nelems", call="sum_" + way,
              generic="sum_" + way, decided_by=1, **sets("SUM_REDUCE"))
    for way in ("inscan", "exscan")
]

ACTIVE_SET = "int PE_start, int logPE_stride, int PE_size"

OLD_REDUCES = [
    Operation("{}_" + operator + "_to_all", types, "void",
              f"T *dest, const T *source, int nreduce, {ACTIVE_SET}, T *pWrk, long *pSync",
              call=f"reduce_active<shmem::{operator.title()}>", deprecated=True)
    for operator, (_, types) in REDUCTIONS.items()
]


def old_collective(name, arguments, more=""):
    """Collectives over an active set have forms for blocks of 32 and 64 bits only."""
    return Operation("", [], "void", f"T *dest, const T *source, {arguments}, {more}{ACTIVE_SET}, long *pSync",
                     call=name + "_active", blocks=name + "{}", deprecated=True)


OLD_COLLECTIVES = [
    old_collective("broadcast", "size_t nelems", "int PE_root, "),
    old_collective("collect", "size_t nelems"),
    old_collective("fcollect", "size_t nelems"),
    old_collective("alltoall", "size_t nelems"),
    old_collective("alltoalls", f"{STRIDES}, size_t nelems"),
]
OLD_BITS = [32, 64]

SECTIONS = [
    Section("Begin and end", """\
Every PE of a job calls shmem_init() before anything else, in its first thread, before it starts others. May be called
again: as many calls of shmem_finalize() end it. A PE that returns from main or calls exit(0) without it is finalized
then; one that ends with another code ends the job with that code, as shmem_global_exit() does.""", [], """\
void shmem_init(void)
int shmem_init_thread(int requested, int *provided)
void shmem_query_thread(int *provided)
void shmem_query_initialized(int *initialized)
void shmem_finalize(void)
noreturn void shmem_global_exit(int status)
int shmem_my_pe(void)
int shmem_n_pes(void)
int shmem_query_interoperability(int property)
void shmem_info_get_version(int *major, int *minor)
void shmem_info_get_name(char *name)
deprecated void start_pes(int npes)
deprecated int _my_pe(void)
deprecated int _num_pes(void)"""),
    Section("Addresses", """\
Symmetric are the memory that shmem_malloc() and its sisters give, and global and static variables of the program (not
those of shared libraries). shmem_ptr() gives the address at which this PE reaches another one's instance by loads and
stores, or NULL.""", [], """\
int shmem_pe_accessible(int pe)
int shmem_addr_accessible(const void *addr, int pe)
void *shmem_ptr(const void *dest, int pe)
void *shmem_team_ptr(shmem_team_t team, const void *dest, int pe)"""),
    Section("Symmetric heap", """\
Called by all PEs, in the same order with the same arguments. NULL, with a message, when there is no room: then nothing
has changed. A size of 0 gives NULL. The heap's size is SHMEM_SYMMETRIC_SIZE.""", [], """\
void *shmem_malloc(size_t size)
void *shmem_malloc_with_hints(size_t size, long hints)
void *shmem_calloc(size_t count, size_t size)
void *shmem_align(size_t alignment, size_t size)
void *shmem_realloc(void *ptr, size_t size)
void shmem_free(void *ptr)
deprecated void *shmalloc(size_t size)
deprecated void *shmemalign(size_t alignment, size_t size)
deprecated void *shrealloc(void *ptr, size_t size)
deprecated void shfree(void *ptr)"""),
    Section("Teams", """\
Splitting and destroying is done by all PEs of the (parent) team. Calls that give an int give 0 on success.""", [], """\
int shmem_team_my_pe(shmem_team_t team)
int shmem_team_n_pes(shmem_team_t team)
int shmem_team_get_config(shmem_team_t team, long config_mask, shmem_team_config_t *config)
int shmem_team_translate_pe(shmem_team_t src_team, int src_pe, shmem_team_t dest_team)
int shmem_team_split_strided(shmem_team_t parent_team, int start, int stride, int size, \
const shmem_team_config_t *config, long config_mask, shmem_team_t *new_team)
int shmem_team_split_2d(shmem_team_t parent_team, int xrange, const shmem_team_config_t *xaxis_config, \
long xaxis_mask, shmem_team_t *xaxis_team, const shmem_team_config_t *yaxis_config, long yaxis_mask, \
shmem_team_t *yaxis_team)
void shmem_team_destroy(shmem_team_t team)"""),
    Section("Contexts", """\
Operations on a context are ordered and completed apart from those on others. PEs are numbered as in the team that the
context was made for.""", [], """\
int shmem_ctx_create(long options, shmem_ctx_t *ctx)
int shmem_team_create_ctx(shmem_team_t team, long options, shmem_ctx_t *ctx)
int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t *team)
void shmem_ctx_destroy(shmem_ctx_t ctx)
void shmem_ctx_session_start(shmem_ctx_t ctx, long options, const shmem_ctx_session_config_t *config, long config_mask)
void shmem_ctx_session_stop(shmem_ctx_t ctx)"""),
    Section("Put and get", """\
nelems counts elements. A put returns when source may be written again, a get when dest is there. Strides count
elements, from the begin of one to the begin of the next.""", PUT_GET),
    Section("Put and get of blocks with a stride (1.6)", """\
nblocks blocks of bsize elements each; strides count elements, from the begin of one block to the begin of the next.""",
            PUT_GET_BLOCKS),
    Section("Put and get that are complete after shmem_quiet()", "", NOT_WAITING),
    Section("Put with signal", """\
Writes dest, and then updates the word at sig_addr, both of PE pe: who sees the signal sees the bytes.""", PUT_SIGNAL, """\
uint64_t shmem_signal_fetch(const uint64_t *sig_addr)
uint64_t shmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value)
void shmem_signal_set(uint64_t *sig_addr, uint64_t signal, int pe)
void shmem_ctx_signal_set(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe)
void shmem_signal_add(uint64_t *sig_addr, uint64_t signal, int pe)
void shmem_ctx_signal_add(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe)"""),
    Section("Atomic operations", "", ATOMICS),
    Section("Atomic operations that are complete after shmem_quiet()", "What was there before comes into *fetch.",
            ATOMICS_NOT_WAITING),
    Section("Atomic operations under their older names", "", OLD_ATOMICS),
    Section("Waiting for words in the own memory", """\
cmp is one of SHMEM_CMP_EQ to SHMEM_CMP_LE. Of many words, those count whose status is 0, or all if status is NULL.
_any gives the index of one that compares, SIZE_MAX when none counts (or, of a test, compares); _some gives how many
compare, and puts their indices into indices.""", WAITS + OLD_WAITS, """\
deprecated void shmem_wait(volatile long *ivar, long cmp_value)"""),
    Section("Order and completion", "", [], """\
void shmem_fence(void)
void shmem_ctx_fence(shmem_ctx_t ctx)
void shmem_quiet(void)
void shmem_ctx_quiet(shmem_ctx_t ctx)
void shmem_pe_quiet(int target_pe)
void shmem_ctx_pe_quiet(shmem_ctx_t ctx, int target_pe)"""),
    Section("Barriers", "A barrier is a quiet and then a sync.", [], """\
void shmem_barrier_all(void)
void shmem_sync_all(void)
int shmem_team_sync(shmem_team_t team)
deprecated void shmem_barrier(int PE_start, int logPE_stride, int PE_size, long *pSync)
deprecated void shmem_sync(int PE_start, int logPE_stride, int PE_size, long *pSync)"""),
    Section("Collective operations of a team", "Give 0, or another number when there is no such team.",
            COLLECTIVES),
    Section("Reductions of a team", "source and dest are the same array, or do not overlap.", REDUCES),
    Section("Prefix sums of a team (1.6)", """\
Of the PEs up to this one (inscan), or before it (exscan).""", SCANS),
    Section("Collective operations of an active set", "", OLD_COLLECTIVES),
    Section("Reductions of an active set", "", OLD_REDUCES),
    Section("Locks", "A long in symmetric memory, 0 at first. Not recursive.", [], """\
void shmem_set_lock(volatile long *lock)
int shmem_test_lock(volatile long *lock)
void shmem_clear_lock(volatile long *lock)"""),
    Section("Profiling", "", [], "void shmem_pcontrol(int level, ...)"),
    Section("Caches, of machines that had to be told", "Do nothing.", [], """\
deprecated void shmem_set_cache_inv(void)
deprecated void shmem_set_cache_line_inv(void *dest)
deprecated void shmem_clear_cache_inv(void)
deprecated void shmem_clear_cache_line_inv(void *dest)
deprecated void shmem_udcflush(void)
deprecated void shmem_udcflush_line(void *dest)"""),
]

# Functions that have the name of a selection by type: declared for C before C11 only, there for all.
BEFORE_C11 = """\
void shmem_wait_until(volatile long *ivar, int cmp, long cmp_value)
long shmem_swap(long *dest, long value, int pe)"""

COMPARISONS = ["EQ", "NE", "GT", "GE", "LT", "LE"]
