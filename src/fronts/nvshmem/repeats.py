"""Macros of nvshmem_host.h that repeat a macro of the program for each type of a list: NVSHMEMI_REPT_FOR_... Their lists
are those of table.py; names, and the order of what they pass, are NVSHMEM's."""

import c_types
import table

# In C, which has no such type, nothing stands for half and bfloat16.
BEGIN = """\
/* Each repeats a macro of the program for each type of a list, with the type's name in functions' names and the type
 * itself; _WITH_SCOPE and _WITH_SCOPE2 pass on, before these, what they are given. In C without half and bfloat16. */
#ifdef __cplusplus
#define PENSTOCK_NVSHMEM_IN_CXX(...) __VA_ARGS__
#else
#define PENSTOCK_NVSHMEM_IN_CXX(...)
#endif
"""
MACRO = "PENSTOCK_MACRO"
SCOPE2 = ["SCOPE", "SUFFIX", "PREFIX"]
SCOPES2 = ["thread, , ", "warp, _warp, x", "block, _block, x"]


def rest_of(names, without):
    return [name for name in names if name not in without]


def macro(name, parameters, lines):
    return f"#define {name}({', '.join(parameters)}) \\\n" + " \\\n".join(f"  {line}" for line in lines) + "\n"


def for_type(called, name, before=(), after=()):
    call = f"{called}({', '.join([*before, name, table.TYPES[name], *after])})"
    return f"PENSTOCK_NVSHMEM_IN_CXX({call})" if name in table.ONLY_CXX else call


def for_types(name, types, before=(), after=()):
    lines = [for_type(MACRO, one, before, after) for one in types]
    return macro("NVSHMEMI_REPT_FOR_" + name, [MACRO, *before, *after], lines)


def sizes():
    yield macro("NVSHMEMI_REPT_FOR_SIZES", [MACRO], [f"{MACRO}({bits})" for bits in c_types.BITS])
    kinds = {bits: "int4" if bits == 128 else f"int{bits}_t" for bits in c_types.BITS}
    yield macro("NVSHMEMI_REPT_FOR_SIZES_WITH_TYPE", [MACRO], [f"{MACRO}({bits}, {kind})" for bits, kind in kinds.items()])
    yield macro("NVSHMEMI_REPT_FOR_SIZES_WITH_SCOPE2", [MACRO, *SCOPE2],
                [f"{MACRO}({', '.join(SCOPE2)}, {bits})" for bits in c_types.BITS])


def reductions():
    """By operation: each names the list of types that it has."""
    lists = {"BITWISE_REDUCE": "BITWISE_REDUCE", "STANDARD_REDUCE": "ORDERED_REDUCE", "ARITH_REDUCE": "ORDERED_REDUCE"}
    for name, types in lists.items():
        for end, before in (("", []), ("_WITH_SCOPE", ["SCOPE"]), ("_WITH_SCOPE2", SCOPE2)):
            yield for_types(f"{name}_TYPES{end}", table.SETS[types], before, ["OPERATION"])
    of_set = {"BITWISE_REDUCE": "BITWISE_REDUCE", "ORDERED_REDUCE": "STANDARD_REDUCE"}
    for end, before in (("", []), ("_WITH_SCOPE2", SCOPE2)):
        yield macro(f"NVSHMEMI_REPT_TYPES_AND_OPS_FOR_REDUCE{end}", [MACRO, *before],
                    [f"NVSHMEMI_REPT_FOR_{of_set[types]}_TYPES{end}({', '.join([MACRO, *before, operation])})"
                     for operation, types in table.REDUCTIONS.items()])
    yield macro("NVSHMEMI_REPT_TYPES_AND_OPS_AND_SCOPES2_FOR_REDUCE", [MACRO],
                [f"NVSHMEMI_REPT_TYPES_AND_OPS_FOR_REDUCE_WITH_SCOPE2({MACRO}, {scope})" for scope in SCOPES2])


def atomics():
    """These call NVSHMEMI_DECL_TYPE_GROUP, a macro of the program. No type is in two of the lists."""
    lists = {"BITWISE": table.SETS["BITWISE_AMO"],
             "STANDARD": rest_of(table.SETS["AMO"], table.SETS["BITWISE_AMO"]),
             "EXTENDED": rest_of(table.SETS["EXTENDED_AMO"], table.SETS["AMO"])}
    for name, types in lists.items():
        yield macro(f"NVSHMEMI_REPT_OPGROUP_FOR_{name}_AMO", ["GROUP", "OPERATION"],
                    [for_type("NVSHMEMI_DECL_TYPE_##GROUP", one, after=["OPERATION"]) for one in types])


def all_macros():
    yield for_types("STANDARD_RMA_TYPES", table.SETS["RMA"])
    yield for_types("STANDARD_RMA_TYPES_WITH_SCOPE", table.SETS["RMA"], ["SCOPE"])
    yield for_types("STANDARD_RMA_TYPES_WITH_SCOPE2", table.SETS["RMA"], SCOPE2)
    yield macro("NVSHMEMI_REPT_FOR_STANDARD_RMA_TYPES_AND_SCOPES2", [MACRO],
                [f"NVSHMEMI_REPT_FOR_STANDARD_RMA_TYPES_WITH_SCOPE2({MACRO}, {scope})" for scope in SCOPES2])
    yield from sizes()
    yield for_types("WAIT_TYPES", table.SETS["SYNC"])
    yield from reductions()
    yield from atomics()


def text():
    return BEGIN + "\n" + "\n".join(all_macros())
