"""Figure 10: what a migration costs the request that moves, by its length."""

import json
import os
import tempfile

import chart
from page import fine, ms, percent, picture, ratio, span, table, times
from simulate import Failed

LENGTHS = (256, 512, 1024, 2048, 4096, 8192)
PROFILES = {"llama-7b-a10": "LLaMA-7B", "llama-30b-4xa10": "LLaMA-30B"}
BATCH_TOKENS = 8192
POOL = 100000  # blocks
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "gpu", "sim", "profiles")


def profile_of(name):
    with open(os.path.join(FOLDER, name + ".json"), encoding="utf-8") as file:
        return json.load(file)


def memory_of(device):
    """Bytes/s that steps of a profile get out of its memory."""
    return device["attention"]["kv_bytes_per_second"]


def exchange(device, length):
    """Two instances that decode a batch of 8k tokens each, and a request of the same length that goes to and fro: whoever
    has it is below the threshold and the other above it. A request's length is that of the middle of its answer."""
    batch, answer = BATCH_TOKENS // length, max(200, length // 8)
    threshold = (POOL / batch + POOL / (batch + 1)) / 2 - length / 16
    return ["--profile", device, "--instances", 2, "--lengths", f"fixed:{length - answer // 2}:{answer}",
            "--requests", 2 * batch + 1, "--policy", "round_robin", "--migration", "freeness",
            "--scheduler-migrate-below", f"{threshold:.1f}", "--scheduler-migrate-above", f"{threshold:.1f}",
            "--scheduler-move-gain", 0, "--scheduler-move-cooldown", "0.1s",
            "--no-llumlet-prefix-caching"]  # or what comes back finds what it left behind, and copies next to nothing


def pooled(runs, path):
    """Of all seeds together; what had none has no mean."""
    each = [(report[f"{path}.count"], report) for report in runs.reports if report[f"{path}.count"] > 0]
    count = sum(n for n, _ in each)
    if not count:
        raise Failed(f"{runs.reports[0].command}\n{path}: of nothing, with all seeds")
    return {"count": count, "mean": sum(n * report[f"{path}.mean"] for n, report in each) / count,
            "max": max(report[f"{path}.max"] for _, report in each)}


def step_of(runs):
    """A decode step of the whole batch, ms: whoever began last has waited for nobody's prompt."""
    return min((row["last_token_s"] - row["first_token_s"]) * 1000 / (row["answer_tokens"] - 1)
               for row in runs.reports[0].rows)


def section(sim, scale, folder):
    moves, prompts, steps = [], [], []
    with tempfile.TemporaryDirectory() as scratch:
        for name in PROFILES:
            roomy = os.path.join(scratch, name + ".json")
            with open(roomy, "w", encoding="utf-8") as file:
                device = profile_of(name)
                json.dump({**device, "kv_blocks": POOL,
                           "link": {**device["link"], "device_bytes_per_second": memory_of(device)}}, file)
            for length in LENGTHS:
                moves.append(exchange(roomy, length))
                prompts.append(["--profile", name, "--instances", 1, "--lengths", f"fixed:{length}:1", "--requests", 1])
                steps.append(["--profile", name, "--instances", 1, "--lengths", f"fixed:{length - 20}:16",
                              "--requests", BATCH_TOKENS // length])
        seeds = scale.seeds(10)
        reports = iter(zip(sim.all(moves, seeds), sim.all(prompts), sim.all(steps, rows=True)))
    rows, charts, worst, stalls, gaps, two, slower = [], [], 0, [], [], [], {}
    for profile, name in PROFILES.items():
        lines = {"migration": [], "client": [], "blocking copy": [], "recompute": [], "decode step": []}
        device = profile_of(profile)
        link, kv_bytes = device["link"], device["model"]["kv_bytes_per_token"]
        for length in LENGTHS:
            move, prompt, step = next(reports)
            stall = pooled(move, "migrations.stall_ms")
            copy = (link["overhead_us"] + link["latency_us"]) / 1000 + length * kv_bytes / link["bytes_per_second"] * 1000
            recompute, decode = prompt["prefill_ms.mean"], step_of(step)
            beyond = pooled(move, "migrations.gap_ms")["mean"] - decode
            slower.setdefault(name, []).append(pooled(move, "migrations.slowed_steps")["mean"])
            two.append(sum(report.counts("migrations.by_stages").get("2", 0) for report in move.reports) / stall["count"])
            for line, value in zip(lines.values(), (stall["mean"], beyond, copy, recompute, decode)):
                line.append((length, value))
            worst = max(worst, ratio(recompute, stall["mean"]))
            stalls.append((stall, decode))
            gaps.append(beyond)
            rows.append([name, length, f"{stall['count']:.0f}", ms(stall["mean"]), ms(stall["max"]), ms(beyond), ms(copy),
                         ms(recompute), ms(decode), times(ratio(recompute, stall["mean"]))])
        charts.append({"title": f"{name}: ms of downtime", "across": "tokens", "series": lines, "log": True,
                       "log_x": True})
    chart.write(f"{folder}/figure10.svg", charts)
    full_link = " and ".join(f"{fine(profile_of(name)['link']['bytes_per_second'] / memory_of(profile_of(name)))} of the {short}"
                             for name, short in PROFILES.items())
    big = rows[-1]
    return "\n".join([
        "## Figure 10: migration", "",
        "Two instances that decode a batch of 8k tokens each, and one request more of the same length that they hand to and fro. "
        f"Their pools have {POOL} blocks instead of the profile's, for two batches and the request, 24k tokens at most, do not fit "
        "an A10. The downtime is the time from the batch of the source until the destination has the request; what the "
        "client sees besides is that the destination's running step has to end: the mean gap between the last token before "
        "and the first one after, less a decode step. Recomputing is the simulated prefill of that length; the blocking copy is "
        "arithmetic with the profile's link (20.05 ms and 8 GB/s); the decode step is of a batch of 8k tokens together." + (f" {seeds} seeds." if seeds > 1 else ""), "",
        table(["model", "tokens", "migrations", "downtime mean", "max", "client's gap beyond a step", "blocking copy", "recompute",
               "decode step", "recompute over downtime"], rows), "",
        picture("figure10", "downtime by length"), "",
        table(["", "paper", "godwit sim"], [
            ["downtime, mean", "20-30 ms at every length", span([stall["mean"] for stall, _ in stalls], ms)],
            ["below one decode step", "yes", "yes" if all(stall["max"] < step for stall, step in stalls) else "no"],
            ["client's gap beyond a step", "", span(gaps, ms)],
            ["migrations in two stages", "always", span(two, percent)],
            ["recompute of 8k on the 30B", "3.5 s, 54 decode steps", f"{big[7]}; a decode step {big[8]}"],
            ["recompute over downtime, at most", "111x", times(worst)],
            ["slower decoding of the others", "at most 1 % (re-run 2 % to 3 %)",
             "; ".join(f"{name} {span(values, fine)}" for name, values in slower.items())]]), "",
        "The profile's link has 20 ms of overhead for a transfer, chosen for the paper's 20-30 ms: that the downtime begins "
        "there is no finding, that it hardly grows with the length is. It grows where the first copy takes more steps: more "
        "tokens are written meanwhile, and the last stage has more blocks. The 3.5 s are calibrated. They and 111x together mean a downtime of "
        f"31.5 ms, ours is {big[3]} there: hence the larger ratio.", "",
        "How much slower the others decode meanwhile is a model too: each byte of KV that leaves or arrives takes the "
        "device's memory from the steps for as long as they read a byte "
        "([formats/profile.md](formats/profile.md#a-steps-time), `device_bytes_per_second`). The row has the means over all steps that "
        "only decode, on either side, in which some did, for the lengths above. Copies have the link to themselves here, "
        f"and one that is never idle takes {full_link}. "
        "What engines do beside that, launching copies or fusing blocks, is not in it; "
        "`./run bench migration` measures all of it on the CPU engine ([bench.md](bench.md))."])
