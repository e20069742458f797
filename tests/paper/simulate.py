"""Runs `godwit sim`, several at a time. What a run says depends on its arguments alone."""

import csv
import json
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor


class Failed(Exception):
    """A simulation that did not end well; the text names its command."""


class Simulator:
    def __init__(self, binary, seed, jobs):
        self.binary, self.seed, self.jobs, self.runs = binary, seed, jobs, 0

    def all(self, wanted, rows=False, samples=False):
        """Reports of the runs with these argument lists, in their order.

        With `rows` a report has "rows", one dictionary of numbers for each request; with `samples` it has "samples",
        one for each virtual second.
        """
        self.runs += len(wanted)
        with ThreadPoolExecutor(self.jobs) as pool:
            return list(pool.map(lambda arguments: self._one(arguments, rows, samples), wanted))

    def _one(self, arguments, rows, samples):
        # The engine of the paper takes whole prompts, up to 12,800 tokens a step.
        command = [self.binary, "sim", "--json", "--seed", str(self.seed), "--llumlet-step-tokens-max", "12800"]
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
            report = json.loads(done.stdout)
            if report["answered"] != report["requests"]:
                raise Failed(f"{' '.join(command)}\nanswered {report['answered']} of {report['requests']} requests")
            for name in files.values():
                with open(os.path.join(scratch, name), encoding="ascii", newline="") as file:
                    report[name] = [{key: number(text) for key, text in row.items()} for row in csv.DictReader(file)]
        return report


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def percentile(values, share):
    """Interpolated between ranks, as `godwit sim` does."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
