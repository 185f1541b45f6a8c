#!/usr/bin/env python3
"""Rules on the text of the code that no compiler knows.

- Size: a file of more than 1,000 lines fails, one of more than 500 is worth a thought.
- Unfinished work is an issue, not a comment: no TODO, FIXME, XXX or HACK in src/.
- The seams: the libraries of the deterministic core see time, randomness, disks and sockets only
  through engine, so that a whole node can run in one thread from one seed. Their tests and benchmarks are
  free. Those whose threads are fibers in a simulation use engine's threads, locks and conditions: a standard
  one that is held over a switch of fibers stops the simulation.
- Placement and the like must give the same answer everywhere: nothing under src/ uses library
  functions whose results differ between standard libraries.
- Every library has a README.md.

Prints one `file:line: message` for each fault; `warning:` lines do not fail.
"""

import pathlib
import re
import sys

from cxx_source import code_files, line_of, read_layers, without_comments

LINES_MAX = 1000
LINES_WARN = 500

BANNED_WORDS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")

# The libraries that must run unchanged, in one thread, over the simulated seams.
CORE = ("ring", "wire", "net", "store", "chunks", "chain", "meta", "meta_text", "inodes", "shards", "client")

# Of these, the ones whose threads are fibers in a simulation.
THREADED = ("arena", "net", "store", "chunks", "chain", "meta", "meta_text", "inodes", "shards", "client", "node_cache", "serving", "sessions")

# System calls that no class of ours would name a method after: any call that no object stands before.
_DECLARED = r"(?<![\w>&*]\s)(?<![\w>&*~.:])"


def _calls(names):
    """A pattern for calls of the system's own functions; a declaration follows a type, a call does not."""
    plain = rf"(?:(?:(?<=\breturn)|(?<=\belse)|(?<=\bdo))\s+|{_DECLARED})(?:std::)?(?:{names})\s*\("
    return re.compile(rf"{plain}|{_GLOBAL.format(names=names)}")


# Names that methods of ours bear too (open, rename): only the global one, `::open(`, is the system's.
_GLOBAL = r"(?<![\w>])::\s*(?:{names})\s*\("


def _global_calls(names):
    return re.compile(_GLOBAL.format(names=names))


SEAMS = [
    (_calls("clock_gettime|gettimeofday|timespec_get"), "engine::Clock"),
    (_global_calls("time"), "engine::Clock"),
    (re.compile(r"\bstd::time\s*\("), "engine::Clock"),
    (re.compile(r"\b(?:steady|system|high_resolution|utc|file)_clock\b"), "engine::Clock"),
    (re.compile(r"\bsleep_(?:for|until)\b"), "engine::Clock"),
    (_calls("sleep|usleep|nanosleep|clock_nanosleep"), "engine::Clock"),
    (_calls("s?rand|rand_r|[dlmj]rand48|getrandom|getentropy|arc4random"), "engine::Random"),
    (re.compile(r"\b(?:random_device|mt19937(?:_64)?|default_random_engine)\b"), "engine::Random"),
    (
        _calls("pread|pwrite|preadv2?|pwritev2?|fdatasync|sync_file_range|fallocate|posix_fallocate"),
        "engine::Disk",
    ),
    (
        _global_calls(
            "open|openat|creat|read|write|fsync|ftruncate|truncate|rename|renameat2?|unlink|unlinkat|mkdir"
        ),
        "engine::Disk",
    ),
    (re.compile(r"\b[io]?fstream\b|\bfopen\s*\("), "engine::Disk"),
    (re.compile(r"\bstd::filesystem\b"), "engine::Disk"),
    (_calls("accept4|recvmsg|recvfrom|sendmsg|sendto|epoll_wait"), "engine::Net"),
    (_global_calls("accept|connect|recv|send|poll"), "engine::Net"),
]

THREADS = re.compile(
    r"\bstd::(?:(?:recursive_|timed_|shared_|shared_timed_)?mutex|condition_variable(?:_any)?|j?thread|"
    r"this_thread|future|promise|async|call_once|once_flag|latch|barrier|\w+_semaphore)\b|\bpthread_\w+"
)

UNSTABLE = [
    (re.compile(r"\b(?:std::)?(?:ranges::)?shuffle\s*\("), "std::shuffle"),
    (re.compile(r"\b\w+_distribution\b"), "a std distribution"),
]


def check_text(name, text, core, threaded=False):
    """Faults and warnings in one file's text, as (line, message, is_warning).

    `name` is its path from the root; `core` says that the seams rule holds for it, and `threaded` that the
    rule for threads does.
    """
    found = []
    lines = text.count("\n")
    if lines > LINES_MAX:
        found.append((lines, f"{lines} lines; above {LINES_MAX} a file must be split", False))
    elif lines > LINES_WARN:
        found.append((lines, f"{lines} lines; above {LINES_WARN} think of splitting it", True))
    in_src = name.startswith("src/")
    if in_src:
        for match in BANNED_WORDS.finditer(text):
            found.append((line_of(text, match.start()), f"'{match[1]}': file an issue instead", False))
    code = without_comments(text)
    if core:
        for pattern, seam in SEAMS:
            for match in pattern.finditer(code):
                what = match[0].rstrip("( ").strip()
                found.append((line_of(code, match.start()), f"'{what}' goes around {seam}", False))
    if threaded:
        for match in THREADS.finditer(code):
            found.append(
                (line_of(code, match.start()), f"'{match[0]}' goes around engine::Threads", False)
            )
    if in_src:
        for pattern, what in UNSTABLE:
            for match in pattern.finditer(code):
                found.append(
                    (line_of(code, match.start()), f"{what} differs between standard libraries", False)
                )
    return sorted(found)


def is_in(name, libraries):
    """Whether the file of that path is main code of one of these libraries: no program around it."""
    parts = pathlib.PurePosixPath(name).parts
    return parts[0] == "src" and parts[1] in libraries and not {"tests", "bench", "fuzz"} & set(parts)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    failed = False
    for path in code_files(root, "src", "tests", "bench", "examples"):
        name = path.relative_to(root).as_posix()
        text = path.read_text(errors="replace")
        for line, message, is_warning in check_text(name, text, is_in(name, CORE), is_in(name, THREADED)):
            print(f"{name}:{line}: {'warning: ' if is_warning else ''}{message}")
            failed = failed or not is_warning
    for name in read_layers(root):
        if not (root / "src" / name / "README.md").is_file():
            print(f"src/{name}/README.md:1: missing: purpose, who owns what, which thread may call")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
