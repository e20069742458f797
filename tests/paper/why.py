"""Figures 3 to 5: what goes wrong where requests stay where they were dispatched."""

import math

import chart
import migration
import serving
from page import median, ms, percent, picture, span, table, times
from simulate import percentile


def per_token(row):
    return (row["last_token_s"] - row["first_token_s"]) * 1000 / (row["answer_tokens"] - 1)


def tail_of(report):
    """What preemption did to one run, and to its slowest requests."""
    rows = sorted((row for row in report.rows if row["answer_tokens"] > 1), key=per_token)
    first = math.ceil(0.99 * len(rows)) - 1
    slowest, tail = rows[first], rows[first:]
    return {"load": report["memory.used_share"], "preempted": report["preemptions.requests"] / report["requests"],
            "spread": report["decode_ms.p99"] / report["decode_ms.p50"],
            "share of one": slowest["preemption_loss_s"] / lasted(slowest),
            "share": sum(row["preemption_loss_s"] for row in tail) / sum(lasted(row) for row in tail),
            "loss": sum(row["preemption_loss_s"] for row in tail) / len(tail) * 1000}


def lasted(row):
    return row["last_token_s"] - row["first_token_s"]


def preemption(sim, scale, folder):
    count, seeds = scale.requests(2000), scale.seeds(9)
    (runs,) = sim.all([["--instances", 1, "--lengths", "M-M", "--rate", 0.42, "--requests", count,
                        "--policy", "round_robin"]], seeds, rows=True)
    tails = [tail_of(report) for report in runs.reports]
    series = {}
    for seed, report in enumerate(runs.reports[:3], sim.seed):
        values = [per_token(row) for row in report.rows if row["answer_tokens"] > 1]
        series[f"seed {seed}"] = [(p, percentile(values, p / 100)) for p in (*range(5, 100, 5), 99)]
    chart.write(f"{folder}/figure3.svg", [{"title": "decode ms per token of a request", "across": "percentile",
                                           "series": series}])

    def line(name, paper, key, shown):
        values = [tail[key] for tail in tails]
        return [name, paper, shown(median(values)), span(values, shown)]

    return "\n".join([
        "## Figure 3: preemption", "",
        f"One instance, M-M, 0.42 requests/s, {count} requests: a moderate load that nothing evens out" +
        (f". {seeds} seeds." if seeds > 1 else "."), "",
        table(["", "paper", "godwit sim, median", "all seeds"], [
            line("mean memory load", "62 %", "load", percent),
            line("requests preempted", "8 %", "preempted", percent),
            line("decode per token, P99 over P50", "3.8x", "spread", times),
            line("share of the P99 request's decode time lost to preemption", "70 %", "share of one", percent),
            line("the same, all requests from P99 on", "", "share", percent),
            line("loss of a request from P99 on", "50 s (the P99 request, two preemptions)", "loss", ms)]), "",
        picture("figure3", "decode time per token by percentile"), "",
        "Step times were calibrated on the paper's 62 % by Little's law ([formats/profile.md](formats/profile.md)), so the "
        "load is no finding; how many requests are preempted and what it costs them is. One trace of long-tailed lengths "
        "differs much from another, as the seeds show, and the paper does not give its own."])


def interference(sim, _scale, folder):
    lengths = (64, 256, 1024, 4096)
    runs, shapes = [], []
    for profile in ("llama-7b-a10", "llama-30b-4xa10"):
        for length in lengths:
            batch = 1
            # Each sequence grows by 16 tokens; all must fit into one step's 12,800 and the 30B's 11,536.
            while batch * (length + 16) <= 11500:
                runs.append(["--instances", 1, "--profile", profile, "--lengths", f"fixed:{length}:16",
                             "--requests", batch])
                shapes.append((profile, length, batch))
                batch *= 2
    series, extremes = {"llama-7b-a10": {}, "llama-30b-4xa10": {}}, []
    for (profile, length, batch), report in zip(shapes, sim.all(runs, rows=True)):
        series[profile].setdefault(f"{length} tokens", []).append((length * batch, migration.step_of(report)))
    rows = []
    for profile, lines in series.items():
        for name, line in lines.items():
            spread = max(y for _, y in line) / min(y for _, y in line)
            extremes.append(spread)
            rows.append([profile, name, len(line) and f"1 to {2 ** (len(line) - 1)}", ms(line[0][1]), ms(line[-1][1]),
                         times(spread)])
    chart.write(f"{folder}/figure4.svg", [{"title": f"{profile}: ms per decode step", "across": "tokens in the batch",
                                           "series": lines} for profile, lines in series.items()])
    return "\n".join([
        "## Figure 4: interference", "",
        "Decode steps of batches of equal sequences, each simulated on one instance.", "",
        table(["profile", "each sequence", "sequences", "alone", "largest batch", "ratio"], rows), "",
        picture("figure4", "decode step by tokens in the batch"), "",
        f"The paper: up to 2.6x at equal sequence length. Ours: up to {times(max(extremes))}. The 7B's 2.6x is what the "
        "profile was calibrated on and confirms nothing; the 30B's ratio was not, but the engine's cost for each "
        "sequence is taken over from the 7B's."])


def waits(report, end):
    """Of the seconds in which requests arrive: the shares in which somebody waits for memory, in which at least one, two, three
    heads of line would fit into the cluster's free memory, that of those with three heads of line or more in which three would,
    and of memory used."""
    seconds = during(report, end)

    def share(condition, among):
        return sum(1 for s in among if condition(s)) / max(1, len(among))

    crowded = [s for s in seconds if s["heads_waiting"] >= 3]
    return [share(lambda s: s["heads_waiting"] > 0, seconds),
            *(share(lambda s, n=n: s["heads_fitting"] >= n, seconds) for n in (1, 2, 3)),
            share(lambda s: s["heads_fitting"] >= 3, crowded),
            sum(s["blocks_used"] for s in seconds) / sum(s["blocks_total"] for s in seconds)]


def during(report, end):
    return [s for s in report.samples if s["time_s"] <= end]


def fragmentation(sim, scale, folder):
    count, seeds = scale.requests(2000), scale.seeds(5)
    common = ["--instances", 4, "--lengths", "M-M", "--rate", 1.9, "--requests", count]
    both = sim.all([[*common, "--policy", "infaas++"], [*common, "--policy", "llumnix-base",
                    "--scheduler-migrate-below", 10, "--scheduler-migrate-above", 20]], seeds, samples=True)
    end = count / 1.9  # after that nothing arrives
    names = ("dispatch only (infaas++)", "with migration (llumnix-base)")
    rows = []
    for name, runs in zip(names, both):
        shares = [waits(report, end) for report in runs.reports]
        rows.append([name, *(percent(median([share[i] for share in shares])) for i in range(6)),
                     ms(runs["prefill_ms.mean"]), ms(runs["prefill_ms.p99"])])
    chart.write(f"{folder}/figure5.svg", [
        {"title": f"blocks, {name}, seed {sim.seed}", "across": "s", "series": {
            "free in the cluster": [(s["time_s"], s["blocks_total"] - s["blocks_used"])
                                    for s in during(runs.reports[0], end)],
            "of no use to those who wait": [(s["time_s"], s["blocks_fragmented"]) for s in during(runs.reports[0], end)]}}
        for name, runs in zip(names, both)], 1)
    return "\n".join([
        "## Figure 5: fragmentation", "",
        f"Four instances, M-M, 1.9 requests/s, {count} requests; only the time while requests arrive" +
        (f". Medians of {seeds} seeds." if seeds > 1 else "."), "",
        table(["", "time in which a head of line waits for memory", "1 or more would fit elsewhere", "2 or more", "3 or more",
               "3 or more fit, of the time in which 3 or more wait", "memory used", "prefill mean", "P99"], rows), "",
        picture("figure5", "free blocks over time, and those of no use"), "",
        "The paper's metric is the time in which the cluster's free memory would hold the first in line of so many instances, smallest "
        "first, which do not find it on their own. It says in words that this is three or more most of the time (sometimes all four), "
        "without a number. Ours is less: the columns are shares of all seconds, and heads of line wait in only some of these. "
        "Possibly our INFaaS++ makes fewer wait since it dispatches with fresh numbers; and the paper counts whoever is first in "
        "line, ours only those whose demand is more than their instance has free. Samples are one second apart. The second line is "
        "not in the paper's figure."])


def over_time(sim, scale, folder):
    """Figure 12, and how busy migration keeps the instances."""
    count, seeds, rate = scale.requests(10000), scale.seeds(3), 8
    names = {"infaas++": "INFaaS++", "llumnix-base": "Llumnix"}
    both = sim.all([serving.arguments("M-M", rate, policy, count) for policy in names], seeds, samples=True)
    rows = [[name, percent(runs["memory.used_share"]), percent(runs["memory.fragmented_share"]),
             percent(runs["memory.fragmented_share_max"]), percent(runs["memory.fragmented_time"]), ms(runs["prefill_ms.p99"])]
            for name, runs in zip(names.values(), both)]
    end = count / rate
    chart.write(f"{folder}/figure12.svg", [
        {"title": f"% of all memory, free and of no use, seed {sim.seed}", "across": "s", "series": {
            name: [(s["time_s"], 100 * s["blocks_fragmented"] / s["blocks_total"]) for s in during(runs.reports[0], end)]
            for name, runs in zip(names.values(), both)}}], 1)
    stages = [report.counts("migrations.by_stages") for report in both[1].reports]
    two = [counts.get("2", 0) / sum(counts.values()) for counts in stages if counts]
    return "\n".join([
        "## Figure 12: fragmentation over time", "",
        f"16 instances, M-M, {rate} requests/s, {count} requests, as in figure 11" +
        (f"; medians of {seeds} seeds." if seeds > 1 else "."), "",
        table(["policy", "memory used", "fragmented, mean", "at most", "time in which any is", "prefill P99"], rows), "",
        picture("figure12", "memory that is free and of no use, over time"), "",
        "Fragmented is what heads of line demand that the whole cluster could hold and their instances cannot "
        "([simulation.md](simulation.md#figures)). The paper has a plot of it, which was not read off. Llumnix leaves less, "
        "since it moves requests away from an instance whose head of line waits.", "",
        "### How busy migration keeps the instances", "",
        "Of Llumnix's runs above.", "",
        table(["", "paper", "godwit sim"], [
            ["migrations of running requests in two stages", "always", span(two, percent) if two else "there were none"],
            ["time in which an instance has a migration under way", "roughly 10 %",
             percent(both[1]["migrations.time_share"])]]), "",
        "Short requests, of which M-M has many, need one stage: all that they have is a last stage. Time under way is less than in "
        "the paper, most likely because the artifact pairs instances every few steps and keeps them paired, while each of ours has to gain by "
        "a move (`scheduler.move_gain`) and lets a request rest after one (`scheduler.move_cooldown`)."])
