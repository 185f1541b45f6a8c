#!/usr/bin/env python3
"""Builds the chosen tests, runs them with ctest and prints `N passed, N failed, N skipped`.

A selector is a label (unit, sim, crash, posix, ring, fuzz, gpu) or a part of a test program's name; without
selectors everything runs. The counts are those of single GoogleTest tests, read from the reports that
penstock_test() makes every program write. A program that dies leaves no report and counts as one
failed test, so that nothing can fail unseen.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass

# What every sanitizer run wants; a value that the caller has set comes last and wins.
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1:check_initialization_order=1"
    f":suppressions='{pathlib.Path(__file__).resolve().parent}/asan.supp'",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "second_deadlock_stack=1",
}


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other):
        return Counts(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped
        )

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def count_report(report):
    """Counts the tests in one parsed GoogleTest JSON report."""
    counts = Counts()
    for suite in report.get("testsuites", []):
        for test in suite.get("testsuite", []):
            if test.get("failures"):
                counts.failed += 1
            elif test.get("result") == "SKIPPED" or test.get("status") == "NOTRUN":
                counts.skipped += 1
            else:
                counts.passed += 1
    return counts


def count_program(status, report):
    """Counts one test program from ctest's word ("run", "fail", "notrun", ...) and its report, or None.

    The two must agree: a program that ctest calls failed has at least one failed test, whatever it
    reported before it died.
    """
    if report is None:
        counts = Counts()
        if status == "run":
            counts.passed = 1
        elif status in ("disabled", "skipped"):
            counts.skipped = 1
    else:
        counts = count_report(report)
    if status not in ("run", "disabled", "skipped") and counts.failed == 0:
        counts.failed = 1
    return counts


def choose(tests, selectors):
    """The names of those tests (name -> labels) that a selector names: by label, else by name."""
    if not selectors:
        return list(tests), []
    chosen, unknown = set(), []
    for selector in selectors:
        found = {name for name, labels in tests.items() if selector in labels}
        if not found:
            found = {selector} & tests.keys()
        if not found:
            found = {name for name in tests if selector in name}
        if not found:
            unknown.append(selector)
        chosen |= found
    return [name for name in tests if name in chosen], unknown


def list_tests(build):
    """Test name -> labels, as the configured build directory has them."""
    listing = json.loads(
        subprocess.run(
            ["ctest", "--test-dir", build, "--show-only=json-v1"],
            check=True, stdout=subprocess.PIPE,
        ).stdout
    )
    tests = {}
    for test in listing["tests"]:
        labels = [p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"]
        tests[test["name"]] = labels[0] if labels else []
    return tests


def status_of(case):
    """ctest's word on one JUnit test case; a program that chose to be skipped is told from a missing one."""
    skipped = case.find("skipped")
    if skipped is not None and skipped.get("message", "").startswith("SKIP_"):
        return "skipped"
    return case.get("status")


def read_results(junit, reports, names):
    """Counts over all programs in ctest's JUnit file, and the names of those that failed."""
    total, failed, seen = Counts(), [], set()
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        name = case.get("name")
        seen.add(name)
        report_path = reports / f"{name}.json"
        try:
            report = json.loads(report_path.read_text())
        except (OSError, ValueError):
            report = None
        counts = count_program(status_of(case), report)
        if counts.failed:
            failed.append(name)
        total += counts
    for name in names:
        if name not in seen:
            failed.append(name)
            total.failed += 1
    return total, failed


def environment():
    env = dict(os.environ)
    for name, value in SANITIZER_OPTIONS.items():
        env[name] = ":".join(filter(None, [value, env.get(name)]))
    return env


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--jobs", required=True, type=int)
    parser.add_argument("--verbose", action="store_true", help="print the output of every test")
    parser.add_argument("selectors", nargs="*")
    args = parser.parse_args()

    tests = list_tests(args.build)
    names, unknown = choose(tests, args.selectors)
    if unknown:
        labels = sorted({label for each in tests.values() for label in each})
        sys.exit(
            f"test: no test or label matches {', '.join(unknown)}\n"
            f"labels: {' '.join(labels)}\ntests: {' '.join(tests)}"
        )
    # penstock_test() names the target like the test, so a selection builds only what it needs.
    targets = ["--target", *names] if args.selectors else []
    if subprocess.run(["cmake", "--build", args.build, "-j", str(args.jobs), *targets]).returncode:
        print("test: the build failed")
        print(Counts(failed=1))
        return 1

    reports = args.build.resolve() / "test-reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    junit = reports / "ctest.xml"
    pattern = "^(" + "|".join(names).replace("+", "\\+").replace(".", "\\.") + ")$"
    # Half of the programs' time is waiting: for the disk, for processes that end, for leases.
    programs = args.jobs + (args.jobs + 1) // 2
    started = time.monotonic()
    ctest = subprocess.run(
        ["ctest", "--test-dir", args.build, "-R", pattern, "-j", str(programs), "--no-tests=error",
         "--output-junit", junit, "--verbose" if args.verbose else "--output-on-failure"],
        env=environment(), stdin=subprocess.DEVNULL,
    )
    total, failed = read_results(junit, reports, names) if junit.exists() else (Counts(failed=1), [])
    if ctest.returncode and total.failed == 0:
        total.failed = 1
    (reports / "counts").write_text(f"{total.passed} {total.failed} {total.skipped}\n")
    print(f"{len(names)} programs in {time.monotonic() - started:.0f} s")
    for name in failed:
        print(f"failed: {name}")
    print(total, flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
