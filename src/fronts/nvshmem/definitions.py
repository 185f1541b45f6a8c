"""The definitions of the typed functions of the host: one line each, which calls a template of typed_memory.h or
typed_words.h."""

import functions
import headers

# The templates of each file, by what the table calls them. The others are not there yet (README.md).
MEMORY = {"put", "get", "put_nbi", "get_nbi", "iput", "iget", "p", "g", "put_signal"}


def is_word(call):
    return call.startswith(("atomic_", "wait_until"))


FILES = {
    "memory": lambda call: call in MEMORY,
    "words": is_word,
}


def of_file(name):
    return [function for function in functions.all_functions()
            if "host" in function.by and function.operation and FILES[name](function.operation.call)]


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


def source(name):
    text = "\n".join(definition(function) for function in of_file(name))
    return (f"// {headers.GENERATED}\n#include \"typed_{name}.h\"\n\n#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n\n"
            f"namespace front = penstock::nvshmem;\n\n{text}\n")


def files():
    for name in FILES:
        yield f"definitions_{name}.cc", source(name)
