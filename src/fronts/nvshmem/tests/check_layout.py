#!/usr/bin/env python3
"""Builds programs as their own build lines do, against an NVSHMEM_HOME, and runs them without a library path: what
libnvshmem.a finds, and what it says when it finds nothing. What needs CUDA is left out where there is none."""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
LIBRARY = "libnvshmem_host.so"
NOT_FOUND = 127  # of a shell and of the loader, too


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def that(self, what, holds, shown=""):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED: {what}\n{shown}")


def run(command, cwd=None, **variables):
    """Without what this process has of the variables that matter."""
    ours = ("NVSHMEM_", "PENSTOCK_", "LD_LIBRARY_PATH")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment.update({name: str(value) for name, value in variables.items()})
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, cwd=cwd,
                          env=environment)


def build(command):
    result = run(command)
    if result.returncode != 0:
        sys.exit(f"{' '.join(str(word) for word in command)}\n{result.stdout}{result.stderr}")


def stand_in(arguments, directory, where, *options):
    directory.mkdir(parents=True, exist_ok=True)
    build([arguments.cc, "-shared", "-fPIC", f'-DWHERE="{where}"', *options, HERE / "layout" / "stand_in.c",
           "-o", directory / LIBRARY])


def check_finding(arguments, checks, scratch):
    """What libnvshmem.a does, with libraries that stand in for the real one."""
    program = scratch / "program" / "calls"
    program.parent.mkdir()
    beside = scratch / "beside"
    archive = scratch / "archive" / "libnvshmem.a"
    build([sys.executable, "-B", HERE.parent / "trampoline" / "install_trampoline.py", arguments.archive, archive,
           "--beside", beside])
    build([arguments.cc, "-Wall", "-Wextra", "-Werror", HERE / "layout" / "calls.c", f"-L{archive.parent}", "-lnvshmem",
           "-o", program])

    nothing = run([program, "nothing"])
    checks.that("a program that calls nothing needs no library", nothing.returncode == 0, nothing.stderr)
    lost = run([program])
    checks.that("a program without its library says so and ends", lost.returncode == NOT_FOUND and
                f"{LIBRARY}, which this program needs, is not there" in lost.stderr, lost.stderr)
    for said in ("NVSHMEM_HOME: is not set", str(beside), str(program.parent), "Set NVSHMEM_HOME"):
        checks.that(f"it says where it looked: {said}", said in lost.stderr, lost.stderr)

    # From the last to be asked to the first.
    places = {
        "loader": (scratch / "loader", {"LD_LIBRARY_PATH": scratch / "loader"}),
        "above": (program.parent.parent / "lib", {}),
        "program": (program.parent, {}),
        "beside": (beside, {}),
        "launcher": (scratch / "launcher" / "lib", {"PENSTOCK_HOME": scratch / "launcher"}),
        "home": (scratch / "home" / "lib", {"NVSHMEM_HOME": scratch / "home"}),
    }
    variables = {}
    for where, (directory, more) in places.items():
        stand_in(arguments, directory, where)
        variables.update(more)
        found = run([program], **variables)
        checks.that(f"the library is found: {where}", (found.returncode, found.stdout) == (0, f"{where} 3\n"),
                    found.stdout + found.stderr)
    stand_in(arguments, scratch / "home" / "lib", "home", "-DNOT_PENSTOCKS")
    foreign = run([program], **variables)
    checks.that("another NVSHMEM's library is passed over", foreign.stdout == "launcher 3\n",
                foreign.stdout + foreign.stderr)
    missing = run([program, "missing"], **variables)
    checks.that("a function that the library does not have is told", missing.returncode == NOT_FOUND and
                "nvshmem_global_exit" in missing.stderr and "another version" in missing.stderr, missing.stderr)


def check_programs(arguments, checks, scratch):
    """Programs against the real library, built by one line each."""
    home = arguments.home
    compile_line = [arguments.cxx, HERE / "layout" / "pes.cc", f"-I{home}/include", f"-isystem{arguments.cuda_include}",
                    f"-L{home}/lib"]
    for name, libraries in (("pes", ["-lnvshmem"]), ("pes_host", [f"-Wl,-rpath,{home}/lib", "-lnvshmem_host"]),
                            ("pes_both", [f"-Wl,-rpath,{home}/lib", "-lnvshmem_host", "-lnvshmem_device"])):
        build([*compile_line, "-o", scratch / name, *libraries])
        alone = run([scratch / name])
        checks.that(f"{libraries}: a program alone", (alone.returncode, alone.stdout) == (0, "0 of 1\n"),
                    alone.stdout + alone.stderr)
    info = run([home / "bin" / "nvshmem-info"])
    checks.that("nvshmem-info", info.returncode == 0 and "NVSHMEM 3.4" in info.stdout and
                "NVSHMEM_SYMMETRIC_SIZE" in info.stdout, info.stdout + info.stderr)
    opened = run([sys.executable, "-c", "import ctypes; library = ctypes.CDLL('libnvshmem_host.so.3'); "
                  "library.nvshmem_init(); print(library.nvshmem_n_pes()); library.nvshmem_finalize()"],
                 LD_LIBRARY_PATH=home / "lib")
    checks.that("the library is opened by the name of NVSHMEM 3's", (opened.returncode, opened.stdout) == (0, "1\n"),
                opened.stdout + opened.stderr)
    together = run([home / "bin" / "nvshmrun", "-np", 2, scratch / "pes"], PATH=f"{home}/bin:{os.environ['PATH']}")
    checks.that("two PEs by nvshmrun", sorted(together.stdout.splitlines()) == ["0 of 2", "1 of 2"],
                together.stdout + together.stderr)


def check_package(arguments, checks, scratch):
    """find_package(NVSHMEM)."""
    project = scratch / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(textwrap.dedent(f"""\
        cmake_minimum_required(VERSION 3.20)
        project(uses_nvshmem LANGUAGES CXX)
        find_package(NVSHMEM 3.4 REQUIRED)
        if("${{NVSHMEM_VERSION}}" VERSION_LESS 3.4)
          message(FATAL_ERROR "it is version ${{NVSHMEM_VERSION}}")
        endif()
        find_package(NVSHMEM 4 QUIET)
        if(NVSHMEM_FOUND)
          message(FATAL_ERROR "it is no version 4")
        endif()
        foreach(library nvshmem nvshmem_host nvshmem_device)
          add_executable(with_${{library}} {HERE}/layout/pes.cc)
          target_include_directories(with_${{library}} SYSTEM PRIVATE {arguments.cuda_include})
          target_link_libraries(with_${{library}} PRIVATE nvshmem::${{library}})
        endforeach()
        target_link_libraries(with_nvshmem_device PRIVATE nvshmem::nvshmem_host)
        add_executable(with_variables {HERE}/layout/pes.cc)
        target_include_directories(with_variables PRIVATE ${{NVSHMEM_INCLUDE_DIRS}})
        target_include_directories(with_variables SYSTEM PRIVATE {arguments.cuda_include})
        target_link_libraries(with_variables PRIVATE ${{NVSHMEM_LIBRARIES}})
        """))
    configured = run([arguments.cmake, "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={arguments.home}",
                      f"-DCMAKE_CXX_COMPILER={arguments.cxx}"])
    built = run([arguments.cmake, "--build", project / "build"])
    checks.that("a CMake project is built", configured.returncode == 0 and built.returncode == 0,
                configured.stderr + built.stdout + built.stderr)
    for library in ("nvshmem", "nvshmem_host", "nvshmem_device", "variables"):
        program = project / "build" / f"with_{library}"
        answer = run([program]) if program.exists() else None
        checks.that(f"and runs: {library}", answer is not None and answer.stdout == "0 of 1\n",
                    answer.stderr if answer else "")


def check_kernels(arguments, checks, scratch):
    """The usual first program, by the usual line. Without a GPU it starts and says so."""
    home = arguments.home
    example = ROOT / "examples" / "nvshmem_ring.cu"
    stubs = pathlib.Path(arguments.cuda_include).parent / "lib64" / "stubs"
    line = [arguments.nvcc, "-ccbin", arguments.cxx, "-x", "cu", "-arch=sm_90", f"-I{home}/include", f"-L{home}/lib",
            f"-L{stubs}", example]
    for name, options in (("ring", ["-rdc=true", "-lnvshmem", "-lcuda"]), ("ring_whole", ["-lnvshmem", "-lcuda"]),
                          ("ring_both", ["-rdc=true", "-lnvshmem_host", "-lnvshmem_device", "-lcuda"])):
        linked = run([*line, "-o", scratch / name, *options])
        checks.that(f"nvcc {options}", linked.returncode == 0, linked.stdout + linked.stderr)
    started = run([scratch / "ring"])
    checks.that("the first program starts without a library path", started.returncode != NOT_FOUND and
                ("received message 0" in started.stdout or "cudaGetDeviceCount" in started.stderr),
                started.stdout + started.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", required=True, type=pathlib.Path)
    parser.add_argument("--archive", required=True, type=pathlib.Path)
    parser.add_argument("--cc", required=True)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--cmake", required=True)
    parser.add_argument("--nvcc", default="")
    parser.add_argument("--cuda-include", default="")
    parser.add_argument("--sanitized", default="", help="by what the library is: plain programs cannot load it")
    arguments = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory() as directory:
        scratch = pathlib.Path(directory)
        check_finding(arguments, checks, scratch)
        if arguments.sanitized:
            print("libnvshmem_host.so was not tried: it is built with sanitizers")
        elif arguments.cuda_include:
            check_programs(arguments, checks, scratch)
            check_package(arguments, checks, scratch)
            check_kernels(arguments, checks, scratch)
        else:
            print("libnvshmem_host.so and programs with kernels were not tried: there is no CUDA here")
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
