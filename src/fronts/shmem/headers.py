"""The headers: shmem.h, its selections by type for C11 and C++, pshmem.h, shmemx.h, and the old directory mpp/."""

import functions
import table

GENERATED = "Made from src/fronts/shmem/table.py when the library is built."
WIDTH = 120

TOP = """\
/* OpenSHMEM: memory of all PEs of a job, reached by puts, gets and atomic operations.
 *
 * The functions of OpenSHMEM 1.5; of 1.6 blocks with strides, prefix sums, signal_set and signal_add, pe_quiet, sessions,
 * team_ptr and query_initialized. In C11 and C++ also under names without a type (shmem_put), which is chosen by the
 * arguments.
 *
 * Errors: a call with a PE that is not there, or an address that is not symmetric, writes one line that names call, PE and
 * address on standard error, and ends the job. So do calls before shmem_init() and after shmem_finalize(), and waits for
 * a PE that has ended.
 *
 * Threads: after shmem_init_thread() with SHMEM_THREAD_MULTIPLE any thread may call everything at any time, except that
 * what all PEs of a team call together is called by one thread of each PE at a time.
 *
 * {generated} */
"""

CONSTANTS = """\
#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 5
#define OSHMEM_SPEC_VERSION (SHMEM_MAJOR_VERSION * 10000 + SHMEM_MINOR_VERSION * 100) /* as Open MPI has it */
#define SHMEM_MAX_NAME_LEN 256
#define SHMEM_VENDOR_STRING "{vendor}"

/* For shmem_init_thread(): which threads call. */
#define SHMEM_THREAD_SINGLE 0     /* there is one */
#define SHMEM_THREAD_FUNNELED 1   /* the first */
#define SHMEM_THREAD_SERIALIZED 2 /* one at a time */
#define SHMEM_THREAD_MULTIPLE 3   /* any, at any time */

/* For shmem_query_interoperability(), which gives 1 for what is so, and 0: whether calls of OpenSHMEM take MPI's
 * communication on, too (they do not). */
#define SHMEM_PROGRESS_MPI 1

/* Options of a context, to be combined. */
#define SHMEM_CTX_SERIALIZED (1L << 0) /* one thread at a time uses it */
#define SHMEM_CTX_PRIVATE (1L << 1)    /* the thread that made it uses it */
#define SHMEM_CTX_NOSTORE (1L << 2)    /* its quiet and fence leave out stores by shmem_ptr() */

/* Hints of a session, to be combined, and the fields of shmem_ctx_session_config_t that are set. */
#define SHMEM_CTX_SESSION_BATCH (1L << 0)    /* many small operations, each of which may take longer */
#define SHMEM_CTX_SESSION_SAME_AMO (1L << 1) /* no two different atomic operations at the same time */
#define SHMEM_CTX_SESSION_TOTAL_OPS (1L << 0)

/* The fields of shmem_team_config_t that are set. */
#define SHMEM_TEAM_NUM_CONTEXTS (1L << 0)

/* Hints of shmem_malloc_with_hints(), to be combined. */
#define SHMEM_MALLOC_ATOMICS_REMOTE (1L << 0) /* other PEs update it by atomic operations */
#define SHMEM_MALLOC_SIGNAL_REMOTE (1L << 1)  /* holds signals */

/* What a put with signal does to the signal. */
#define SHMEM_SIGNAL_SET 0
#define SHMEM_SIGNAL_ADD 1

/* Comparisons of waits and tests: what the word in memory has to be to the value. */
enum shmem_cmp {{
  SHMEM_CMP_EQ = 1,
  SHMEM_CMP_NE = 2,
  SHMEM_CMP_GT = 3,
  SHMEM_CMP_GE = 4,
  SHMEM_CMP_LT = 5,
  SHMEM_CMP_LE = 6
}};
{comparisons}

/* Arrays pSync of collective operations of an active set: their lengths, and what their elements are before the first use. */
#define SHMEM_SYNC_VALUE 0L
#define SHMEM_SYNC_SIZE 32
#define SHMEM_BARRIER_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_BCAST_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_COLLECT_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALL_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALLS_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 1

/* Older names. */
{old}
"""

OLD_CONSTANTS = """\
SYNC_VALUE SYNC_SIZE BARRIER_SYNC_SIZE BCAST_SYNC_SIZE COLLECT_SYNC_SIZE REDUCE_SYNC_SIZE ALLTOALL_SYNC_SIZE
ALLTOALLS_SYNC_SIZE REDUCE_MIN_WRKDATA_SIZE MAJOR_VERSION MINOR_VERSION MAX_NAME_LEN VENDOR_STRING CMP_EQ CMP_NE CMP_GT
CMP_GE CMP_LT CMP_LE""".split()

HANDLES = """\
/* Handles: compare them, and nothing else. */
typedef struct shmem_penstock_ctx {
  char unused;
} *shmem_ctx_t;
typedef struct shmem_penstock_team {
  char unused;
} *shmem_team_t;

#define SHMEM_CTX_INVALID ((shmem_ctx_t)0)
#define SHMEM_CTX_DEFAULT ((shmem_ctx_t)1)
#define SHMEM_TEAM_INVALID ((shmem_team_t)0)
#define SHMEM_TEAM_WORLD ((shmem_team_t)1)  /* all PEs */
#define SHMEM_TEAM_SHARED ((shmem_team_t)2) /* those that reach one another's memory by loads and stores */

typedef struct {
  int num_contexts; /* that the program will have at a time; as many as it likes may be made */
} shmem_team_config_t;

typedef struct {
  size_t total_ops;
} shmem_ctx_session_config_t;
"""

COMPLEX_TYPES = """\
#ifdef __cplusplus
extern "C++" {
#include <complex>
}
typedef std::complex<double> shmem_complexd_t;
typedef std::complex<float> shmem_complexf_t;
#else
typedef double _Complex shmem_complexd_t;
typedef float _Complex shmem_complexf_t;
#endif
"""

ATTRIBUTES = """\
/* Define SHMEM_WARN_DEPRECATED to be told where a program uses what OpenSHMEM calls deprecated. */
#if defined(SHMEM_WARN_DEPRECATED) && defined(__GNUC__)
#define SHMEM_DEPRECATED __attribute__((deprecated))
#else
#define SHMEM_DEPRECATED
#endif
#if defined(__GNUC__)
#define SHMEM_NORETURN __attribute__((noreturn))
#else
#define SHMEM_NORETURN
#endif
"""


def comment(title, text=""):
    if not text:
        return f"/* {title}. */" if not title.endswith(")") else f"/* {title} */"
    lines = text.strip().splitlines()
    return "\n".join([f"/* {title}.", " *"] + [f" * {line}" for line in lines]) + " */"


def wrapped(prototype, end):
    """A declaration in lines that a screen holds."""
    lines = [prototype + end]
    while len(lines[-1]) > WIDTH:
        cut = lines[-1].rindex(", ", 0, WIDTH) + 1
        lines[-1:] = [lines[-1][:cut], "    " + lines[-1][cut:].lstrip()]
    return "\n".join(lines)


def declaration(function, prefix):
    end = " SHMEM_DEPRECATED;" if function.deprecated else ";"
    start = "SHMEM_NORETURN " if function.noreturn else ""
    return wrapped(start + function.prototype(prefix), end)


def declarations(prefix=""):
    text = []
    for section in table.SECTIONS:
        text.append(comment(section.title, section.text))
        for family in functions.families(section):
            text.append("\n".join(declaration(function, prefix) for function in family) + "\n")
    return "\n".join(text)


def before_c11(prefix=""):
    return "\n".join(declaration(function, prefix) for function in functions.before_c11())


def shmem_h(vendor):
    constants = CONSTANTS.format(
        vendor=vendor,
        comparisons="\n".join(f"#define SHMEM_CMP_{name} SHMEM_CMP_{name}" for name in table.COMPARISONS),
        old="\n".join(f"#define _SHMEM_{name} SHMEM_{name}" for name in OLD_CONSTANTS))
    return f"""\
{TOP.format(generated=GENERATED)}#ifndef SHMEM_H
#define SHMEM_H

#include <stddef.h>
#include <stdint.h>

{ATTRIBUTES}
#ifdef __cplusplus
extern "C" {{
#endif

{constants}
{HANDLES}
{COMPLEX_TYPES}
{declarations()}
#if !defined(__cplusplus) || defined(SHMEM_WITHOUT_OVERLOADS)
/* For longs only, where there is no selection by type. */
{before_c11()}
#endif

#ifdef __cplusplus
}}
#endif

#if defined(__cplusplus)
#ifndef SHMEM_WITHOUT_OVERLOADS
#include "shmem_overloads.h"
#endif
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#include "shmem_generic.h"
#endif

#endif /* SHMEM_H */
"""


def pshmem_h():
    return f"""\
/* The same functions under the names by which a profiling library calls them: what is defined as shmem_put64() there
 * calls pshmem_put64().
 *
 * {GENERATED} */
#ifndef PSHMEM_H
#define PSHMEM_H

#include "shmem.h"

#ifdef __cplusplus
extern "C" {{
#endif

{declarations("p")}
{before_c11("p")}

#ifdef __cplusplus
}}
#endif

#endif /* PSHMEM_H */
"""


SHMEMX = """\
/* Where other libraries declare extensions of their own. This one has none. */
#ifndef SHMEMX_H
#define SHMEMX_H

#include "shmem.h"

#endif /* SHMEMX_H */
"""


def distinct(types):
    """Types without those that are another one's second name."""
    seen = set()
    found = []
    for name in types:
        same = table.SAME_AS.get(name, name)
        if same not in seen:
            seen.add(same)
            found.append(name)
    return found


def generic_operations():
    return [operation for section in table.SECTIONS for operation in section.operations if operation.generic]
