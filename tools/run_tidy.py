#!/usr/bin/env python3
"""Runs clang-tidy over the sources of src/, several at once, and remembers what was clean.

It reads what the compiler reads: one source, or a dozen that the build compiles together (decision 0041),
which takes little more time than one. What was clean is looked at again only when a source of it, a header
of ours that it reaches, its compile command or .clang-tidy has changed. Tests, fuzz targets and bench/ are
looked at with --all only: they are many and GoogleTest makes most slow.
"""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)


class Reach:
    """Which headers of ours a file reaches, by the include paths that the house allows."""

    def __init__(self, root):
        self.public = {}
        for directory in list(root.glob("src/*/include")) + list(root.glob("src/*/*/include")):
            for header in directory.rglob("*.h"):
                self.public[header.relative_to(directory).as_posix()] = header
        self.direct = {}

    def _direct(self, path):
        if path not in self.direct:
            found = set()
            for name in INCLUDE.findall(path.read_text(errors="replace")):
                for candidate in (path.parent / name, path.parent.parent / name, self.public.get(name)):
                    if candidate is not None and candidate.is_file():
                        found.add(candidate.resolve())
            self.direct[path] = found
        return self.direct[path]

    def all(self, path):
        reached, open_ends = {path}, [path]
        while open_ends:
            for header in self._direct(open_ends.pop()) - reached:
                reached.add(header)
                open_ends.append(header)
        return sorted(reached)


def key(root, reach, entry):
    """What the outcome for one entry of compile_commands.json depends on, hashed."""
    digest = hashlib.sha256((root / ".clang-tidy").read_bytes())
    digest.update(entry["command"].encode())
    for path in reach.all(pathlib.Path(entry["file"]).resolve()):
        digest.update(str(path).encode() + path.read_bytes())
    return digest.hexdigest()


def sources(entry):
    """The sources that this entry of compile_commands.json compiles: those together, or the one."""
    path = pathlib.Path(entry["file"])
    if path.parent.name != "Unity":
        return (path,)
    return tuple(pathlib.Path(name) for name in INCLUDE.findall(path.read_text()))


def wanted_source(root, path, everything):
    """Whether clang-tidy looks at this file: ours, not generated, and no test unless asked."""
    if not path.is_relative_to(root) or path.is_relative_to(root / "build"):
        return False
    parts = path.relative_to(root).parts
    return everything or (parts[0] == "src" and not {"tests", "fuzz"} & set(parts))


def wanted(root, commands, everything):
    """The entries to look at, by their wanted sources; what two targets compile alike is looked at once."""
    chosen = {}
    for entry in commands:
        ours = tuple(path for path in sources(entry) if wanted_source(root, path, everything))
        if ours:
            chosen[ours] = entry
    return chosen


def tidy(program, commands, entry):
    result = subprocess.run(
        [program, "--quiet", "-p", commands, entry["file"]],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True,
    )
    return result.returncode, result.stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--jobs", required=True, type=int)
    parser.add_argument("--all", action="store_true", help="tests, fuzz targets and bench/ too")
    args = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parent.parent

    program = shutil.which("clang-tidy-16") or "clang-tidy"
    clean = args.build / "tidy"
    clean.mkdir(exist_ok=True)
    # Without warning options: those are g++'s to judge, which builds this.
    commands = re.sub(r" -W[\w-]+", "", (args.build / "compile_commands.json").read_text())
    (clean / "compile_commands.json").write_text(commands)
    commands = json.loads(commands)
    chosen = wanted(root, commands, args.all)
    reach = Reach(root)
    todo = [(e, clean / key(root, reach, e)) for e in chosen.values()]
    todo = [(e, stamp) for e, stamp in todo if not stamp.exists()]
    started = time.monotonic()
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for (_, stamp), (rc, output) in zip(todo, pool.map(lambda t: tidy(program, clean, t[0]), todo)):
            if rc == 0:
                stamp.touch()
            else:
                failed += 1
                print(output.strip().replace(f"{root}/", ""))
    files = len({path for ours in chosen for path in ours})
    print(
        f"clang-tidy: {files} files, {len(todo)} of {len(chosen)} translation units read "
        f"in {time.monotonic() - started:.0f} s, {failed} with faults"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
