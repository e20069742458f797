"""Figure 10: what a migration costs the request that moves, by its length."""

import chart
from page import ms, picture, ratio, span, table, times

LENGTHS = (256, 512, 1024, 2048, 4096, 8192)
PROFILES = {"llama-7b-a10": "LLaMA-7B", "llama-30b-4xa10": "LLaMA-30B"}
KV_BYTES = {"llama-7b-a10": 524288, "llama-30b-4xa10": 1597440}
LINK_US, LINK_BYTES = 20050, 8e9  # the profiles' link: overhead and latency, bytes/s


def section(sim, scale, folder):
    moves, prompts, steps = [], [], []
    for profile in PROFILES:
        for length in LENGTHS:
            # The prompt leaves room for the answer; a request alone on one of two instances keeps being moved.
            device = ["--profile", profile]
            moves.append([*device, "--instances", 2, "--lengths", f"fixed:{length - 150}:300", "--rate", 0.3,
                          "--requests", scale.requests(200, 40), "--policy", "round_robin", "--migration", "freeness",
                          "--scheduler-migrate-below", 700, "--scheduler-migrate-above", 701,
                          "--scheduler-hysteresis", 0, "--scheduler-move-gain", 0, "--scheduler-move-cooldown", "0.1s"])
            prompts.append([*device, "--instances", 1, "--lengths", f"fixed:{length}:1", "--requests", 1])
            steps.append([*device, "--instances", 1, "--lengths", f"fixed:{length - 20}:16",
                          "--requests", 8192 // length])
    reports = iter(zip(sim.all(moves), sim.all(prompts), sim.all(steps)))
    rows, charts, worst, stalls = [], [], 0, []
    for profile, name in PROFILES.items():
        lines = {"migration": [], "blocking copy": [], "recompute": [], "decode step": []}
        for length in LENGTHS:
            move, prompt, step = next(reports)
            stall = {what: move[f"migrations.stall_ms.{what}"] for what in ("count", "mean", "max")}
            copy = (LINK_US + length * KV_BYTES[profile] / LINK_BYTES * 1e6) / 1000
            recompute, decode = prompt["prefill_ms.mean"], step["decode_ms.p50"]
            for line, value in zip(lines.values(), (stall["mean"], copy, recompute, decode)):
                line.append((length, value))
            worst = max(worst, ratio(recompute, stall["mean"]))
            stalls.append((stall, decode))
            rows.append([name, length, f"{stall['count']:.0f}", ms(stall["mean"]), ms(stall["max"]), ms(copy), ms(recompute),
                         ms(decode), times(ratio(recompute, stall["mean"]))])
        charts.append({"title": f"{name}: ms of downtime", "across": "tokens", "series": lines, "log": True,
                       "log_x": True})
    chart.write(f"{folder}/figure10.svg", charts)
    big = rows[-1]
    return "\n".join([
        "## Figure 10: migration", "",
        "Two instances that hand requests of one length to and fro; the downtime is the time in which a request is in "
        "neither batch. Recomputing is the simulated prefill of that length; the blocking copy is arithmetic with the "
        "profile's link (20.05 ms and 8 GB/s); the decode step is of a batch of 8k tokens together.", "",
        table(["model", "tokens", "migrations", "downtime mean", "max", "blocking copy", "recompute", "decode step",
               "recompute over downtime"], rows), "",
        picture("figure10", "downtime by length"), "",
        table(["", "paper", "godwit sim"], [
            ["downtime, mean", "20-30 ms at every length", span([stall["mean"] for stall, _ in stalls], ms)],
            ["below one decode step", "yes", "yes" if all(stall["max"] < step for stall, step in stalls) else "no"],
            ["recompute of 8k on the 30B", "3.5 s, 54 decode steps", f"{big[6]}; a decode step {big[7]}"],
            ["recompute over downtime, at most", "111x", times(worst)],
            ["slower decoding of the others", "at most 1 %", "not modelled: the copy costs them nothing"]]), "",
        "The profile's link has 20 ms of overhead for a transfer, chosen for the paper's 20-30 ms: that the downtime begins "
        "there is no finding, that it hardly grows with the length is. It grows where steps last longer, since more is "
        "written meanwhile and the last stage is a second block. The 3.5 s are calibrated."])

