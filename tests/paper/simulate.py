"""Runs `godwit sim`, several at a time, and what they measured. What a run says depends on its arguments alone."""

import csv
import json
import math
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

from page import median, ratio


class Failed(Exception):
    """A simulation that did not end well, or did not measure what it should have; the text names its command."""


class Report:
    """What one run measured. `report["prefill_ms.p99"]` is a number, always: what is absent, null or the mean of nothing
    fails, so that no page is written around a hole."""

    def __init__(self, document, command):
        self.document, self.command, self.rows, self.samples = document, command, None, None

    def __getitem__(self, path):
        found = self.document
        for key in path.split("."):
            if not isinstance(found, dict) or key not in found:
                raise Failed(f"{self.command}\ndid not measure {path}")
            if found.get("count") == 0 and key in ("mean", "p50", "p90", "p99", "max"):
                raise Failed(f"{self.command}\n{path}: of nothing")
            found = found[key]
        if isinstance(found, bool) or not isinstance(found, (int, float)) or not math.isfinite(found):
            raise Failed(f"{self.command}\n{path} is no number: {found}")
        return found

    def counts(self, path):
        """{name: number} of an object of counts, which may be empty."""
        found = self.document
        for key in path.split("."):
            if not isinstance(found, dict) or key not in found:
                raise Failed(f"{self.command}\ndid not measure {path}")
            found = found[key]
        return {name: Report(found, self.command)[name] for name in found}

    def level(self, name):
        """The same of the requests of one execution priority."""
        for level in self.document.get("levels", []):
            if level.get("priority") == name:
                return Report(level, self.command)
        raise Failed(f"{self.command}\nhad no requests of the priority {name}")


class Runs:
    """The reports of one experiment with several seeds, in the seeds' order."""

    def __init__(self, reports):
        self.reports = list(reports)

    def __getitem__(self, path):
        """The median over the seeds."""
        return median([report[path] for report in self.reports])

    def times(self, other, path):
        """How many times `other` these are; the median over the seeds, each of which gave both the same requests."""
        return median(self.each(other, path))

    def each(self, other, path):
        """The same, seed by seed."""
        if len(self.reports) != len(other.reports):
            raise Failed(f"{self.reports[0].command}\nhas other seeds than {other.reports[0].command}")
        return [ratio(mine[path], theirs[path]) for mine, theirs in zip(self.reports, other.reports)]

    def level(self, name):
        return Runs(report.level(name) for report in self.reports)


class Simulator:
    def __init__(self, binary, seed, jobs):
        self.binary, self.seed, self.jobs, self.runs = binary, seed, jobs, 0

    def all(self, wanted, seeds=1, rows=False, samples=False):
        """Runs of the experiments with these argument lists, in their order.

        With `rows` a report has `rows`, one dictionary of numbers for each request; with `samples` it has `samples`, one
        for each virtual second.
        """
        jobs = [(arguments, self.seed + i) for arguments in wanted for i in range(seeds)]
        self.runs += len(jobs)
        with ThreadPoolExecutor(self.jobs) as pool:
            reports = list(pool.map(lambda job: self._one(*job, rows, samples), jobs))
        return [Runs(reports[i:i + seeds]) for i in range(0, len(reports), seeds)]

    def _one(self, arguments, seed, rows, samples):
        # The engine of the paper takes whole prompts, up to 12,800 tokens a step.
        command = [self.binary, "sim", "--json", "--seed", str(seed), "--llumlet-step-tokens-max", "12800"]
        command += [str(word) for word in arguments]
        # Settings from the caller's environment would change the figures.
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GODWIT_")}
        with tempfile.TemporaryDirectory() as scratch:
            files = {"--csv": "rows"} if rows else {}
            files |= {"--samples": "samples"} if samples else {}
            for flag, name in files.items():
                command += [flag, os.path.join(scratch, name)]
            done = subprocess.run(command, capture_output=True, text=True, env=clean, check=False)
            if done.returncode != 0:
                raise Failed(f"{' '.join(command)}\n{done.stderr or done.stdout}")
            report = parse(done.stdout, " ".join(command))
            for name in files.values():
                with open(os.path.join(scratch, name), encoding="ascii", newline="") as file:
                    setattr(report, name, table_of(file, report.command))
        return report


def parse(text, command):
    """A report from what the command printed, if every request was answered."""
    try:
        document = json.loads(text)
    except ValueError as wrong:
        raise Failed(f"{command}\nprinted no JSON: {wrong}") from wrong
    report = Report(document, command)
    if report["answered"] != report["requests"]:
        raise Failed(f"{command}\nanswered {report['answered']} of {report['requests']} requests")
    return report


def table_of(lines, command):
    """A CSV file of numbers with a line of names; what need not be one is left out."""
    table = []
    for row in csv.DictReader(lines):
        try:
            table.append({name: float(text) for name, text in row.items() if name not in ("failed", "expected_first_token_s")})
        except (TypeError, ValueError) as wrong:
            raise Failed(f"{command}\nwrote a line that is not numbers: {row}") from wrong
    if not table:
        raise Failed(f"{command}\nwrote an empty table")
    return table


def percentile(values, share):
    """Interpolated between ranks, as `godwit sim` does."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
