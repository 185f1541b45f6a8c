"""The definitions of the typed collective operations of the host and on streams: one line each, which calls a template
of typed_collectives.h."""

import functions
import headers

BYTES = {"broadcast", "fcollect", "alltoall"}
COMBINES = {"and": "bit_and", "or": "bit_or", "xor": "bit_xor"}


def is_collective(function):
    return ("host" in function.by and function.operation is not None
            and function.operation.call.partition("<")[0] in BYTES | {"reduce", "reducescatter"})


def template(function):
    name, _, combine = function.operation.call.partition("<")
    name += "_on_stream" if function.scope == "stream" else ""
    if not combine:
        return name
    combine = combine.rstrip(">").rpartition("::")[2].lower()
    return f"{name}<penstock::symm::Combine::{COMBINES.get(combine, combine)}>"


def definition(function):
    arguments = ", ".join([f'"{function.name}"'] + [name for _, name in function.arguments])
    return f"NVSHMEM_DEFINE {function.prototype()} {{\n  return front::{template(function)}({arguments});\n}}"


def source():
    text = "\n".join(definition(function) for function in functions.all_functions() if is_collective(function))
    return (f"// {headers.GENERATED}\n#include \"typed_collectives.h\"\n\nnamespace front = penstock::nvshmem;\n\n"
            f"{text}\n")
