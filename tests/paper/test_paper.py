#!/usr/bin/env python3
"""That the page of `./run paper` says what was simulated, and is not written around what was not."""

import io
import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest
from unittest import mock
import xml.etree.ElementTree as xml

import chart
import page
import paper
import rates
import scaling
import serving
import why
from simulate import Failed, Report, Runs, Simulator, parse, percentile, table_of

COMMAND = "godwit sim --rate 7"


def spread(mean, count=100):
    return {"count": count, "mean": mean, "p50": mean, "p90": 2 * mean, "p99": 4 * mean, "max": 5 * mean}


def document(**changes):
    found = {"requests": 100, "answered": 100, "events": 6400, "end_to_end_ms": spread(9000.0),
             "prefill_ms": spread(200.0), "decode_ms": spread(50.0), "preemption_loss_ms": spread(10.0),
             "preemptions": {"count": 3, "requests": 2, "loss_s": 1.0},
             "migrations": {"committed": 7, "stall_ms": spread(20.0), "gap_ms": spread(90.0),
                                                                    "by_stages": {"2": 7}, "time_share": 0.1,
                                                                    "slowed_steps": {"count": 50, "mean": 0.004, "max": 0.02}},
             "memory": {"used_share": 0.5, "fragmented_share": 0.01, "fragmented_share_max": 0.1, "fragmented_time": 0.2}, "instances": {"mean": 8.5, "max": 16, "instance_seconds": 1000.0}}
    found.update(changes)
    return found


class Invented(Simulator):
    """Answers at once, with latencies that follow the policy, the rate and the seed."""

    SLOWER = {"round_robin": 3.0, "infaas++": 1.5, "llumnix": 1.0, "llumnix-base": 1.2}

    def __init__(self, change=lambda found: found):
        super().__init__("godwit", 1, 2)
        self.change = change

    def _one(self, arguments, seed, rows, samples):
        told = dict(zip(arguments, arguments[1:]))
        slower = self.SLOWER.get(told.get("--policy"), 1.0) * (1 + seed / 100)
        queues = told.get("--lengths") in rates.GRID and told["--rate"] * 10 > sum(rates.GRID[told["--lengths"]][:2]) / 2
        found = document(end_to_end_ms=spread(9000.0 * slower), decode_ms=spread(50.0 * slower),
                         prefill_ms=spread((30000 if queues else 200.0) * slower))
        if "--central-scheduler" in told:
            found["central_scheduler"] = {"stall_ms_mean": 0.0123 * told["--central-scheduler"], "stall_ms_max": 99.0}
        if "--priority-share" in told:
            found["levels"] = [{**document(), "priority": "normal"},
                               {**document(decode_ms=spread(48.0 * slower)), "priority": "high"}]
        report = Report(self.change(found), " ".join(str(word) for word in arguments))
        if rows:
            report.rows = [{"first_token_s": 1.0, "last_token_s": 3.0 + i, "answer_tokens": 20.0, "preemption_loss_s": 0.5}
                           for i in range(100)]
        if samples:
            report.samples = [{"time_s": float(s), "waiting": float(s % 2), "blocks_fragmented": float(s % 4 == 1),
                               "heads_waiting": float(s % 4), "heads_fitting": float(s % 2),
                               "blocks_used": 300.0, "blocks_total": 851.0, "blocks_headroom": 75.0} for s in range(100)]
        return report


class Parsing(unittest.TestCase):
    def test_a_report_gives_numbers_by_their_path(self):
        report = parse(json.dumps(document()), COMMAND)
        self.assertEqual(report["prefill_ms.p99"], 800)
        self.assertEqual(report["instances.max"], 16)

    def test_what_was_not_measured_fails_and_names_the_command(self):
        cases = {"nothing.mean": document(), "prefill_ms.p98": document(), "prefill_ms.mean.more": document(),
                 "prefill_ms.mean": document(prefill_ms=None), "memory.used_share": document(memory={"used_share": None}),
                 "instances.mean": document(instances={"mean": "8"}), "events": document(events=True),
                 "requests": document(requests=float("nan")), "answered": document(answered=float("inf"))}
        for path, found in cases.items():
            with self.subTest(path), self.assertRaises(Failed) as failed:
                Report(found, COMMAND)[path]
            self.assertIn(COMMAND, str(failed.exception))
            self.assertIn(path, str(failed.exception))

    def test_the_mean_of_nothing_is_not_zero(self):
        report = Report(document(decode_ms=spread(0.0, count=0)), COMMAND)
        self.assertEqual(report["decode_ms.count"], 0)
        for what in ("mean", "p50", "p90", "p99", "max"):
            with self.subTest(what), self.assertRaises(Failed):
                report[f"decode_ms.{what}"]

    def test_a_simulation_that_lost_requests_fails(self):
        for text in (json.dumps(document(answered=99)), "no JSON", ""):
            with self.subTest(text[:9]), self.assertRaises(Failed):
                parse(text, COMMAND)

    def test_levels_go_by_their_name_and_a_missing_one_fails(self):
        report = Report(document(levels=[{"priority": "normal", "prefill_ms": spread(5.0)}]), COMMAND)
        self.assertEqual(report.level("normal")["prefill_ms.mean"], 5)
        with self.assertRaises(Failed):
            report.level("high")
        with self.assertRaises(Failed):
            Report(document(), COMMAND).level("normal")

    def test_tables_hold_numbers_only(self):
        self.assertEqual(table_of(io.StringIO("a,b\n1,2.5\n"), COMMAND), [{"a": 1.0, "b": 2.5}])
        for text in ("a,b\n1,\n", "a,b\n1\n", "a,b\n1,2,3\n", "a,b\n1,x\n", "a,b\n", ""):
            with self.subTest(text), self.assertRaises(Failed):
                table_of(io.StringIO(text), COMMAND)


@unittest.skipUnless(os.environ.get("GODWIT"), "GODWIT names no program")
class TheProgram(unittest.TestCase):
    """What godwit itself writes is what the scripts read."""

    def test_its_tables_are_numbers(self):
        with tempfile.TemporaryDirectory() as folder:
            rows = os.path.join(folder, "rows.csv")
            command = [os.environ["GODWIT"], "sim", "--json", "--instances", "2", "--lengths", "S-S", "--rate", "4",
                       "--requests", "20", "--csv", rows]
            said = subprocess.run(command, check=True, capture_output=True, text=True)
            self.assertEqual(parse(said.stdout, COMMAND)["answered"], 20)
            with open(rows, encoding="utf-8") as file:
                table = table_of(file, COMMAND)
        self.assertEqual(len(table), 20)
        self.assertEqual({row["answered"] for row in table}, {1.0})
        self.assertLessEqual({row["instance"] for row in table}, {0.0, 1.0})


class Running(unittest.TestCase):
    """With a program that stands for godwit."""

    def simulator(self, script):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        binary = os.path.join(folder.name, "godwit")
        with open(binary, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n" + script)
        os.chmod(binary, stat.S_IRWXU)
        return Simulator(binary, 5, 2)

    def test_each_seed_is_a_run_and_the_callers_settings_do_not_count(self):
        os.environ["GODWIT_SCHEDULER_DISPATCH"] = "infaas"
        self.addCleanup(os.environ.pop, "GODWIT_SCHEDULER_DISPATCH")
        sim = self.simulator('[ -z "$GODWIT_SCHEDULER_DISPATCH" ] || exit 3\n'
                             'echo "{\\"requests\\": 1, \\"answered\\": 1, \\"seed\\": $4}"\n')
        both = sim.all([["--rate", 1], ["--rate", 2]], seeds=3)
        self.assertEqual([[report["seed"] for report in runs.reports] for runs in both], [[5, 6, 7]] * 2)
        self.assertIn("--rate 2", both[1].reports[0].command)
        self.assertEqual(sim.runs, 6)

    def test_one_that_fails_says_why_with_its_command(self):
        with self.assertRaises(Failed) as failed:
            self.simulator("echo no such profile >&2; exit 1\n").all([["--profile", "x"]])
        self.assertIn("--profile x\nno such profile", str(failed.exception))

    def test_files_are_read(self):
        sim = self.simulator('while [ $# -gt 0 ]; do case $1 in --csv|--samples) printf "n\\n4\\n" > "$2";; esac; shift; done\n'
                             'echo "{\\"requests\\": 1, \\"answered\\": 1}"\n')
        (runs,) = sim.all([[]], rows=True, samples=True)
        self.assertEqual((runs.reports[0].rows, runs.reports[0].samples), ([{"n": 4.0}], [{"n": 4.0}]))


class Arithmetic(unittest.TestCase):
    def test_medians_and_ratios(self):
        self.assertEqual(page.median([5, 1, 3]), 3)
        self.assertEqual(page.median([4, 1, 3, 2]), 2.5)
        with self.assertRaises(ValueError):
            page.median([])
        self.assertEqual([page.ratio(6, 3), page.ratio(0, 0), page.ratio(1, 0)], [2, 1, float("inf")])
        self.assertEqual(percentile([4, 1, 2, 3], 0.5), 2.5)
        self.assertEqual([percentile([1, 2], share) for share in (0, 1)], [1, 2])

    def test_gains_are_compared_seed_by_seed(self):
        slow, fast = (Runs(Report({"x": value}, COMMAND) for value in values) for values in ((2, 30, 9), (1, 10, 9)))
        self.assertEqual(slow["x"], 9)
        self.assertEqual(slow.times(fast, "x"), 2, "the median of 2, 3 and 1, not the ratio of medians")
        with self.assertRaises(Failed):
            slow.times(Runs(fast.reports[:2]), "x")

    def test_numbers_have_the_digits_they_deserve(self):
        self.assertEqual([page.ms(value) for value in (0, 9.96, 99.9, 100, 999.4, 1000, 9990, 10000, 123456)],
                         ["0.0 ms", "10.0 ms", "99.9 ms", "100 ms", "999 ms", "1.00 s", "9.99 s", "10.0 s", "123 s"])
        self.assertEqual([page.times(value) for value in (1.234, 12.34, 123.4)], ["1.23x", "12.3x", "123x"])
        self.assertEqual(page.percent(0.1234), "12.3 %")
        self.assertEqual([page.span([2, 1], page.times), page.span([1, 1.001], page.times)], ["1.00x to 2.00x", "1.00x"])

    def test_a_wait_counts_the_heads_of_line_that_would_fit(self):
        samples = [{"time_s": float(s), "heads_waiting": waiting, "heads_fitting": fitting, "blocks_used": 5, "blocks_total": 10}
                   for s, (waiting, fitting) in enumerate([(0, 0), (1, 1), (4, 3), (3, 0), (4, 4)])]
        report = Report({}, COMMAND)
        report.samples = samples
        self.assertEqual(why.waits(report, 3), [0.75, 0.5, 0.25, 0.25, 0.5, 0.5])

    def test_a_table_has_a_cell_under_every_heading(self):
        self.assertEqual(page.table(["a", "b"], [[1, "x"]]), "| a | b |\n|---|---|\n| 1 | x |")
        with self.assertRaises(ValueError):
            page.table(["a", "b"], [[1]])

    def test_the_highest_rate_is_the_last_that_is_fine(self):
        for limit in (60, 61.9, 75, 99):
            asked = []

            def run(pairs, limit=limit, asked=asked):
                asked.extend(pairs)
                return [Report({"prefill_ms": spread(100.0 if rate <= limit else 1001.0)}, COMMAND) for _, rate in pairs]

            found = rates.highest(["S-S"], run)
            self.assertEqual(found, {"S-S": limit // 2 * 2})
            self.assertLessEqual(len(asked), 6)
        for limit in (29, 1000):
            with self.subTest(limit), self.assertRaises(Failed):
                rates.highest(["S-S"], lambda pairs, limit=limit: [
                    Report({"prefill_ms": spread(100.0 if rate <= limit else 1001.0)}, COMMAND) for _, rate in pairs])

    def test_a_tail_of_tens_of_seconds_is_fine_and_a_queueing_median_is_not(self):
        for p50, p99, fine in ((1000, 50000, True), (1001, 40000, False), (100, 50001, False)):
            self.assertEqual(rates.fine(Report({"prefill_ms": {"count": 1, "p50": p50, "p99": p99}}, COMMAND)), fine)

    def test_what_fewer_instances_cost_is_said_where_it_was_seen(self):
        self.assertEqual(scaling.worse([1.0, 2.5], [9.0, 12.0]), "")
        said = scaling.worse([0.5, 2.5], [9.0, 12.0])
        self.assertIn("up to 2.00x as long", said)
        self.assertIn("longest prefill is 9x to 12x as long as Llumnix's", said)
        self.assertNotIn("longest", scaling.worse([0.5, 2.5], [0.9, 12.0]), "not at every load")

    def test_what_is_smaller_than_in_the_paper_is_named_by_load(self):
        self.assertEqual(scaling.smaller({"Poisson": (12.2, 0.16), "Gamma": (11.0, 0.18)}), "")
        said = scaling.smaller({"Poisson": (3.0, 0.17), "Gamma": (11.0, 0.17)})
        self.assertIn("known: the gain in prefill's P99 by Poisson arrivals, the saving by Gamma arrivals.", said)

    def test_a_longer_p99_is_told_seed_by_seed(self):
        def runs(*p99):
            return Runs([Report(document(prefill_ms={**spread(100.0), "p99": value}), COMMAND) for value in p99])
        said = {("M-M", 8, "llumnix-base"): runs(2000.0, 3000.0, 9000.0), ("M-M", 8, "infaas++"): runs(2500.0, 1000.0, 9.0),
                ("S-S", 32, "llumnix-base"): runs(105.0, 105.0), ("S-S", 32, "infaas++"): runs(100.0, 100.0)}
        text = serving.late(said, [("M-M", 8), ("S-S", 32)])
        self.assertIn("M-M at 8 (2.00 s against 2.50 s, 3.00 s against 1.00 s, 9.00 s against 9.0 ms).", text)
        self.assertNotIn("S-S", text)
        self.assertEqual(serving.late(said, [("S-S", 32)]), "")

    def test_baselines_do_not_drain_by_migration_unless_it_is_said(self):
        self.assertNotIn("--migration", scaling.run("infaas++", 10, 2, 1, 10))
        drains = scaling.run(scaling.DRAINS, 10, 2, 1, 10)
        self.assertEqual(drains[drains.index("--policy"):][1:4], ["infaas++", "--migration", "none"])


class Plots(unittest.TestCase):
    def drawn(self, *charts, **more):
        with tempfile.TemporaryDirectory() as folder:
            chart.write(f"{folder}/plot.svg", list(charts), **more)
            return xml.parse(f"{folder}/plot.svg").getroot()

    def test_they_are_well_formed_whatever_they_show(self):
        for lines in ({}, {"none": []}, {"one": [(1, 5)]}, {"flat": [(1, 5), (2, 5)]}, {"zero": [(0, 0), (1, 0)]},
                      {"a < b & c": [(1, 0.001), (10, 1e6)], "other": [(1, -3)]}):
            for log in (False, True):
                with self.subTest(lines=str(lines), log=log):
                    root = self.drawn({"title": 'P99 < 5 & "more"', "across": "n", "series": lines, "log": log})
                    self.assertTrue(root.tag.endswith("svg"))
                    self.assertNotIn("nan", xml.tostring(root, encoding="unicode"))
                    self.assertIn('P99 < 5 & "more"', [element.text for element in root])

    def test_each_line_has_its_points_within_the_picture(self):
        root = self.drawn({"title": "t", "across": "x", "series": {"a": [(1, 3), (2, 90), (4, 7)]}, "log_x": True}, {
            "title": "u", "across": "x", "series": {"b": [(0, 1), (5, 2)]}})
        lines = [element.get("points").split() for element in root if element.tag.endswith("polyline")]
        self.assertEqual([len(line) for line in lines], [3, 2])
        for point in sum(lines, []):
            x, y = (float(number) for number in point.split(","))
            self.assertTrue(0 <= x <= float(root.get("width")) and 0 <= y <= float(root.get("height")), point)


class CommandLine(unittest.TestCase):
    def said(self, code, *arguments):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "paper.py")
        done = subprocess.run([sys.executable, "-B", script, "--godwit", "/nowhere/godwit", *arguments], check=False,
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (code, "", 1), done.stderr)
        return done.stderr

    def test_what_is_wrong_is_said_in_one_line_before_anything_runs(self):
        for seed in ("-1", "1.5", "x", "", "9223372036854775808", "9" * 5000):
            with self.subTest(seed[:20]):
                self.assertIn("--seed: expected a whole number from 0 to 9223372036854775807", self.said(2, "--seed", seed))
        self.assertIn("--jobs: expected a whole number from 1 to 1024", self.said(2, "--jobs", "0"))
        self.assertIn("--ouptut", self.said(2, "--ouptut", "x"))

    def test_a_folder_that_cannot_be_made_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            blocked = os.path.join(folder, "file")
            with open(blocked, "w", encoding="ascii"):
                pass
            self.assertIn(f"paper: {blocked}", self.said(1, "--output", blocked))
            os.makedirs(os.path.join(folder, "evaluation.md"))
            self.assertIn("evaluation.md: Is a directory", self.said(1, "--output", folder))


class Page(unittest.TestCase):
    def written(self, quick, change=lambda found: found):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        paper.write(Invented(change), paper.Scale(quick), folder.name, lambda _: None)
        return folder.name

    def test_it_is_whole_and_shows_plots_that_are_there(self):
        for quick in (True, False):
            with self.subTest(quick=quick):
                folder = self.written(quick)
                with open(f"{folder}/evaluation.md", encoding="utf-8") as file:
                    text = file.read()
                for figure in (3, 4, 5, 10, 11, 12, 13, 14, 15, 16):
                    self.assertIn(f"\n## Figure {figure}: ", text)
                for word in ("None", "nan", "infx", "inf ", "{", "}"):
                    self.assertNotIn(word, text)
                named = [part.split(")")[0] for part in text.split("](evaluation/")[1:]]
                self.assertEqual(sorted(named), sorted(os.listdir(f"{folder}/evaluation")))
                for name in named:
                    xml.parse(f"{folder}/evaluation/{name}")

    def test_gains_are_those_of_the_runs(self):
        with open(f"{self.written(False)}/evaluation.md", encoding="utf-8") as file:
            text = file.read()
        self.assertRegex(text, r"\| INFaaS\+\+: end to end, mean \|  \| 1.25x [^|]*\| 1.25x [^|]*\| 1.5x \(re-run 1.65x\) \(e\) \| 1.25x \(")
        self.assertRegex(text, r"\| round robin: decode per token, P99 \| 2x \(b\) \| 2.50x [^|]*\| 2.50x [^|]*\|  \| 2.50x \(")

    # The paper compares with INFaaS++ on both kinds of traces, with figures of their own.
    def test_a_figure_of_the_paper_stands_beside_runs_of_its_kind_of_trace(self):
        with open(f"{self.written(False)}/evaluation.md", encoding="utf-8") as file:
            lines = [[cell.strip() for cell in line.split("|")] for line in file if line.startswith("| ")]
        heads = next(line for line in lines if line[1] == "against")
        row = next(line for line in lines if line[1] == "INFaaS++: prefill, mean")
        self.assertTrue(row[heads.index("ShareGPT, BurstGPT: paper")].startswith("2.2x"))
        self.assertTrue(row[heads.index("generated: paper")].startswith("7.7x"))

    def test_a_figure_of_the_paper_without_a_note_is_refused(self):
        key = ("infaas++", "prefill_ms.mean", serving.REAL)
        for note in ("z", "", None):
            with self.subTest(note), mock.patch.dict(serving.SAID, {key: ("2.2x", note)}), self.assertRaises(ValueError):
                serving.said(*key)
        self.assertEqual(serving.said("infaas++", "prefill_ms.mean", "of another kind"), "")
        for key in serving.SAID:
            self.assertTrue(serving.said(*key))

    def test_some_figures_can_be_written_anew(self):
        folder = self.written(False)
        with open(f"{folder}/evaluation.md", encoding="utf-8") as file:
            before = file.read().replace("Nobody here ran an A10", "Somebody ran an A10")
        with open(f"{folder}/evaluation.md", "w", encoding="utf-8") as file:
            file.write(before)

        class Slower(Invented):
            SLOWER = {name: 2 * slower for name, slower in Invented.SLOWER.items()}

        sim = Slower()
        paper.write(sim, paper.Scale(False), folder, lambda _: None, paper.chosen("13,16", folder, False, 1))
        with open(f"{folder}/evaluation.md", encoding="utf-8") as file:
            after = file.read()
        old, new = paper.parts_of(before), paper.parts_of(after)
        self.assertEqual(list(old), list(paper.SECTIONS))
        self.assertEqual({number for number in old if old[number] != new[number]}, {"13", "16"})
        self.assertEqual(before.split("\n## ")[0], after.split("\n## ")[0])
        with self.assertRaises(ValueError):
            paper.chosen("13,17", folder, False, 1)
        with tempfile.TemporaryDirectory() as empty, self.assertRaises(ValueError):
            paper.chosen("13", empty, False, 1)
        self.assertEqual(paper.chosen(None, folder, True, 2), set())

    def test_a_page_holds_figures_of_one_seed_and_one_size(self):
        for quick in (True, False):
            folder = self.written(quick)
            self.assertEqual(paper.chosen("13", folder, quick, 1), {"13"})
            for other in ((quick, 2), (not quick, 1)):
                with self.subTest(quick=quick, other=other), self.assertRaisesRegex(ValueError, "another --seed or --quick"):
                    paper.chosen("13", folder, *other)

    def test_what_ends_it_early_leaves_what_was_there(self):
        folder = self.written(True)

        def files():
            found = {}
            for where, _, names in os.walk(folder):
                for name in names:
                    with open(os.path.join(where, name), "rb") as file:
                        found[os.path.join(where, name)] = file.read()
            return found

        class Interrupted(Invented):
            SLOWER = {name: 2 * slower for name, slower in Invented.SLOWER.items()}

            def all(self, *arguments, **more):
                if self.runs > 30:  # figures 3 and 4 are there
                    raise KeyboardInterrupt
                return super().all(*arguments, **more)

        before = files()
        with self.assertRaises(KeyboardInterrupt):
            paper.write(Interrupted(), paper.Scale(True), folder, lambda _: None)
        self.assertEqual(files(), before)

    def test_the_same_runs_give_the_same_bytes(self):
        both = []
        for _ in range(2):
            with open(f"{self.written(True)}/evaluation.md", "rb") as file:
                both.append(file.read())
        self.assertEqual(*both)

    def test_what_is_not_measured_stops_it(self):
        for name in ("end_to_end_ms", "prefill_ms", "decode_ms", "preemption_loss_ms", "preemptions", "migrations", "memory",
                     "instances", "events"):
            def change(found, name=name):
                return {key: value for key, value in found.items() if key != name}

            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                with self.assertRaises(Failed):
                    paper.write(Invented(change), paper.Scale(True), folder, lambda _: None)
                self.assertFalse(os.path.exists(f"{folder}/evaluation.md"))


if __name__ == "__main__":
    unittest.main()
