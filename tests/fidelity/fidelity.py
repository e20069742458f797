#!/usr/bin/env python3
"""How far simulated latencies are from measured ones: the same requests, served on this machine and simulated.

Serves a workload over HTTP, profiles this machine before and after it, and simulates the arrivals and lengths of that
very run with both profiles.
"""

import argparse
import csv
import dataclasses
import json
import os
import sys
import tempfile
import time

import latencies
import served
from served import Failed


@dataclasses.dataclass
class Scenario:
    name: str
    instances: int
    sequences: int  # that run at once on an instance; more wait
    load: float  # requests/s as a share of those that the instances can carry, by a profile
    cv: float

    def flags(self):
        """Of the server and of the simulation. Repetitions have the same prompts: a prefix cache would know them."""
        return ["--instances", str(self.instances), "--llumlet-sequences-max", str(self.sequences),
                "--llumlet-step-tokens-max", str(STEP_TOKENS), "--model-context-max", str(CONTEXT),
                "--no-llumlet-prefix-caching", "--migration", "none"]


SCENARIOS = [Scenario("one", 1, 16, 0.4, 1.0), Scenario("one_queueing", 1, 4, 0.75, 2.0),
             Scenario("two", 2, 16, 0.4, 1.0), Scenario("two_queueing", 2, 4, 0.75, 2.0)]
LENGTHS = "uniform:32-160:8-48"
STEP_TOKENS = 64
CONTEXT = 256
POOL_BLOCKS = 192  # so few that the warm-up touches each: memory of a virtual machine is slow when it is first used
TOKENS_PER_BLOCK = 16
WARM_UP = 2 * POOL_BLOCKS * TOKENS_PER_BLOCK // 124  # requests for an instance: its whole pool, twice
DRIFT = 0.05  # a repetition counts whose two profiles say that the machine carries the same, but for this
SEEDS = 10  # simulations with each profile: a seed draws how far each step is from the usual one


@dataclasses.dataclass
class Profile:
    path: str
    pool_bytes: int
    capacity: float  # requests/s, if all are there from the start

    def drift(self, earlier):
        return self.capacity / earlier.capacity - 1


def rows_of(file):
    """Of `godwit sim --csv`; all but what a client was told is a number."""
    return [{key: float(text) for key, text in row.items() if key not in ("failed", "expected_first_token_s")} for row in csv.DictReader(file)]


class Bench:
    def __init__(self, asked, scratch):
        self.asked, self.scratch, self.began = asked, scratch, time.time()

    def profile(self, one, name):
        """Of this moment, with as many instances as serve, each on as many threads."""
        path = os.path.join(self.scratch, f"{one.name}_{name}.json")
        watch = served.Watch()
        served.run([self.asked.godwit, "profile", self.asked.model, "--threads", str(self.asked.threads), "--instances",
                    str(one.instances), "--temperature", "0", "--context", str(CONTEXT), "--step-tokens",
                    str(STEP_TOKENS), "--sequences", str(one.sequences), "--time", str(self.asked.profile_time),
                    "--output", path])
        others = watch.others()
        with open(path, encoding="ascii") as file:
            device = json.load(file) | {"kv_blocks": POOL_BLOCKS}
        with open(path, "w", encoding="ascii") as file:
            json.dump(device, file)
        report = self.sim(one, path, "--lengths", LENGTHS, "--requests", "300", "--rate", "0")
        capacity = json.loads(report)["requests_per_s"]
        self.say(f"{one.name}: a profile that carries {capacity:.2f} requests/s", others)
        return Profile(path, int(POOL_BLOCKS * TOKENS_PER_BLOCK * device["model"]["kv_bytes_per_token"]), capacity)

    def say(self, what, others):
        print(f"fidelity: {what}; {time.time() - self.began:.0f} s; others kept {others:.2f} processors busy",
              file=sys.stderr)

    def scenario(self, one):
        before, runs = self.profile(one, "0"), []
        flags = [*one.flags(), "--threads", str(self.asked.threads), "--kv-bytes", str(before.pool_bytes)]
        with served.server(self.asked.godwit, self.asked.model, flags) as (url, pid):
            served.run([self.asked.godwit, "bench", "--url", url, "--no-progress", "--lengths", LENGTHS, "--requests",
                        str(WARM_UP * one.instances), "--concurrency", str(6 * one.instances), "--seed", "7"])
            for number in range(1, self.asked.repetitions + 1):
                rate = one.load * before.capacity
                load = ["--lengths", LENGTHS, "--requests", str(self.asked.requests * one.instances), "--rate",
                        f"{rate:.4f}", "--cv", str(one.cv), "--seed", str(self.asked.seed), "--temperature", "0"]
                saved = os.path.join(self.scratch, f"{one.name}_{number}.jsonl")
                rows, busy = served.play(self.asked.godwit, url, pid, load, saved)
                self.say(f"{one.name}: {rate:.2f} requests/s", busy["others"])
                after = self.profile(one, str(number))
                runs.append({**busy, **self.compare(one, rows, before, after), "rate": rate,
                             "drift": after.drift(before)})
                before = after
        return {**dataclasses.asdict(one), "requests": self.asked.requests * one.instances, "runs": runs, **summary(runs)}

    def compare(self, one, rows, *profiles):
        """What clients saw, and the means of what simulations say, for each profile."""
        counted = latencies.whole(rows)
        if not counted:
            raise Failed(f"{one.name}: in each of {len(rows)} requests a token came without text, so that none counts")
        trace = os.path.join(self.scratch, "trace.csv")
        with open(trace, "w", encoding="ascii") as file:
            file.write("Timestamp,Request tokens,Response tokens\n")
            for r in rows:
                file.write(f"{r['started_s']:.9f},{r['prompt_tokens']},{r['answer_tokens']}\n")
        simulated = [latencies.mean([latencies.of_simulated(self.simulate(one, each.path, trace, seed), counted)
                                     for seed in range(SEEDS)]) for each in profiles]
        return {"left_out": len(rows) - len(counted), "served": latencies.of_served(rows, counted),
                "simulated": simulated}

    def simulate(self, one, profile, trace, seed):
        found = os.path.join(self.scratch, "simulated.csv")
        self.sim(one, profile, "--trace", trace, "--seed", str(seed), "--csv", found)
        with open(found, encoding="ascii", newline="") as file:
            return rows_of(file)

    def sim(self, one, profile, *more):
        report, _ = served.run([self.asked.godwit, "sim", "--json", "--policy", "freeness", "--profile", profile,
                                *one.flags(), *more])
        return report


def summary(runs):
    """Of the repetitions between two profiles that are alike. What was served has no say in that."""
    count = [run for run in runs if abs(run["drift"]) <= DRIFT]
    return {"count": len(count), "latencies": latencies.compare(count) if count else {}}


def table(result):
    lines = []
    for one in result["scenarios"]:
        runs = one["runs"]
        most = {name: max(run[name] for run in runs) for name in ("client", "server", "others")}
        rates = [run["rate"] for run in runs]
        lines.append(f"{one['name']}: {one['instances']} instances of {result['threads']} threads, {one['sequences']} "
                     f"requests at once each, {100 * one['load']:.0f} % of what they carry ({min(rates):.2f} to "
                     f"{max(rates):.2f} requests/s) with CV {one['cv']:g}; processors busy: client "
                     f"{most['client']:.3f}, server {most['server']:.2f}, others {most['others']:.2f}")
        lines.append(f"  {one['count']} of {len(runs)} repetitions count; from profile to profile the machine carried "
                     + ", ".join(f"{100 * run['drift']:+.1f} %" for run in runs))
        if not one["count"]:
            continue
        lines.append(f"  {'latency (ms)':16} {'served':>9} {'spread':>8} {'simulated':>10} {'profiles':>9} "
                     f"{'error':>8} {'goal':>6}")
        for name, row in one["latencies"].items():
            verdict = "" if row["goal"] is None else f"{100 * row['goal']:5.0f}% {'met' if row['met'] else 'MISSED'}"
            lines.append(f"  {name:16} {row['served_ms']:9.2f} {100 * row['spread']:7.1f}% {row['simulated_ms']:10.2f} "
                         f"{100 * row['profiles']:8.1f}% {100 * row['error']:+7.1f}% {verdict}")
    lines.append(f"{result['met']} of {result['goals']} goals met")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(prog="./run fidelity",
                                     description="simulated latencies against measured ones, on this machine")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--scenario", action="append", choices=[s.name for s in SCENARIOS], help="only this one")
    parser.add_argument("--repetitions", type=int, default=5, help="of each scenario")
    parser.add_argument("--requests", type=int, default=50, help="for each instance, of each repetition")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of each instance")
    parser.add_argument("--profile-time", type=float, default=24, metavar="S", help="for each profile, about")
    parser.add_argument("--keep", metavar="DIR", help="where to leave the profiles and what was served")
    parser.add_argument("--model", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--godwit", required=True, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    for name in ("repetitions", "requests", "threads", "profile_time"):
        if getattr(asked, name) < 1:
            parser.error(f"--{name.replace('_', '-')} wants at least 1")
    wanted = [s for s in SCENARIOS if not asked.scenario or s.name in asked.scenario]
    if asked.keep:
        os.makedirs(asked.keep, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(asked, asked.keep or scratch)
        result = {"threads": asked.threads, "lengths": LENGTHS, "scenarios": [bench.scenario(s) for s in wanted]}
    goals = sum(goal is not None for goal in latencies.GOALS.values()) * len(latencies.KINDS) * len(wanted)
    met = sum(bool(row["met"]) for one in result["scenarios"] for row in one["latencies"].values())
    result |= {"goals": goals, "met": met}
    print(json.dumps(result) if asked.json else table(result))
    return 0 if met == goals else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as why_not:
        sys.exit(f"fidelity: {why_not}")
    except KeyboardInterrupt:
        sys.exit(130)
