"""The functions that the table stands for, one by one."""

import dataclasses
import re

import table
from c_text import declare, split_argument, split_arguments
import c_types

WHOLE = {8: "uint8_t", 16: "uint16_t", 32: "uint32_t", 64: "uint64_t", 128: "penstock::device::SymmUnit"}
STREAM = ("cudaStream_t", "stream")


@dataclasses.dataclass
class Function:
    name: str
    result: str
    arguments: list  # of (type, name); type and name of a pointer are "T *" and "dest"
    by: set  # of host, device
    scope: str = "thread"
    operation: table.Operation = None  # none: it has a line of its own in the table
    element: str = ""  # a name of table.TYPES, "block8" to "block128" or "memory"

    def prototype(self):
        arguments = ", ".join(declare(*argument) for argument in self.arguments) or "void"
        return f"{declare(self.result, self.name)}({arguments})"

    @property
    def only_cxx(self):
        return self.element in table.ONLY_CXX


def spread(name, by, function):
    """A function for each kind of caller: NAME, and nvshmemx_ with the scope or _on_stream behind it."""
    extended = re.sub(r"^nvshmem_", "nvshmemx_", name)
    if by & {"host", "device"}:
        yield dataclasses.replace(function, name=name, by=by & {"host", "device"})
    for scope in table.SCOPES if "scopes" in by else []:
        yield dataclasses.replace(function, name=f"{extended}_{scope}", by={"device"}, scope=scope)
    if "stream" in by:
        arguments = [argument for argument in function.arguments] + [STREAM]
        yield dataclasses.replace(function, name=f"{extended}_on_stream", arguments=arguments, by={"host"},
                                  scope="stream")


def of_type(operation, name, element, kind):
    """kind: what stands for T; `void` in forms that count blocks or bytes."""
    arguments = [(re.sub(r"\bT\b", kind, argument), what) for argument, what in split_arguments(operation.arguments)]
    function = Function(name, re.sub(r"\bT\b", kind, operation.result), arguments, set(), "thread", operation, element)
    return spread("nvshmem_" + name, set(operation.by.split()), function)


def forms(operation):
    for element in table.SETS[operation.types]:
        yield from of_type(operation, operation.name.format(element), element, table.TYPES[element])
    for size in c_types.BITS if operation.blocks else []:
        yield from of_type(operation, operation.blocks.format(size), f"block{size}", "void")
    if operation.memory:
        yield from of_type(operation, operation.memory, "memory", "void")


def parse(line):
    by, prototype = line.split(": ", 1)
    head, arguments = re.fullmatch(r"(.*?)\((.*)\)", prototype).groups()
    result, name = split_argument(head)
    return spread(name, set(by.split()), Function(name, result, split_arguments(arguments), set()))


def of_section(section):
    for operation in section.operations:
        yield from forms(operation)
    for line in section.functions.splitlines():
        yield from parse(line)


def all_functions():
    return [function for section in table.SECTIONS for function in of_section(section)]
