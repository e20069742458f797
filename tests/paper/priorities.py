"""Figure 13: requests that go first and decode undisturbed."""

import chart
import serving
from page import latency, median, percent, picture, span, table, times

KEYS = {"end_to_end_ms": "end to end", "prefill_ms": "prefill", "decode_ms": "decode"}
ARTIFACT_RATE, ARTIFACT_HIGHEST = 26, 38  # of S-S in figures 13 and 11
BLOCKS = 851  # an instance's
TARGET = 1600 // 16  # blocks of load that the artifact allows beside a high-priority request


def section(sim, scale, folder):
    count, seeds, points = scale.requests(10000), scale.seeds(3), (2, 4, 6, 8)
    top = serving.by_rule(sim, scale, ("S-S",)).get("S-S")
    rates = (ARTIFACT_RATE,) if not top else (ARTIFACT_RATE, round(ARTIFACT_RATE / ARTIFACT_HIGHEST * top))
    common = ["--instances", 16, "--lengths", "S-S", "--requests", count, "--priority-share", "high=0.1",
              *serving.thresholds("S-S")]
    keys = [(rate, cv, policy) for rate in rates for cv in points for policy in ("llumnix-base", "llumnix")]
    runs = dict(zip(keys, sim.all([[*common, "--rate", rate, "--cv", cv, "--policy", policy]
                                   for rate, cv, policy in keys], seeds, samples=True)))
    headrooms = {"0": "none: they only go first", str((BLOCKS - TARGET) // 2): "half of that",
                 str(BLOCKS - TARGET): "the artifact's: all but 1,600 tokens"}
    fixed = dict(zip(headrooms, sim.all(
        [[*common, "--rate", ARTIFACT_RATE, "--cv", 4, "--policy", "llumnix", "--priorities-execution",
          f"normal=0,high={blocks}"] for blocks in headrooms], seeds)))
    (alone,) = sim.all([["--instances", 1, "--lengths", "fixed:38:38", "--requests", 1]])
    chart.write(f"{folder}/figure13.svg", [
        {"title": f"{rate}/s, high priority, {name}, mean ms", "across": "CV", "series": {
            policy: [(cv, runs[rate, cv, policy].level("high")[f"{key}.mean"]) for cv in points]
            for policy in ("llumnix-base", "llumnix")}}
        for rate in rates for key, name in KEYS.items()], 3)
    return "\n".join([
        "## Figure 13: priorities", "",
        f"S-S, Gamma arrivals, {count} requests of which 10 % at random have high execution priority and go first; "
        "llumnix-base knows no priorities. The artifact's rate, 26 requests/s" +
        (f", and {rates[-1]}, which is as much of the highest rate here (figure 11, *) as 26 is of the artifact's" if top else "") +
        ". Headroom is what each instance measures at its start (`auto`): all but the load at which a decode step takes 5 % "
        "longer than alone. Mean / P99" + (f", medians of {seeds} seeds." if seeds > 1 else "."), "",
        table(["rate", "CV", "requests", "end to end, base", "llumnix", "prefill, base", "llumnix", "decode, base",
               "llumnix"], rows(runs, rates, points)), "",
        picture("figure13", "high-priority requests by burstiness"), "",
        table(["base over llumnix", "paper", *(f"godwit sim at {rate}" for rate in rates)],
              compared(runs, rates, points, alone["decode_ms.mean"])), "",
        "Where normal requests lose it: memory that is kept as headroom (of all instances', mean over the time in which requests "
        "arrive), seconds in which a head of line waits for memory, requests that are preempted; medians" +
        (f" of {seeds} seeds, and all seeds." if seeds > 1 else "."), "",
        table(["rate", "CV", "kept as headroom", "heads of line wait, base", "llumnix", "preempted, base", "llumnix"],
              locked(runs, rates, points, count)), "",
        f"What headroom brings and costs, at {ARTIFACT_RATE} requests/s and a CV of 4:", "",
        table(["headroom, blocks", "", "high: end to end, mean", "decode, mean", "normal: end to end, mean", "decode, mean"],
              [dear(blocks, words, fixed[blocks], runs[ARTIFACT_RATE, 4, "llumnix-base"])
               for blocks, words in headrooms.items()] +
              [dear("auto", "measured", runs[ARTIFACT_RATE, 4, "llumnix"], runs[ARTIFACT_RATE, 4, "llumnix-base"])]), "",
        differ(runs, rates, points, alone["decode_ms.mean"])])


def pair(runs, rate, cv, level):
    return (runs[rate, cv, policy].level(level) for policy in ("llumnix-base", "llumnix"))


def rows(runs, rates, points):
    out = []
    for rate in rates:
        for cv in points:
            for level in ("high", "normal"):
                both = tuple(pair(runs, rate, cv, level))
                out.append([rate, cv, level] + [latency(of, key) for key in KEYS for of in both])
    return out


def locked(runs, rates, points, count):
    out = []
    for rate in rates:
        for cv in points:
            base, ours = ([kept(report, count / rate) for report in runs[rate, cv, policy].reports]
                          for policy in ("llumnix-base", "llumnix"))
            out.append([rate, cv, over(ours, 0, percent)] + [over(of, i, shown) for i, shown in (
                (1, percent), (2, lambda n: f"{n:.0f}")) for of in (base, ours)])
    return out


def kept(report, end):
    """Share of the memory that is kept as headroom, share of the seconds in which a head of line waits, preempted requests."""
    seconds = [s for s in report.samples if s["time_s"] <= end]
    return (sum(s["blocks_headroom"] for s in seconds) / sum(s["blocks_total"] for s in seconds),
            sum(1 for s in seconds if s["heads_waiting"] > 0) / len(seconds), report["preemptions.requests"])


def over(seeds, index, shown):
    values = [seed[index] for seed in seeds]
    return shown(median(values)) + (f" ({span(values, shown)})" if len(values) > 1 else "")


def gained(runs, rate, points, level, path):
    """For each CV and seed, how many times as long it takes without priorities."""
    found = []
    for cv in points:
        base, ours = pair(runs, rate, cv, level)
        found.append(base.each(ours, path))
    return found


def losses(found):
    """From gains to the shares by which somebody is slower."""
    return [[1 / gain - 1 for gain in seeds] for seeds in found]


def signed(share):
    return f"{share * 100:+.1f} %"


def extremes(found, shown):
    """The least and the most of the medians, and of all seeds."""
    medians, every = [median(seeds) for seeds in found], sum(found, [])
    return span(medians, shown) + (f" (seeds: {span(every, shown)})" if len(every) > len(medians) else "")


def compared(runs, rates, points, alone):
    said = [("high", "end_to_end_ms.mean", "high: end to end, mean", "1.2x to 1.5x"),
            ("high", "prefill_ms.mean", "high: prefill, mean", "2.9x to 8.6x"),
            ("high", "prefill_ms.p99", "high: prefill, P99", "3.6x to 10x"),
            ("high", "decode_ms.mean", "high: decode, mean", "1.2x to 1.5x"),
            ("high", "decode_ms.p99", "high: decode, P99", "1.3x to 2.2x"),
            ("normal", "end_to_end_ms.mean", "normal: end to end, mean", "at most 4.5 % slower"),
            ("normal", "prefill_ms.mean", "normal: prefill, mean", "at most 13 % slower"),
            ("normal", "decode_ms.mean", "normal: decode, mean", "at most 2 % slower")]
    out = []
    for level, path, name, paper in said:
        found = [gained(runs, rate, points, level, path) for rate in rates]
        out.append([name, paper] + [extremes(losses(f), signed) if level == "normal" else extremes(f, times) for f in found])
    out.insert(4, ["base's decode, mean, over that of a request alone", ""] +
               [span([most(runs, rate, cv, alone) for cv in points], times) for rate in rates])
    return out


def most(runs, rate, cv, alone):
    """What decoding can gain at most."""
    return runs[rate, cv, "llumnix-base"].level("high")["decode_ms.mean"] / alone


def dear(blocks, words, ours, base):
    def loses(path):
        return 1 / base.level("normal").times(ours.level("normal"), path) - 1

    return [blocks, words, *(times(base.level("high").times(ours.level("high"), path))
                             for path in ("end_to_end_ms.mean", "decode_ms.mean")),
            *(signed(loses(path)) for path in ("end_to_end_ms.mean", "decode_ms.mean"))]


def differ(runs, rates, points, alone):
    bound = max(most(runs, ARTIFACT_RATE, cv, alone) for cv in points)
    gain = max(median(seeds) for seeds in gained(runs, ARTIFACT_RATE, points, "high", "decode_ms.mean"))
    out = (f"At the artifact's rate decoding could gain {times(bound)} at most, since a request decodes in {alone:.1f} ms a token "
           f"alone; it does gain up to {times(gain)}. The paper's gains need more crowded instances, which its cluster has at "
           "26/s and ours has not (figure 11: S-S). Prefill has little to gain for the same reason: without priorities hardly anybody "
           "queues.")
    if len(rates) > 1:
        out += (f" At {rates[-1]}/s, where instances are more crowded, high-priority requests gain more; the second table says how "
                "far that is from the paper's. By the tokens that arrive the paper's experiment compares with ours at "
                f"{ARTIFACT_RATE}/s.")
    return "\n\n".join([
        out,
        "Normal requests pay more than in the paper, with every CV: seeds differ more than CVs do, and no single run is to blame. A "
        "request of high priority goes to an instance that keeps headroom already, as in the artifact. But together they hold about a "
        "tenth of the memory in use, several times the load that headroom leaves an instance, so that migration spreads them, and "
        "every instance that gets one keeps most of its memory free for it (third table). The others fill up; normal requests wait and "
        "are preempted there. The artifact looks for a request of normal priority to migrate. What spreading costs normal "
        "requests is what high ones gain by it: how much headroom to keep is a choice between the two "
        "([serving.md](serving.md#priorities)), as the last table shows."])
