"""The functions that the table stands for, one by one."""

import dataclasses
import re

import table


@dataclasses.dataclass
class Function:
    name: str
    result: str
    arguments: list  # of (type, name); type and name of a pointer are "T *" and "dest"
    deprecated: bool = False
    noreturn: bool = False
    operation: table.Operation = None  # none: it is written by hand
    element: str = ""  # a name of table.TYPES, or "block8" to "block128"
    context: bool = False

    def prototype(self, prefix=""):
        arguments = ", ".join(declare(*argument) for argument in self.arguments) or "void"
        return f"{declare(self.result, prefix + self.name)}({arguments})"


def declare(kind, name):
    return f"{kind}{name}" if kind.endswith("*") else f"{kind} {name}".strip()


def split_arguments(text):
    """[("const float *", "source"), ("size_t", "nelems")] of "const float *source, size_t nelems"."""
    if text in ("", "void"):
        return []
    return [split_argument(part.strip()) for part in text.split(",")]


def split_argument(text):
    if text == "...":
        return ("...", "")
    kind, name = re.fullmatch(r"(.*?)(\w+)", text).groups()
    return (kind.strip(), name)


def parse(line):
    """A function of a prototype as the table has it."""
    marks = {}
    for mark in ("deprecated", "noreturn"):
        marks[mark] = line.startswith(mark + " ")
        line = line.removeprefix(mark + " ")
    head, arguments = re.fullmatch(r"(.*)\((.*)\)", line).groups()
    result, name = split_argument(head)
    return Function(name, result, split_arguments(arguments), **marks)


def of_type(operation, name, element, kind, context):
    """kind: what stands for T; `void` in forms that count blocks or bytes."""
    text = ("shmem_ctx_t ctx, " if context else "") + operation.arguments
    arguments = [(re.sub(r"\bT\b", kind, argument), what) for argument, what in split_arguments(text)]
    return Function(("shmem_ctx_" if context else "shmem_") + name, re.sub(r"\bT\b", kind, operation.result), arguments,
                    operation.deprecated, False, operation, element, context)


def forms(operation, context):
    """All functions of an operation, with or without a context."""
    found = [of_type(operation, operation.name.format(element), element, table.TYPES[element], context)
             for element in operation.types]
    bits = table.OLD_BITS if operation in table.OLD_COLLECTIVES else table.BITS
    if operation.blocks:
        found += [of_type(operation, operation.blocks.format(size), f"block{size}", "void", context) for size in bits]
    if operation.memory:
        found.append(of_type(operation, operation.memory, "block8", "void", context))
    return found


def families(section):
    """Lists of functions that a header shows together."""
    for operation in section.operations:
        yield forms(operation, False)
        if operation.context:
            yield forms(operation, True)
    if section.functions:
        yield [parse(line) for line in section.functions.splitlines()]


def all_functions():
    return [function for section in table.SECTIONS for family in families(section) for function in family]


def before_c11():
    return [parse(line) for line in table.BEFORE_C11.splitlines()]
