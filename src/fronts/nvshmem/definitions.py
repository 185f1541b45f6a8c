"""The definitions of the typed functions of the host: one line each, which calls a template of typed_memory.h."""

import functions
import headers
import table

# Those that go by copy engines. The others are not there yet (README.md).
HOST = {"put", "get", "put_nbi", "get_nbi", "p", "g"}
STREAM = {"put", "get", "put_nbi", "get_nbi", "put_signal"}


def is_defined(function):
    if "host" not in function.by or function.operation is None:
        return False
    return function.operation.call in (STREAM if function.scope == "stream" else HOST)


def passed(function):
    """The arguments of the template."""
    names = [name for _, name in function.arguments]
    if function.element.startswith("block"):
        bits = function.element.removeprefix("block")
        names = [f"front::as<{bits}>({name})" if name in ("dest", "source") else name for name in names]
    return [f'"{function.name}"'] + names


def definition(function):
    call = function.operation.call + ("_on_stream" if function.scope == "stream" else "")
    back = "" if function.result == "void" else "return "
    return f"NVSHMEM_DEFINE {function.prototype()} {{\n  {back}front::{call}({', '.join(passed(function))});\n}}"


def source():
    found = [function for function in functions.all_functions() if is_defined(function)]
    text = "\n".join(definition(function) for function in found)
    return (f"// {headers.GENERATED}\n#include \"typed_memory.h\"\n\n#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n\n"
            f"namespace front = penstock::nvshmem;\n\n{text}\n")
