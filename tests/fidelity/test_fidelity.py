#!/usr/bin/env python3
"""What `./run fidelity` makes of latencies and profiles, without serving anything."""

import io
import os
import subprocess
import tempfile
import unittest
from unittest import mock

import fidelity
import latencies


def figures(ms):
    return {kind: {figure: ms for figure in latencies.GOALS} for kind in latencies.KINDS}


def run(served_ms, before_ms, after_ms, drift=0.0):
    return {"served": figures(served_ms), "simulated": [figures(before_ms), figures(after_ms)], "drift": drift,
            "rate": 2.0, "client": 0.01, "server": 0.9, "others": 0.0, "left_out": 0}


class Latencies(unittest.TestCase):
    def test_percentiles_are_between_ranks(self):
        self.assertEqual(latencies.percentile([3, 1, 2], 0.5), 2)
        self.assertAlmostEqual(latencies.percentile([0, 10], 0.99), 9.9)

    def test_served_and_simulated_requests_are_summed_up_alike(self):
        rows = [{"index": i, "started_s": i, "first_text_s": i + 1, "last_text_s": i + 3, "ended_s": i + 4, "pieces": 5,
                 "answer_tokens": 5} for i in range(3)]
        virtual = [{"request": i, "arrival_s": i, "first_token_s": i + 1, "last_token_s": i + 3, "ended_s": i + 4,
                    "answer_tokens": 5} for i in range(3)]
        found = latencies.of_served(rows, latencies.whole(rows))
        self.assertEqual(found, latencies.of_simulated(virtual, {0, 1, 2}))
        self.assertEqual([found[kind]["mean"] for kind in latencies.KINDS], [1000, 500, 4000])

    def test_a_request_with_a_token_that_came_without_text_is_left_out(self):
        rows = [{"index": 0, "pieces": 5, "answer_tokens": 5}, {"index": 1, "pieces": 4, "answer_tokens": 5}]
        self.assertEqual(latencies.whole(rows), {0})

    def test_both_profiles_speak_for_a_repetition_and_the_middle_one_for_all(self):
        row = latencies.compare([run(100, 90, 94), run(100, 100, 102), run(100, 150, 150)])["decode mean"]
        self.assertAlmostEqual(row["error"], 0.01)
        self.assertEqual([round(e, 2) for e in row["errors"]], [-0.08, 0.01, 0.5])
        self.assertAlmostEqual(row["profiles"], 0.02)
        self.assertTrue(row["met"])
        self.assertIsNone(latencies.compare([run(100, 90, 94)])["decode p50"]["met"])
        self.assertFalse(latencies.compare([run(100, 90, 94)])["decode mean"]["met"])
        self.assertTrue(latencies.compare([run(100, 90, 94)])["decode p99"]["met"])


@unittest.skipUnless(os.environ.get("GODWIT"), "GODWIT names no program")
class TheProgram(unittest.TestCase):
    def test_what_it_simulates_has_latencies(self):
        with tempfile.TemporaryDirectory() as folder:
            csv = os.path.join(folder, "rows.csv")
            subprocess.run([os.environ["GODWIT"], "sim", "--instances", "1", "--lengths", "S-S", "--rate", "4",
                            "--requests", "10", "--csv", csv], check=True, capture_output=True)
            with open(csv, encoding="ascii", newline="") as file:
                rows = fidelity.rows_of(file)
        self.assertEqual([row["request"] for row in rows], list(range(10)))
        found = latencies.of_simulated(rows, set(range(10)))
        for kind in latencies.KINDS:
            self.assertGreater(found[kind]["mean"], 0)


class Repetitions(unittest.TestCase):
    def test_one_of_which_no_request_counts_fails_and_says_why(self):
        bench = fidelity.Bench(None, "/nonexistent")
        for rows in ([], [{"index": 0, "pieces": 4, "answer_tokens": 5}]):
            with self.assertRaisesRegex(fidelity.Failed, "none counts"):
                bench.compare(fidelity.SCENARIOS[0], rows)

    def test_there_is_at_least_one_of_everything(self):
        for flag in ("--repetitions", "--requests", "--threads", "--profile-time"):
            argv = ["fidelity", "--model", "m", "--godwit", "g", flag, "0"]
            with mock.patch("sys.argv", argv), mock.patch("sys.stderr", io.StringIO()) as said:
                with self.subTest(flag), self.assertRaises(SystemExit):
                    fidelity.main()
            self.assertIn(f"{flag} wants at least 1", said.getvalue())

    def test_those_count_whose_profiles_are_alike_whatever_was_served(self):
        runs = [run(100, 100, 100), run(500, 100, 100, -0.049), run(100, 100, 100, 0.051), run(100, 100, 100, -0.2)]
        found = fidelity.summary(runs)
        self.assertEqual(found["count"], 2)
        self.assertAlmostEqual(found["latencies"]["prefill mean"]["errors"][1], -0.8)

    def test_drift_is_what_a_machine_carries_more_than_before(self):
        before, after = fidelity.Profile("a", 1, 4.0), fidelity.Profile("b", 1, 5.0)
        self.assertAlmostEqual(after.drift(before), 0.25)

    def test_a_scenario_of_which_none_counts_is_shown_as_that(self):
        one = {"name": "one", "instances": 1, "sequences": 4, "load": 0.4, "cv": 1.0}
        runs = [run(100, 100, 100, 0.3), run(100, 100, 100, -0.3)]
        scenario = {**one, "runs": runs, **fidelity.summary(runs)}
        text = fidelity.table({"threads": 1, "goals": 6, "met": 0, "scenarios": [scenario]})
        self.assertIn("0 of 2 repetitions count", text)
        self.assertIn("+30.0 %, -30.0 %", text)
        self.assertIn("0 of 6 goals met", text)
        runs = [run(100, 104, 102), run(100, 104, 102, -0.3)]
        scenario = {**one, "runs": runs, **fidelity.summary(runs)}
        text = fidelity.table({"threads": 1, "goals": 6, "met": 6, "scenarios": [scenario]})
        self.assertIn("40 % of what they carry (2.00 to 2.00 requests/s)", text)
        self.assertRegex(text, r"decode mean +100.00 +0.0% +103.00 +1.9% +\+3.0% +5% met")


if __name__ == "__main__":
    unittest.main()
