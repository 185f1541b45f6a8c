"""Programs that call every function with a type in its name, with every type, and look at what became of it: from
kernels (tests/every.cuh), from the host and on streams (tests/every_host.h); and those that name every host function."""

import functions
import table

COMBINE = {"and": "a & b", "or": "a | b", "xor": "a ^ b", "max": "a < b ? b : a", "min": "b < a ? b : a",
           "sum": "a + b", "prod": "a * b"}
BITS = {"block8": "uint8_t", "block16": "uint16_t", "block32": "uint32_t", "block64": "uint64_t",
        "block128": "Bits128", "memory": "uint8_t"}


COLLECTIVES = {"broadcast", "fcollect", "alltoall", "reduce", "reducescatter"}


def kind(function):
    return BITS.get(function.element) or table.TYPES[function.element]


MAXLOC = "nvshmemx_double2_maxloc_reduce_block"  # of the one type that has it


def line(function):
    if function.name == MAXLOC:
        return f"TRY_maxloc({MAXLOC}, double2)"
    call = function.operation.call
    extra = ""
    if "<" in call:
        way = call.partition("<")[0]
        operator = function.operation.name.split("_")[1]
        call, extra = way, ", " + COMBINE[operator]
    return f"TRY_{call}({function.name}, {kind(function)}, {function.scope}{extra})"


PARTS = {
    "memory": lambda call: call.split("_")[0] in ("put", "get", "iput", "iget", "p", "g"),
    "words": lambda call: call.split("_")[0] in ("atomic", "wait", "test"),
    "collectives": lambda call: call in ("broadcast", "fcollect", "alltoall"),
    "reduces": lambda call: call.startswith("reduce<"),
    "reducescatters": lambda call: call.startswith("reducescatter<"),
}


def chosen_by(who, part):
    return [function for function in functions.all_functions()
            if who in function.by and function.operation and PARTS[part](function.operation.call)]


def device_source(part):
    chosen = chosen_by("device", part)
    if part == "reduces":
        chosen += [function for function in functions.all_functions() if function.name == MAXLOC]
    kernels = "\n".join(line(function) for function in chosen)
    rows = "\n".join(f'    {{"{function.name}", &try_{function.name}}},' for function in chosen)
    return f"""\
// Made from src/fronts/nvshmem/table.py.
#include "every.cuh"
#include "every_main.cuh"

{kernels}

const Tried tried_{part}[] = {{
{rows}
}};
const int tried_{part}_count = {len(chosen)};
"""


def trial(function):
    on_stream = function.scope == "stream"
    # What returns a value has it at once.
    captured = on_stream and function.operation.call != "g"
    return f'    {{"{function.name}", &try_{function.name}, {str(on_stream).lower()}, {str(captured).lower()}}},'


def trials_source(part):
    chosen = chosen_by("host", part)
    trials = "\n".join(line(function) for function in chosen)
    rows = "\n".join(trial(function) for function in chosen)
    return f"""\
// Made from src/fronts/nvshmem/table.py.
#include "every_host.h"

{trials}

static const Tried tried[] = {{
{rows}
}};
const Part every_host_{part} = {{"{part}", tried, {len(chosen)}}};
"""


def collective_line(function):
    does, _, combine = function.operation.call.partition("<")
    by_host = "nvshmem_" + function.name.removeprefix("nvshmemx_").removesuffix("_on_stream")
    type_name = "void" if function.element == "memory" else kind(function)
    if combine:
        combine = function.operation.name.split("_")[1]
        return f"    TRY_REDUCTION({does}, {function.name}, {by_host}, {type_name}, {combine}),"
    size = 1 if type_name == "void" else f"sizeof({type_name})"
    end = f"{function.name}, {by_host}, {type_name}, {size}),"
    return f"    TRY_BROADCAST({end}" if does == "broadcast" else f"    TRY_COLLECT({does}, {end}"


def collectives_source():
    """Every collective operation on streams, and its sister that returns when it is complete."""
    lines = [collective_line(function) for function in functions.all_functions()
             if function.scope == "stream" and function.operation
             and function.operation.call.partition("<")[0] in COLLECTIVES]
    text = "\n".join(lines)
    return f"""\
// Made from src/fronts/nvshmem/table.py.
#include "stream_collectives.h"

const TriedCollective tried_collectives[] = {{
{text}
}};
const int tried_collectives_count = {len(lines)};
"""


def host_source():
    """Takes the address of every host function, so that each has to be declared."""
    chosen = [function for function in functions.all_functions() if "host" in function.by]
    both = "\n".join(f"  (void (*)(void)){function.name}," for function in chosen if not function.only_cxx)
    cxx = "\n".join(f"  (void (*)(void)){function.name}," for function in chosen if function.only_cxx)
    return f"""\
/* Made from src/fronts/nvshmem/table.py. */
#include <nvshmem.h>
#include <nvshmemx.h>

void (*const nvshmem_every_host_function[])(void) = {{
{both}
#ifdef __cplusplus
{cxx}
#endif
}};

nvshmemx_init_attr_t nvshmem_every_attribute = NVSHMEMX_INIT_ATTR_INITIALIZER;
nvshmemx_uniqueid_t nvshmem_every_id = NVSHMEMX_UNIQUEID_INITIALIZER;
nvshmem_team_config_t nvshmem_every_config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
"""


def files():
    for part in PARTS:
        yield f"every_{part}.cu", device_source(part)
        yield f"every_host_{part}.cc", trials_source(part)
    yield "every_stream_collective.cc", collectives_source()
    yield "every_host_function.c", host_source()
    yield "every_host_function.cc", host_source()
