#!/usr/bin/env python3
"""The evaluation of the Llumnix paper (OSDI '24) with `godwit sim`: simulates, writes a page and its plots.

The same binary and the same arguments give the same bytes.
"""

import argparse
import errno
import os
import sys
import tempfile
import time

import migration
import priorities
import scaling
import serving
import why
from simulate import Failed, Simulator


class Scale:
    """How much is simulated: all, or with --quick fewer requests and one seed."""

    def __init__(self, quick):
        self.quick = quick
        self.found = {}  # by further arguments: rates.highest of the traces that somebody has asked for

    def requests(self, full, quick=2000):
        return min(full, quick) if self.quick else full

    def seeds(self, full):
        return 1 if self.quick else full


SECTIONS = {"3": why.preemption, "4": why.interference, "5": why.fragmentation, "10": migration.section,
            "11": serving.combinations, "11b": serving.steps, "12": why.over_time, "13": priorities.section, "14": scaling.loads,
            "15": scaling.thresholds, "16": scaling.many}


def written_by(quick, seed):
    command = "./run paper" + (" --quick" if quick else "") + (f" --seed {seed}" if seed != 1 else "")
    return f"Written by `{command}`"


def head(quick, seed):
    lines = [
        "# The Llumnix paper's evaluation, simulated", "",
        f"{written_by(quick, seed)} (seeds from {seed} on); the same command gives the same numbers. "
        "The scheduler, the instances and migration are those that serve; time is virtual and the devices are the "
        "profiles `llama-7b-a10` and `llama-30b-4xa10` ([formats/profile.md](formats/profile.md)). Nobody here ran an A10: "
        "those profiles were derived from measurements of others and calibrated on six statements of the paper, which "
        "therefore confirm nothing where they come up again; the tables say so. Apart from that nothing was fitted: "
        "numbers come from the runs, whatever the paper has.", "",
        "Paper: Sun et al., *Llumnix: Dynamic Scheduling for Large Language Model Serving*, OSDI '24. Where only ranges or maxima "
        "are given in its text, these stand in the tables; its plots were not read off. *Artifact* is its public one, from which "
        "rates and parameters come where the text has none; *re-run* is what it claims of itself. Steps take up to 12,800 "
        "tokens, as there, but prompts beside decodes (figure 11b).", "",
        "Migrations' copies slow the steps beside them in figure 10, which says by how much; in the other figures they take nothing "
        "from anybody."]
    if quick:
        lines += ["", "**This is a quick run**: 2,000 requests for each run at most, one seed, and fewer points. Many runs end "
                  "before the longest requests do, so loads are lower than in a full run and differences smaller."]
    return "\n".join(lines)


SEED_MAX = 2**63 - 1  # those that follow it are of 64 bits, too


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"paper: {message}; see ./run paper --help\n")


def whole(least, most):
    def parse(text):
        if not text.isascii() or not text.isdigit() or len(text) > len(str(most)) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least} to {most}")
        return int(text)
    return parse


def main():
    parser = Parser(prog="./run paper", description="the evaluation of the Llumnix paper, simulated")
    parser.add_argument("--quick", action="store_true", help="2,000 requests a run at most, one seed, fewer points: a minute or two")
    parser.add_argument("--output", metavar="DIR", help="for evaluation.md and its plots (docs; with --quick build/paper)")
    parser.add_argument("--seed", type=whole(0, SEED_MAX), default=1, help="the first of every simulation's seeds")
    parser.add_argument("--figures", metavar="N,...", help="write these anew into the page that is there, and leave the others")
    parser.add_argument("--jobs", type=whole(1, 1024), default=len(os.sched_getaffinity(0)), help="simulations at a time")
    parser.add_argument("--godwit", required=True, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    output = asked.output or os.path.join(root, *(("build", "paper") if asked.quick else ("docs",)))
    began = time.time()
    sim, scale = Simulator(asked.godwit, asked.seed, asked.jobs), Scale(asked.quick)
    try:
        figures = chosen(asked.figures, output, asked.quick, asked.seed)
    except ValueError as wrong:
        parser.error(str(wrong))
    page = write(sim, scale, output, lambda what: print(f"paper: {what}, {time.time() - began:.0f} s", file=sys.stderr), figures)
    print(f"{sim.runs} simulations in {time.time() - began:.0f} s; {page}")


def chosen(text, output, quick, seed):
    """The numbers of the figures to be written into the page in `output`; none: all, into a new one."""
    if text is None:
        return set()
    page = os.path.join(output, "evaluation.md")
    if not os.path.exists(page):
        raise ValueError(f"--figures writes into a page that is there, and there is no evaluation.md in {output}")
    with open(page, encoding="utf-8") as file:
        if written_by(quick, seed) not in head_of(file.read()):
            raise ValueError(f"--figures: {page} was written with another --seed or --quick, and would be of both")
    wanted = text.split(",")
    for number in wanted:
        if number not in SECTIONS:
            raise ValueError(f"--figures: there is no figure {number}; there are {', '.join(SECTIONS)}")
    return set(wanted)


def head_of(text):
    """What stands before the sections of a page."""
    return text.split("\n## Figure ")[0].rstrip("\n")


def parts_of(text):
    """{figure: its section} of a page, in its order."""
    found = {}
    for part in text.split("\n## Figure ")[1:]:
        found[part.split(":")[0]] = "## Figure " + part.rstrip("\n")
    return found


def write(sim, scale, output, done, figures=frozenset()):
    """The page and its plots, below `output`, all at once when everything is known: whatever ends this earlier leaves what was
    there. The path of the page."""
    page, plots = os.path.join(output, "evaluation.md"), os.path.join(output, "evaluation")
    os.makedirs(plots, exist_ok=True)
    if os.path.isdir(page):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), page)
    with tempfile.TemporaryDirectory(prefix=".paper-", dir=output) as scratch:
        text = simulated(sim, scale, page, scratch, done, figures)
        with open(os.path.join(scratch, "page"), "w", encoding="utf-8") as file:
            file.write(text)
        for name in sorted(os.listdir(scratch)):
            os.replace(os.path.join(scratch, name), page if name == "page" else os.path.join(plots, name))
    return page


def simulated(sim, scale, page, folder, done, figures):
    """The text of the page; its plots go into `folder`."""
    parts, top = {}, head(scale.quick, sim.seed)
    if figures:
        with open(page, encoding="utf-8") as file:
            text = file.read()
        parts, top = parts_of(text), head_of(text)
    for number, section in SECTIONS.items():
        if number in parts and number not in figures:
            continue
        parts[number] = section(sim, scale, folder).rstrip("\n")
        done(parts[number].splitlines()[0].lstrip("# "))
    return "\n\n".join([top, *(parts[number] for number in SECTIONS)]) + "\n"


if __name__ == "__main__":
    try:
        main()
    except Failed as why_not:
        sys.exit(f"paper: a simulation failed: {why_not}")
    except OSError as why_not:
        sys.exit(f"paper: {why_not.filename}: {why_not.strerror}")
    except KeyboardInterrupt:
        sys.exit(130)
