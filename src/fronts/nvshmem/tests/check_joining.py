#!/usr/bin/env python3
"""Jobs that no launcher of Penstock's has made: by a unique id, by an MPI communicator, by an OpenSHMEM. Ends with 77
where there is no CUDA, without whose headers no program for NVSHMEM is built."""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from check_layout import HERE, Checks, build, run

SKIPPED = 77
MPI_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def expected(*sizes):
    return sorted(f"{rank} of {size}: 0 wrong" for size in sizes for rank in range(size))


def line(arguments, compiler, name, scratch):
    return [compiler, HERE / "layout" / f"{name}.c", f"-I{arguments.home}/include", f"-isystem{arguments.cuda_include}",
            f"-L{arguments.home}/lib", "-lnvshmem", "-o", scratch / name]


def check_id(arguments, checks, scratch):
    build(line(arguments, arguments.cc, "by_id", scratch))
    pes = [subprocess.Popen([scratch / "by_id", str(rank), "3", scratch / "id"], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True) for rank in (1, 2, 0)]
    said = [pe.communicate() for pe in pes]
    checks.that("three PEs by a unique id", sorted(out.strip() for out, _ in said) == expected(3), str(said))


def check_mpi(arguments, checks, scratch):
    compiler, launcher = shutil.which("mpicc"), shutil.which("mpirun")
    if not compiler or not launcher:
        print("no job was made by MPI: there is no mpicc here")
        return
    build(line(arguments, compiler, "by_mpi", scratch))
    early = run([scratch / "by_mpi", "early"])
    checks.that("before MPI_Init() it is refused, and told", early.returncode == 0 and
                "MPI_Init() was not called before" in early.stderr, early.stdout + early.stderr)
    oversubscribe = ["--oversubscribe"] if "Open MPI" in run([launcher, "--version"]).stdout else []
    parts = run([launcher, *oversubscribe, "-n", 5, scratch / "by_mpi"], **MPI_ROOT)
    checks.that("two parts of five ranks of MPI", parts.returncode == 0 and
                sorted(parts.stdout.splitlines()) == expected(3, 2), parts.stdout + parts.stderr)


def check_shmem(arguments, checks, scratch):
    bin_directory = arguments.home / "bin"
    build(line(arguments, bin_directory / "oshcc", "by_shmem", scratch))
    pes = run([bin_directory / "oshrun", "-n", 3, scratch / "by_shmem"], PATH=f"{bin_directory}:{os.environ['PATH']}")
    checks.that("three PEs of OpenSHMEM", pes.returncode == 0 and sorted(pes.stdout.splitlines()) == expected(3),
                pes.stdout + pes.stderr)
    alone = run([scratch / "by_shmem"])
    checks.that("one PE of OpenSHMEM", alone.returncode == 0 and alone.stdout.splitlines() == expected(1),
                alone.stdout + alone.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", required=True, type=pathlib.Path)
    parser.add_argument("--cc", required=True)
    parser.add_argument("--cuda-include", default="")
    parser.add_argument("--sanitized", default="", help="by what the library is: plain programs cannot load it")
    arguments = parser.parse_args()
    if not arguments.cuda_include or arguments.sanitized:
        print("no job was made: there is no CUDA here" if not arguments.cuda_include else
              "no job was made: libnvshmem_host.so is built with sanitizers")
        return SKIPPED
    checks = Checks()
    with tempfile.TemporaryDirectory() as directory:
        for check in (check_id, check_mpi, check_shmem):
            check(arguments, checks, pathlib.Path(directory))
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
