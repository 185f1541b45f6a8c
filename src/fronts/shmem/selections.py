"""Names without a type: selections for C11, overloads for C++."""

import re

import functions
import headers
import table

GENERIC_TOP = """\
/* Names without a type, for C11: shmem_put() is shmem_int_put() where dest is an int *. Included by shmem.h.
 *
 * {generated} */
#ifndef SHMEM_GENERIC_H
#define SHMEM_GENERIC_H

/* The first argument, and the second, or 0. */
#define SHMEM_FIRST_OF_(first, ...) first
#define SHMEM_FIRST_(...) SHMEM_FIRST_OF_(__VA_ARGS__, 0)
#define SHMEM_SECOND_OF_(first, second, ...) second
#define SHMEM_SECOND_(...) SHMEM_SECOND_OF_(__VA_ARGS__, 0, 0)

/* What is called where the second argument has a type that there is no operation for: the compiler names it. */
extern void shmem_has_no_operation_of_this_type(void);
"""


def pasted_list(name, types, qualifiers):
    """A macro that gives the associations of a set of types."""
    lines = [f"  {qualifier}{table.TYPES[kind]} * : before##{kind}##after" for qualifier in qualifiers for kind in types]
    return f"#define {name}(before, after) \\\n" + ", \\\n".join(lines)


def association(operation):
    """The macro of an operation's types, as its deciding argument may be qualified."""
    deciding, _ = functions.split_arguments(operation.arguments)[operation.decided_by]
    if deciding.startswith("const"):
        return f"SHMEM_CONST_{operation.types_name}_"
    if deciding.startswith("volatile"):
        return f"SHMEM_VOLATILE_{operation.types_name}_"
    return f"SHMEM_{operation.types_name}_"


def lists():
    used = sorted({association(operation) for operation in headers.generic_operations()})
    text = []
    for name in used:
        qualifiers = [""]
        short = name.removeprefix("SHMEM_").removesuffix("_")
        for mark, qualifier in (("CONST_", "const "), ("VOLATILE_", "volatile ")):
            if short.startswith(mark):
                qualifiers = ["", qualifier]
                short = short.removeprefix(mark)
        text.append(pasted_list(name, headers.distinct(table.SETS[short]), qualifiers))
    return "\n\n".join(text)


def selection(operation):
    before, after = operation.name.split("{}")
    types = association(operation)
    name = "shmem_" + operation.generic
    if operation.decided_by == 1:
        return (f"#define {name}(...) \\\n"
                f"  _Generic(SHMEM_SECOND_(__VA_ARGS__), {types}(shmem_{before}, {after}))(__VA_ARGS__)")
    if not operation.context:
        return (f"#define {name}(...) \\\n"
                f"  _Generic(SHMEM_FIRST_(__VA_ARGS__), {types}(shmem_{before}, {after}))(__VA_ARGS__)")
    return (f"#define {name}(...) \\\n"
            f"  _Generic(SHMEM_FIRST_(__VA_ARGS__), {types}(shmem_{before}, {after}), \\\n"
            f"    shmem_ctx_t: _Generic(SHMEM_SECOND_(__VA_ARGS__), {types}(shmem_ctx_{before}, {after}), \\\n"
            f"      default: shmem_has_no_operation_of_this_type))(__VA_ARGS__)")


# Functions that have forms with and without a context under one name: shmem_signal_set().
WITH_CONTEXT = ["signal_set", "signal_add"]


def generic_h():
    contexts = "\n".join(
        f"#define shmem_{name}(...) \\\n  _Generic(SHMEM_FIRST_(__VA_ARGS__), shmem_ctx_t: shmem_ctx_{name}, "
        f"default: shmem_{name})(__VA_ARGS__)" for name in WITH_CONTEXT)
    selections = "\n\n".join(selection(operation) for operation in headers.generic_operations())
    return f"""\
{GENERIC_TOP.format(generated=headers.GENERATED)}
/* Types, each with the function for it. Second names of a type (int32_t) are left out: it is there. */

{lists()}

{selections}

/* With a team, or with an active set. */
#define shmem_sync(...) \\
  _Generic(SHMEM_FIRST_(__VA_ARGS__), shmem_team_t: shmem_team_sync, default: shmem_sync)(__VA_ARGS__)

/* With a context, or without. */
{contexts}

#endif /* SHMEM_GENERIC_H */
"""


def overload(operation):
    """A macro that defines an operation's overloads for one type, and its use for all types."""
    arguments = functions.split_arguments(operation.arguments)
    names = ", ".join(what for _, what in arguments)
    before, after = operation.name.split("{}")
    macro = f"SHMEM_{operation.generic.upper()}_"

    def parameters(context):
        text = ", ".join(functions.declare(re.sub(r"\bT\b", "type", kind), what) for kind, what in arguments)
        return ("shmem_ctx_t ctx, " if context else "") + text

    def definition(context):
        result = re.sub(r"\bT\b", "type", operation.result)
        back = "" if result == "void" else "return "
        called = f"shmem_{'ctx_' if context else ''}{before}##name##{after}"
        return [f"  inline {result} shmem_{operation.generic}({parameters(context)}) {{ \\",
                f"    {back}{called}({'ctx, ' if context else ''}{names}); \\",
                "  }"]

    lines = definition(False)
    if operation.context:
        lines[-1] += " \\"
        lines += definition(True)
    return (f"#define {macro}(name, type) \\\n" + "\n".join(lines) +
            f"\nSHMEM_FOR_{operation.types_name}_({macro})\n#undef {macro}\n")


# What C calls double _Complex, which compilers have in C++, too. Programs use it there with their own <complex.h>.
C_COMPLEX = """\
/* The complex types of C, of the same layout: programs that are C and C++ use them in both. */
#ifdef __GNUC__
__extension__ typedef __complex__ double shmem_c_complexd_t;
__extension__ typedef __complex__ float shmem_c_complexf_t;
"""


def for_c_complex(function):
    """An overload of a function with complex numbers, for those of C."""
    def kind_in_c(kind):
        return kind.replace("shmem_complex", "shmem_c_complex")

    def passed(kind, name):
        return f"reinterpret_cast<{kind}>({name})" if "complex" in kind else name

    parameters = ", ".join(functions.declare(kind_in_c(kind), name) for kind, name in function.arguments)
    arguments = ", ".join(passed(kind, name) for kind, name in function.arguments)
    back = "" if function.result == "void" else "return "
    head = headers.wrapped(f"inline {function.result} {function.name}({parameters})", " {")
    lines = [head, headers.wrapped(f"  {back}{function.name}({arguments})", ";"), "}"]
    generic = function.operation.generic
    if generic:
        lines += [headers.wrapped(f"inline {function.result} shmem_{generic}({parameters})", " {"),
                  headers.wrapped(f"  {back}{function.name}({arguments})", ";"), "}"]
    return "\n".join(lines)


def c_complex():
    found = [function for function in functions.all_functions() if function.element in table.COMPLEX]
    return C_COMPLEX + "\n".join(for_c_complex(function) for function in found) + "\n#endif"


def overloads_h():
    operations = headers.generic_operations()
    used = sorted({operation.types_name for operation in operations})
    lists_of_types = "\n".join(
        f"#define SHMEM_FOR_{name}_(define) \\\n" + " \\\n".join(
            f"  define({kind}, {table.TYPES[kind]})" for kind in headers.distinct(table.SETS[name])) + "\n"
        for name in used)
    overloads = "\n".join(overload(operation) for operation in operations)
    undefined = "\n".join(f"#undef SHMEM_FOR_{name}_" for name in used)
    contexts = "\n".join(
        f"inline void shmem_{name}(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe) {{\n"
        f"  shmem_ctx_{name}(ctx, sig_addr, signal, pe);\n}}" for name in WITH_CONTEXT)
    return f"""\
/* Names without a type, for C++: shmem_put() is shmem_int_put() where dest is an int *. Included by shmem.h.
 *
 * {headers.GENERATED} */
#ifndef SHMEM_OVERLOADS_H
#define SHMEM_OVERLOADS_H

extern "C++" {{

/* Types. Second names of a type (int32_t) are left out: it is there. */

{lists_of_types}
{overloads}
inline int shmem_sync(shmem_team_t team) {{
  return shmem_team_sync(team);
}}
{contexts}

{c_complex()}

{undefined}

}} /* extern "C++" */

#endif /* SHMEM_OVERLOADS_H */
"""
