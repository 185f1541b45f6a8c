"""libnvshmem.a's functions: each jumps to the one of its name in libnvshmem_host.so (trampoline/loading.c)."""

import functions
import headers

# Of the headers, beside the table's.
OTHERS = ["penstock_nvshmem_ready"]


def names():
    return [function.name for function in functions.all_functions() if "host" in function.by] + OTHERS


def stubs():
    lines = "\n".join(f"\tforward {name}, {index}" for index, name in enumerate(names()))
    return f"""\
/* {headers.GENERATED} */
#include "stubs.inc"

{lines}

\tforward_end
"""


def name_table():
    chosen = names()
    lines = "\n".join(f'    "{name}",' for name in chosen)
    return f"""\
/* {headers.GENERATED} */
#include "loading.h"

const char *const penstock_forward_names[] = {{
{lines}
}};
const unsigned penstock_forward_count = {len(chosen)};
"""


def files():
    yield "trampoline_stubs.S", stubs()
    yield "trampoline_names.c", name_table()
