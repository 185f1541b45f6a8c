import json
import pathlib
import tempfile
import unittest

import run_tests
from run_tests import Counts

REPORT = {
    "testsuites": [
        {
            "testsuite": [
                {"status": "RUN", "result": "COMPLETED"},
                {"status": "RUN", "result": "COMPLETED", "failures": [{"failure": "x"}]},
                {"status": "RUN", "result": "SKIPPED"},
                {"status": "NOTRUN", "result": "SUPPRESSED"},
            ]
        }
    ]
}


class CountProgram(unittest.TestCase):
    def test_counts_single_tests_of_a_report(self):
        self.assertEqual(run_tests.count_report(REPORT), Counts(1, 1, 2))

    def test_counts_a_failed_program_without_a_report_as_a_failure(self):
        self.assertEqual(run_tests.count_program("fail", None), Counts(0, 1, 0))
        self.assertEqual(run_tests.count_program("notrun", None), Counts(0, 1, 0))

    def test_counts_a_program_that_died_after_its_tests_passed_as_a_failure(self):
        report = {"testsuites": [{"testsuite": [{"status": "RUN", "result": "COMPLETED"}]}]}
        self.assertEqual(run_tests.count_program("fail", report), Counts(1, 1, 0))
        self.assertEqual(run_tests.count_program("run", report), Counts(1, 0, 0))

    def test_counts_a_passed_program_without_a_report_once(self):
        self.assertEqual(run_tests.count_program("run", None), Counts(1, 0, 0))
        self.assertEqual(run_tests.count_program("skipped", None), Counts(0, 0, 1))


class ReadResults(unittest.TestCase):
    def test_sums_programs_and_names_those_that_failed(self):
        with tempfile.TemporaryDirectory() as scratch:
            reports = pathlib.Path(scratch)
            (reports / "a.json").write_text(json.dumps(REPORT))
            (reports / "torn.json").write_text("{")
            junit = reports / "ctest.xml"
            junit.write_text(
                '<testsuite><testcase name="a" status="fail"/><testcase name="torn" status="fail"/>'
                '<testcase name="b" status="run"/><testcase name="c" status="notrun">'
                '<skipped message="SKIP_RETURN_CODE=77"/></testcase></testsuite>'
            )
            counts, failed = run_tests.read_results(junit, reports, ["a", "torn", "b", "c", "lost"])
            self.assertEqual(counts, Counts(2, 3, 3))
            self.assertEqual(failed, ["a", "torn", "lost"])


class Choose(unittest.TestCase):
    TESTS = {"ring_tests": ["ring"], "store_sim": ["sim"], "store_tests": ["unit"], "ring": ["unit"]}

    def test_takes_everything_without_selectors(self):
        self.assertEqual(run_tests.choose(self.TESTS, []), (list(self.TESTS), []))

    def test_prefers_a_label_then_a_whole_name_then_a_part(self):
        self.assertEqual(run_tests.choose(self.TESTS, ["ring"])[0], ["ring_tests"])
        self.assertEqual(run_tests.choose(self.TESTS, ["store_sim"])[0], ["store_sim"])
        self.assertEqual(run_tests.choose(self.TESTS, ["store"])[0], ["store_sim", "store_tests"])

    def test_names_selectors_that_match_nothing(self):
        self.assertEqual(run_tests.choose(self.TESTS, ["sim", "nothing"]), (["store_sim"], ["nothing"]))


if __name__ == "__main__":
    unittest.main()
