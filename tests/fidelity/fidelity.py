#!/usr/bin/env python3
"""How far simulated latencies are from measured ones: the same requests, served on this machine and simulated.

Profiles this machine, serves a workload over HTTP, and simulates the arrivals and lengths of that very run.
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
    rate: float
    cv: float

    def flags(self):
        """Of the server and of the simulation. Repetitions have the same prompts: a prefix cache would know them."""
        return ["--instances", str(self.instances), "--llumlet-sequences-max", str(self.sequences),
                "--llumlet-step-tokens-max", str(STEP_TOKENS), "--model-context-max", str(CONTEXT),
                "--no-llumlet-prefix-caching", "--migration", "none"]


SCENARIOS = [Scenario("one", 1, 32, 3.0, 1.0), Scenario("one_queueing", 1, 4, 4.5, 2.0),
             Scenario("two", 2, 32, 5.0, 1.0), Scenario("two_queueing", 2, 3, 6.5, 2.0)]
LENGTHS = "uniform:32-160:8-48"
STEP_TOKENS = 128
CONTEXT = 256
POOL_BLOCKS = 192  # so few that the warm-up touches each: memory of a virtual machine is slow when it is first used
TOKENS_PER_BLOCK = 16
WARM_UP = 2 * POOL_BLOCKS * TOKENS_PER_BLOCK // 124  # requests for an instance: its whole pool, twice
CALM = 1.05  # a repetition counts whose server took at most this times the least processor time


class Bench:
    def __init__(self, asked, scratch):
        self.asked, self.scratch, self.began = asked, scratch, time.time()

    def profile(self, instances):
        """Measured with as many instances as serve, each on as many threads."""
        path = os.path.join(self.asked.keep or self.scratch, f"profile_{instances}.json")
        if self.asked.reuse and os.path.exists(path):
            return path
        watch = served.Watch()
        served.run([self.asked.godwit, "profile", self.asked.model, "--threads", str(self.asked.threads), "--instances",
                    str(instances), "--temperature", "0", "--context", str(CONTEXT), "--step-tokens", str(STEP_TOKENS),
                    "--time", str(self.asked.profile_time), "--output", path])
        self.say(f"profile with {instances} instances", watch.others())
        with open(path, encoding="ascii") as file:
            device = json.load(file)
        with open(path, "w", encoding="ascii") as file:
            json.dump(device | {"kv_blocks": POOL_BLOCKS}, file)
        return path

    def say(self, what, others):
        print(f"fidelity: {what}, {time.time() - self.began:.0f} s; others kept {others:.2f} processors busy",
              file=sys.stderr)

    def scenario(self, one, profile):
        with open(profile, encoding="ascii") as file:
            device = json.load(file)
        pool = device["kv_blocks"] * TOKENS_PER_BLOCK * device["model"]["kv_bytes_per_token"]
        flags = [*one.flags(), "--threads", str(self.asked.threads), "--kv-bytes", str(int(pool))]
        load = ["--lengths", LENGTHS, "--requests", str(self.asked.requests), "--rate", str(one.rate), "--cv", str(one.cv),
                "--seed", str(self.asked.seed), "--temperature", "0"]
        runs = []
        with served.server(self.asked.godwit, self.asked.model, flags) as (url, pid):
            served.run([self.asked.godwit, "bench", "--url", url, "--no-progress", "--lengths", LENGTHS, "--requests",
                        str(WARM_UP * one.instances), "--concurrency", str(6 * one.instances), "--seed", "7"])
            for _ in range(self.asked.repetitions):
                rows, busy = served.play(self.asked.godwit, url, pid, load, self.scratch)
                counted = latencies.whole(rows)
                virtual = latencies.of_simulated(self.simulate(one, profile, rows), counted)
                runs.append({**busy, "left_out": len(rows) - len(counted), "served": latencies.of_served(rows, counted),
                             "simulated": virtual})
                self.say(f"{one.name}, {busy['server_s']:.1f} s of processors", busy["others"])
        # The server does the same work each time: what it takes longer for is others' doing.
        least = min(r["server_s"] for r in runs)
        calm = [r for r in runs if r["server_s"] <= CALM * least]
        most = {name: max(r[name] for r in calm) for name in ("client", "server", "others", "left_out")}
        return {"name": one.name, "instances": one.instances, "sequences_max": one.sequences, "rate": one.rate,
                "cv": one.cv, "requests": self.asked.requests, "repetitions": len(runs), "calm": len(calm), "most": most,
                "latencies": latencies.compare([r["served"] for r in calm], [r["simulated"] for r in calm])}

    def simulate(self, one, profile, rows):
        trace, found = os.path.join(self.scratch, "trace.csv"), os.path.join(self.scratch, "simulated.csv")
        with open(trace, "w", encoding="ascii") as file:
            file.write("Timestamp,Request tokens,Response tokens\n")
            for r in rows:
                file.write(f"{r['started_s']:.9f},{r['prompt_tokens']},{r['answer_tokens']}\n")
        served.run([self.asked.godwit, "sim", "--json", "--policy", "freeness", "--profile", profile, "--trace", trace,
                    "--requests", "0", "--csv", found, *one.flags()])
        with open(found, encoding="ascii", newline="") as file:
            return [{key: float(text) for key, text in row.items()} for row in csv.DictReader(file)]


def table(result):
    lines = []
    for one in result["scenarios"]:
        most = one["most"]
        lines.append(f"{one['name']}: {one['instances']} instances of {result['threads']} threads, {one['sequences_max']} "
                     f"requests at once each, {one['rate']:g} requests/s with CV {one['cv']:g}; {one['calm']} of "
                     f"{one['repetitions']} repetitions count; processors busy: client {most['client']:.3f}, server "
                     f"{most['server']:.2f}, others {most['others']:.2f}")
        lines.append(f"  {'latency (ms)':18} {'served':>9} {'spread':>8} {'simulated':>10} {'error':>8} {'goal':>6}")
        for name, row in one["latencies"].items():
            verdict = "" if row["goal"] is None else f"{100 * row['goal']:5.0f}% {'met' if row['met'] else 'MISSED'}"
            lines.append(f"  {name:18} {row['served_ms']:9.2f} {100 * row['spread']:7.1f}% {row['simulated_ms']:10.2f} "
                         f"{100 * row['error']:+7.1f}% {verdict}")
    lines.append(f"{result['met']} of {result['goals']} goals met")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(prog="./run fidelity",
                                     description="simulated latencies against measured ones, on this machine")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--scenario", action="append", choices=[s.name for s in SCENARIOS], help="only this one")
    parser.add_argument("--repetitions", type=int, default=5, help="of each scenario")
    parser.add_argument("--requests", type=int, default=70, help="of each repetition")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of each instance")
    parser.add_argument("--profile-time", type=float, default=30, metavar="S", help="for each of the two profiles")
    parser.add_argument("--keep", metavar="DIR", help="where to leave the profiles")
    parser.add_argument("--reuse", action="store_true", help="take profiles that are in --keep")
    parser.add_argument("--model", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--godwit", required=True, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    wanted = [s for s in SCENARIOS if not asked.scenario or s.name in asked.scenario]
    if asked.keep:
        os.makedirs(asked.keep, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(asked, scratch)
        profiles = {n: bench.profile(n) for n in sorted({s.instances for s in wanted})}
        result = {"threads": asked.threads, "lengths": LENGTHS,
                  "scenarios": [bench.scenario(s, profiles[s.instances]) for s in wanted]}
    verdicts = [row["met"] for one in result["scenarios"] for row in one["latencies"].values()
                if row["goal"] is not None]
    result |= {"goals": len(verdicts), "met": sum(verdicts)}
    print(json.dumps(result) if asked.json else table(result))
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as why_not:
        sys.exit(f"fidelity: {why_not}")
    except KeyboardInterrupt:
        sys.exit(130)
