#!/usr/bin/env python3
"""Compiles programs against the headers: host functions by plain compilers of C and C++, kernels by nvcc with and without
relocatable device code. Ends with 77 where there is no CUDA to compile with.

The programs that call every function of the host are compiled, too; --every compiles those that call every device
function with every type: minutes.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

SKIPPED = 77
EVERY = ["memory", "words", "collectives", "reduces", "reducescatters"]
HOST_PROGRAMS = ["every_host_main.cc", "other_host_functions.cc", "misuse_host.cc"]
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
EXAMPLE = ROOT / "examples" / "nvshmem_ring.cu"
FILE_EXAMPLE = ROOT / "examples" / "file_to_peer.cu"


def name_of_state():
    """By which the library looks for the state in modules (units.cc)."""
    version = re.search(r"kSymmVersion = (\d+)", (ROOT / "src/symm/include/penstock_device/symm/state.h").read_text())
    name = re.search(r'"(_Z19penstock_symm_state[^"]*)"', (HERE.parent / "units.cc").read_text())
    return name.group(1).replace("{}", version.group(1)).encode()


def has_state(kernels, directory, rdc):
    cubin = pathlib.Path(directory) / "state.cubin"
    command = [*kernels, "-std=c++14", "-arch=sm_80", f"-rdc={rdc}", "-cubin", EXAMPLE, "-o", cubin]
    subprocess.run([str(word) for word in command], check=True)
    return name_of_state() + b"\0" in cubin.read_bytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nvcc", default="")
    parser.add_argument("--cuda-include", default="")
    parser.add_argument("--cc", required=True)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--made", required=True, type=pathlib.Path, help="where generate.py has written")
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--every", action="store_true")
    arguments = parser.parse_args()
    if not arguments.nvcc or not arguments.cuda_include:
        print("NVSHMEM's headers were not compiled: there is no CUDA here")
        return SKIPPED
    made = arguments.made
    includes = [f"-I{path}" for path in [made / "include", HERE, *arguments.include]]
    host = ["-Wall", "-Wextra", "-Werror", f"-isystem{arguments.cuda_include}", *includes, "-c"]
    kernels = [arguments.nvcc, "-ccbin", arguments.cxx, "-Werror", "all-warnings", "-Xcompiler=-Wall", *includes]
    calls = [
        [arguments.cc, "-std=c11", "-pedantic", *host, made / "every_host_function.c"],
        [arguments.cxx, "-std=c++14", *host, made / "every_host_function.cc"],
        [*kernels, "-std=c++14", "-arch=sm_80", "-c", EXAMPLE],
        [*kernels, "-std=c++17", "-arch=sm_90", "-rdc=true", "-c", EXAMPLE],
        [*kernels, "-std=c++17", "-arch=sm_90", "-c", HERE / "foreign_program.cu"],
        [arguments.cc, "-std=c99", "-pedantic", *host, HERE / "foreign_names.c"],
        [arguments.cxx, "-std=c++11", *host, "-x", "c++", HERE / "foreign_names.c"],
        [*kernels, "-std=c++14", "-arch=sm_90", "-x", "cu", "-c", HERE / "foreign_names.c"],
        [*kernels, "-std=c++17", "-arch=sm_90", "-x", "cu", "-rdc=true", "-c", HERE / "foreign_names.c"],
        [*kernels, "-std=c++20", "-arch=sm_90", f"-I{ROOT}/src/ring/include", f"-I{ROOT}/src/api/include", "-c", FILE_EXAMPLE],
        [*kernels, "-std=c++17", "-arch=sm_90", "-ptx", made / "every_words.cu"],
    ]
    trials = [made / f"every_host_{part}.cc" for part in EVERY] + [HERE / name for name in HOST_PROGRAMS]
    calls += [[arguments.cxx, "-std=c++17", *host, "-fsyntax-only", program] for program in trials]
    if arguments.every:
        calls += [[*kernels, "-std=c++17", "-arch=sm_90", f"-rdc={rdc}", "-c", made / f"every_{part}.cu"]
                  for part in EVERY for rdc in ("false", "true")]
    failed = 0
    with tempfile.TemporaryDirectory() as directory:
        for call in calls:
            command = [str(word) for word in call] + ["-o", directory + "/out"]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                print(" ".join(command), result.stdout, result.stderr, sep="\n")
                failed += 1
        for rdc in ("false", "true"):
            if not has_state(kernels, directory, rdc):
                print(f"-rdc={rdc}: the library will not find {name_of_state().decode()} in modules")
                failed += 1
    print(f"{len(calls)} compiled, {failed} with errors")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
