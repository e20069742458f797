"""Figure 13: requests that go first and decode undisturbed."""

import chart
import serving
from page import latency, percent, picture, span, table, times

KEYS = {"end_to_end_ms": "end to end", "prefill_ms": "prefill", "decode_ms": "decode"}
ARTIFACT_RATE, ARTIFACT_HIGHEST = 26, 38  # of S-S in figures 13 and 11
BLOCKS = 851  # an instance's
TARGET = 1600 // 16  # blocks of load that the artifact allows beside a high-priority request


def section(sim, scale, folder):
    count, seeds, points = scale.requests(10000), scale.seeds(3), (2, 4, 6, 8)
    top = serving.by_rule(sim, scale).get("S-S")
    rates = (ARTIFACT_RATE,) if not top else (ARTIFACT_RATE, round(ARTIFACT_RATE / ARTIFACT_HIGHEST * top))
    common = ["--instances", 16, "--lengths", "S-S", "--requests", count, "--priority-share", "high=0.1",
              *serving.thresholds("S-S")]
    keys = [(rate, cv, policy) for rate in rates for cv in points for policy in ("llumnix-base", "llumnix")]
    runs = dict(zip(keys, sim.all([[*common, "--rate", rate, "--cv", cv, "--policy", policy]
                                   for rate, cv, policy in keys], seeds)))
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


def gained(runs, rate, points, level, path):
    """For each CV, how many times as long it takes without priorities."""
    found = []
    for cv in points:
        base, ours = pair(runs, rate, cv, level)
        found.append(base.times(ours, path))
    return found


def slower(found):
    """From gains to the most that somebody loses."""
    most = max(1 / gain - 1 for gain in found)
    return f"at most {percent(most)} slower" if most > 0 else "none slower"


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
        out.append([name, paper] + [slower(f) if level == "normal" else span(f, times) for f in found])
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
            *(f"{loses(path) * 100:+.1f} %" for path in ("end_to_end_ms.mean", "decode_ms.mean"))]


def differ(runs, rates, points, alone):
    bound = max(most(runs, ARTIFACT_RATE, cv, alone) for cv in points)
    gain = max(gained(runs, ARTIFACT_RATE, points, "high", "decode_ms.mean"))
    out = (f"At the artifact's rate decoding could gain {times(bound)} at most, since a request decodes in {alone:.1f} ms a token "
           f"alone; it does gain up to {times(gain)}. The paper's gains need more crowded instances, which its cluster has at "
           "26/s and ours has not (figure 11: S-S). Prefill has little to gain for the same reason: without priorities hardly anybody "
           "queues.")
    if len(rates) > 1:
        out += (f" At {rates[-1]}/s high-priority requests gain what the paper's do, but normal ones pay far more than there: headroom "
                "is kept whoever waits, so the instances without it run out of memory and normal requests queue there. "
                f"By the tokens that arrive the paper's experiment compares with ours at {ARTIFACT_RATE}/s.")
    return out + (" A request of high priority goes to an instance that keeps headroom already, unless that is fuller than the headroom "
                  "is dear elsewhere, as in the artifact; how much headroom to keep is a choice between the two kinds "
                  "([serving.md](serving.md#priorities)), as the last table shows.")
