"""The definitions of the typed functions: one line each, which calls a template of typed_*.h."""

import functions
import headers
import table

# Sources, so that several processors can compile them: the sections of each, and what they include.
SOURCES = {
    "definitions_memory.cc": ("typed_memory.h", [table.PUT_GET, table.PUT_GET_BLOCKS, table.NOT_WAITING, table.PUT_SIGNAL]),
    "definitions_atomics.cc": ("typed_memory.h", [table.ATOMICS, table.ATOMICS_NOT_WAITING, table.OLD_ATOMICS]),
    "definitions_waits.cc": ("typed_waits.h", [table.WAITS, table.OLD_WAITS]),
    "definitions_collectives.cc": ("typed_collectives.h", [table.COLLECTIVES, table.SCANS, table.OLD_COLLECTIVES]),
    "definitions_reductions.cc": ("typed_collectives.h", [table.REDUCES, table.OLD_REDUCES]),
}

# Arguments that blocks and bytes have as void pointers.
POINTERS = ("dest", "source")


def passed(function):
    """The arguments of the template."""
    names = [name for _, name in function.arguments if name != "ctx"]
    with_context = function.operation.call.startswith(("put", "get", "atomic_"))
    first = [f'"{function.name}"']
    if with_context:
        first.append("ctx" if function.context else "SHMEM_CTX_DEFAULT")
    names = [f"shmem::plain({name})" if name in ("ivar", "ivars") else name for name in names]
    if function.element.startswith("block"):
        bits = function.element.removeprefix("block")
        names = [f"shmem::as<{bits}>({name})" if name in POINTERS else name for name in names]
    return first + names


def body(function):
    arguments = passed(function)
    call = f"shmem::{function.operation.call}"
    if function.name.endswith("_nbi") and "_atomic_" in function.name:
        return f"{call}_later({', '.join(arguments)});"
    back = "" if function.result == "void" else "return "
    return f"{back}{call}({', '.join(arguments)});"


def definition(function):
    return (f"SHMEM_DEFINE {function.prototype('p')} {{\n  {body(function)}\n}}\n"
            f"SHMEM_ALIAS({function.name});")


def source(name):
    include, groups = SOURCES[name]
    found = [function for operations in groups for operation in operations for context in (False, True)
             if operation.context or not context for function in functions.forms(operation, context)]
    text = "\n".join(definition(function) for function in found)
    return f"// {headers.GENERATED}\n#include \"{include}\"\n\nnamespace shmem = penstock::shmem;\n\n{text}\n"
