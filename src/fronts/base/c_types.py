"""Types and sets of types that functions with a type in their name have, in the fronts that have such functions.

Names and sets are those of the OpenSHMEM specification, which NVSHMEM follows.
"""

# Name in a function's name: the type in C.
INTEGERS = {
    "char": "char",
    "schar": "signed char",
    "short": "short",
    "int": "int",
    "long": "long",
    "longlong": "long long",
    "uchar": "unsigned char",
    "ushort": "unsigned short",
    "uint": "unsigned int",
    "ulong": "unsigned long",
    "ulonglong": "unsigned long long",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "size": "size_t",
    "ptrdiff": "ptrdiff_t",
}

# What the types of <stdint.h> and <stddef.h> are where a long has 64 bits.
SAME_AS = {
    "int8": "schar",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "uint8": "uchar",
    "uint16": "ushort",
    "uint32": "uint",
    "uint64": "ulong",
    "size": "ulong",
    "ptrdiff": "long",
}

AMO = ["int", "long", "longlong", "uint", "ulong", "ulonglong", "int32", "int64", "uint32", "uint64", "size", "ptrdiff"]
EXTENDED_AMO = ["float", "double"] + AMO
BITWISE_AMO = ["uint", "ulong", "ulonglong", "int32", "int64", "uint32", "uint64"]
SYNC = ["short", "int", "long", "longlong", "ushort", "uint", "ulong", "ulonglong", "int32", "int64", "uint32",
        "uint64", "size", "ptrdiff"]
BITWISE_REDUCE = ["uchar", "ushort", "uint", "ulong", "ulonglong", "int8", "int16", "int32", "int64", "uint8",
                  "uint16", "uint32", "uint64", "size"]

BITS = [8, 16, 32, 64, 128]
