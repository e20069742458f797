"""Figure 11: latency over the request rate, for seven combinations of lengths."""

import chart
import rates
from page import latency, median, ms, percent, picture, ratio, table, times

POLICIES = {"round_robin": "round robin", "infaas++": "INFaaS++", "llumnix-base": "Llumnix"}
OTHERS = ("round_robin", "infaas++")
# The artifact's ranges, in even steps of ours.
ARTIFACT = {"sharegpt": (7, 7.5, 8), "burstgpt": (7.5, 8, 8.5), "S-S": (32, 34, 36, 38), "M-M": (7.4, 7.6, 7.8, 8),
            "L-L": (2.6, 2.8, 3, 3.2), "S-L": (4.1, 4.2, 4.3, 4.4), "L-S": (10, 14, 18, 22)}
DATA_SETS = ("sharegpt", "burstgpt")
THRESHOLD = {"M-M": 10, "S-L": 10}  # the artifact's; 3 otherwise


def thresholds(trace):
    below = THRESHOLD.get(trace, 3)
    return ["--scheduler-migrate-below", below, "--scheduler-migrate-above", 2 * below]


def arguments(trace, rate, policy, count):
    return ["--instances", 16, "--lengths", trace, "--rate", rate, "--policy", policy, "--requests", count,
            *thresholds(trace)]


def by_rule(sim, scale, traces, *more):
    """{trace: its highest rate}, with `more` arguments; with --quick no runs are long enough to tell."""
    if scale.quick:
        return {}
    count, found = scale.requests(10000), scale.found.setdefault(more, {})
    new = [trace for trace in traces if trace not in found]
    found |= rates.highest(new, lambda pairs: sim.all(
        [[*arguments(trace, rate, "llumnix-base", count), *more] for trace, rate in pairs]))
    return {trace: found[trace] for trace in traces}


def combinations(sim, scale, folder):
    tops, count, seeds = by_rule(sim, scale, ARTIFACT), scale.requests(10000), scale.seeds(3)
    plan = {trace: sorted({*((line[0], line[-1]) if scale.quick else line), tops.get(trace, line[0])})
            for trace, line in ARTIFACT.items()}
    keys = [(trace, rate, policy) for trace, line in plan.items() for rate in line for policy in POLICIES]
    runs = dict(zip(keys, sim.all([arguments(*key, count) for key in keys], seeds)))
    out = ["## Figure 11: latency by request rate", "",
           f"16 instances of LLaMA-7B, Poisson arrivals, {count} requests for each run" +
           (f"; each line has the medians of {seeds} runs with different seeds" if seeds > 1 else "") +
           ". Latencies are mean / P99. Migration from instances below a freeness of 3 blocks (M-M and S-L: 10), the artifact's "
           "threshold, to instances above twice that; in the artifact every instance above the one threshold takes requests.", "", *rule(scale, tops), ""]
    charts = []
    for trace, line in plan.items():
        rows = []
        for rate in line:
            for policy, name in POLICIES.items():
                report = runs[trace, rate, policy]
                rows.append([mark(rate, tops.get(trace)), name, latency(report, "end_to_end_ms"),
                             latency(report, "prefill_ms"), ms(report["prefill_ms.p50"]), latency(report, "decode_ms"),
                             ms(report["preemption_loss_ms.mean"]), percent(report["memory.used_share"]),
                             f"{report['migrations.committed']:.0f}"])
        out += [f"### {trace}", "", table(
            ["rate", "policy", "end to end", "prefill", "prefill P50", "decode per token", "preemption loss, mean",
             "memory used", "migrations"], rows), ""]
        for key, what in (("prefill_ms.p99", "prefill P99"), ("decode_ms.p99", "decode P99")):
            charts.append({"title": f"{trace}: {what}, ms", "across": "requests/s", "log": True, "series": {
                name: [(rate, runs[trace, rate, policy][key]) for rate in line] for policy, name in POLICIES.items()}})
    chart.write(f"{folder}/figure11.svg", charts)
    return "\n".join([*out, picture("figure11", "prefill and decode P99 by rate"), "", *gains(plan, runs, tops),
                      *saturation(runs, tops)])


def mark(rate, top):
    return f"{rate:g}{'*' if rate == top else ''}"


def rule(scale, tops):
    if not tops:
        return ["Rates are the ends of the artifact's ranges."]
    return [f"Rates: the artifact's ranges in even steps, and for every trace by one rule (*), the paper's: the highest at which "
            f"Llumnix's P50 does not queue and its P99 does for tens of seconds at most. Here this is a prefill with a P50 "
            f"of at most {ms(rates.P50_MS)} and a P99 of at most {ms(rates.P99_MS)}, found by halving a grid of rates "
            "with the first seed alone; the medians of all seeds, which stand in the tables, may be beyond these bounds."]


KEYS = {"end_to_end_ms": "end to end", "prefill_ms": "prefill", "decode_ms": "decode per token"}
REAL, GENERATED = "ShareGPT, BurstGPT", "generated"
LOSS = "preemption_loss_ms.mean"
# (against, what, kind of trace): what the paper says, in the artifact's figure11_paper.claim and figure11.claim, and why
# ours is what it is: a letter of NOTES.
SAID = {
    ("round_robin", "end_to_end_ms.mean", REAL): ("2x", "a"),
    ("round_robin", "end_to_end_ms.p99", REAL): ("2.9x", "a"),
    ("round_robin", "prefill_ms.mean", REAL): ("26.6x", "b"),
    ("round_robin", "prefill_ms.p99", REAL): ("34.4x", "b"),
    ("round_robin", "decode_ms.p99", REAL): ("2x", "b"),
    ("round_robin", LOSS, REAL): ("-84 %", "c"),
    ("infaas++", "prefill_ms.mean", REAL): ("2.2x", "d"),
    ("infaas++", "prefill_ms.p99", REAL): ("5.5x", "d"),
    ("infaas++", "decode_ms.p99", REAL): ("1.3x", "d"),
    ("infaas++", "end_to_end_ms.mean", GENERATED): ("1.5x (re-run 1.65x)", "e"),
    ("infaas++", "end_to_end_ms.p99", GENERATED): ("1.6x (re-run 2.59x)", "e"),
    ("infaas++", "prefill_ms.mean", GENERATED): ("7.7x (re-run 6.1x)", "e"),
    ("infaas++", "prefill_ms.p99", GENERATED): ("14.8x (re-run 15.6x)", "e"),
    ("infaas++", "decode_ms.mean", GENERATED): ("re-run 1.16x", "e"),
    ("infaas++", "decode_ms.p99", GENERATED): ("2x (re-run 1.61x)", "e"),
    ("infaas++", LOSS, GENERATED): ("-70.4 % (re-run -99.98 %)", "c"),
}
NOTES = {
    "a": "At the artifact's rates our cluster is about a fifth below the highest rate that it carries (next table): most "
         "requests do not queue under round robin either, and then end to end is decoding, which dispatch hardly changes. At * "
         "memory is short under every policy.",
    "b": "Near the artifact's rates round robin is where its tail turns from none to tens of seconds, so that these ratios "
         "change several times over within one request a second: the paper's lie between our two columns or near the first.",
    "c": "A mean of shares, each of which is -100 % where Llumnix preempts nobody, as it does where memory is far from full, and "
         "small where everything is full. The paper's mean is over all its rates, ours over the points of the column.",
    "d": "Our lengths follow the percentiles of the data sets, prompt and answer drawn independently, which may be milder than the "
         "data. And our instances report every change at once, so that dispatch alone decides with fresh "
         "numbers; the artifact's report after each step.",
    "e": "Of the paper's size. Where a P99 turns from none who queue to tens of seconds, it is severalfold from one rate to the next.",
}


def best(runs, places, policy, key):
    """The largest median gain of Llumnix over `policy` at these (trace, rate), and where."""
    gained = [(runs[(*place, policy)].times(runs[(*place, "llumnix-base")], key), place) for place in places]
    gain, (trace, rate) = max(gained)
    return gain, f"{times(gain)} ({trace} at {rate:g})"


def lost(runs, places, policy):
    """Mean over these places of the share of the preemption loss, its median over the seeds, that Llumnix avoids."""
    saved = [1 - ratio(runs[(*place, "llumnix-base")][LOSS], runs[(*place, policy)][LOSS]) for place in places
             if runs[(*place, policy)][LOSS] > 0]
    return f"{percent(-sum(saved) / len(saved))}" if saved else "nobody lost anything"


def said(policy, path, kind):
    """The paper's figure, with the letter of the note that says why ours is another; none goes without."""
    if (policy, path, kind) not in SAID:
        return ""
    figure, letter = SAID[policy, path, kind]
    if not NOTES.get(letter):
        raise ValueError(f"the paper's {figure} for {path} over {policy} ({kind}) has no note")
    return f"{figure} ({letter})"


def gains(plan, runs, tops):
    sound = [(trace, rate) for trace, line in plan.items() for rate in line
             if runs[trace, rate, "llumnix-base"]["prefill_ms.p50"] <= rates.P50_MS]
    columns = {}  # heading: its kind of trace, and its places or, for the paper's, none
    for kind, traces in ((REAL, DATA_SETS), (GENERATED, set(ARTIFACT) - set(DATA_SETS))):
        columns[f"{kind}: paper"] = kind, None
        columns[f"{kind}: artifact's rates"] = kind, [
            (t, rate) for t, rate in sound if t in traces and rate in ARTIFACT[t]]
        if tops:
            columns[f"{kind}: at *"] = kind, [
                (t, rate) for t, rate in sound if t in traces and rate == tops[t]]

    def cell(policy, path, kind, places):
        if places is None:
            return said(policy, path, kind)
        if not places:
            return ""
        return lost(runs, places, policy) if path == LOSS else best(runs, places, policy, path)[1]

    paths = {f"{key}.{what}": f"{name}, {what.replace('p99', 'P99')}" for key, name in KEYS.items()
             for what in ("mean", "p99")} | {LOSS: "preemption loss, mean of the reductions"}
    rows = [[f"{POLICIES[policy]}: {name}", *(cell(policy, path, *column) for column in columns.values())]
            for policy in OTHERS for path, name in paths.items()]
    return ["### Llumnix against the others, at most", "",
            "Where Llumnix's P50 does not queue; each gain is the median over the seeds, which give all policies the same "
            "requests; only the reductions of the preemption loss are those of its medians. The paper compares with round robin on ShareGPT and BurstGPT only; it leaves it out of the generated "
            "traces, in which a few long requests stop a whole instance, as worse by two orders of magnitude. So it is here.", "",
            table(["against", *columns], rows), "",
            *(f"* ({letter}) {words}" for letter, words in NOTES.items()), "",
            behind(runs, sound) + late(runs, sound), ""]


def behind(runs, sound):
    found = []
    for trace, rate in sound:
        theirs, ours = (runs[trace, rate, policy]["prefill_ms.mean"] for policy in ("infaas++", "llumnix-base"))
        if theirs < ours:
            found.append(f"{trace} at {rate:g} ({ms(ours)} against {ms(theirs)})")
    if not found:
        return "Nowhere in this table is Llumnix's mean prefill longer than INFaaS++'s."
    return ("Llumnix's mean prefill is longer than INFaaS++'s at: " + ", ".join(found) + ". Its dispatch looks at the "
            "memory for each running request, not at the time that a prompt waits for others.")


def late(runs, sound):
    """Where Llumnix's P99 is longer by a tenth and more, seed by seed: a few waits decide a P99 of long-tailed lengths."""
    found = []
    for trace, rate in sound:
        both = [runs[trace, rate, policy] for policy in ("llumnix-base", "infaas++")]
        ours, theirs = (run["prefill_ms.p99"] for run in both)
        if ours > 1.1 * theirs:
            seeds = zip(*([report["prefill_ms.p99"] for report in run.reports] for run in both))
            found.append(f"{trace} at {rate:g} ({', '.join(f'{ms(a)} against {ms(b)}' for a, b in seeds)})")
    return " Its P99 is more than a tenth longer, by the medians, at (seed by seed): " + "; ".join(found) + "." if found else ""


def saturation(runs, tops):
    if not tops:
        return []
    rows = []
    for trace, top in tops.items():
        theirs = ARTIFACT[trace]
        at = {policy: runs[trace, top, policy] for policy in POLICIES}
        rows.append([trace, f"{theirs[0]:g} to {theirs[-1]:g}", f"{top:g}", f"{top / theirs[-1]:.2f}",
                     latency(at["llumnix-base"], "prefill_ms"),
                     latency(at["infaas++"], "prefill_ms"), preempted(at["llumnix-base"]), preempted(at["infaas++"])])
    others = [top / ARTIFACT[trace][-1] for trace, top in tops.items() if trace != "S-S"]
    return ["### Where it saturates", "", table(
        ["trace", "artifact's rates", "highest by the rule (first seed)", "of the artifact's highest", "prefill, Llumnix", "INFaaS++",
         "preempted, Llumnix", "INFaaS++"], rows), "",
            "The paper's highest rates follow the same rule in words, so that the fourth column says how fast our simulated "
            f"cluster is by the paper's: {min(others):.2f} to {max(others):.2f} of it, but {tops['S-S'] / 38:.2f} with "
            "S-S, which has the most requests a second. What a request costs beyond its tokens is what the profile lacks: admitting and "
            "answering one costs nothing here. That in the artifact's engine a prompt takes a step of its own, in which nobody decodes, where "
            "here it rides along with the decodes, is a part of it (next section). The step times were calibrated on one rate of M-M."]


APART = ("--llumlet-batching", "prefill_first")


def steps(sim, scale, _):
    """Not in the paper: how much of figure 11 is how its engine forms steps."""
    count = scale.requests(10000)
    beside, apart = by_rule(sim, scale, ARTIFACT), by_rule(sim, scale, ARTIFACT, *APART)
    keys = [(trace, more) for trace in ARTIFACT for more in ((), APART)]
    runs = dict(zip(keys, sim.all([[*arguments(trace, ARTIFACT[trace][-1], "llumnix-base", count), *more] for trace, more in keys])))
    rows = []
    for trace, line in ARTIFACT.items():
        row = [trace, f"{line[-1]:g}"]
        for more in ((), APART):
            row += [latency(runs[trace, more], "prefill_ms"), latency(runs[trace, more], "decode_ms")]
        if beside:
            row += [f"{tops[trace]:g} ({tops[trace] / line[-1]:.2f})" for tops in (beside, apart)]
        rows.append(row)
    out = ["## Figure 11b: prompts in steps of their own", "",
           "Not a figure of the paper's. Its engine computes a step of prompts or a step of decodes, prompts first; ours has prompts ride along "
           f"with the decodes, and can do the other (`{' '.join(APART)}`). Llumnix as in figure 11, at the artifact's highest rates, first seed, "
           f"{count} requests; latencies are mean / P99" + (", and the highest rate by the rule, in parentheses over the artifact's." if beside else "."), "",
           table(["trace", "rate", "prefill, beside decodes", "decode", "prefill, in steps of their own", "decode",
                  *(["highest, beside decodes", "highest, in steps of their own"] if beside else [])], rows)]
    if beside:
        of = {name: {trace: tops[trace] / ARTIFACT[trace][-1] for trace in ARTIFACT} for name, tops in (("beside", beside), ("apart", apart))}
        others = [share for trace, share in of["apart"].items() if trace != "S-S"]
        out += ["", f"In steps of their own our cluster's highest rates are {min(others):.2f} to {max(others):.2f} of the artifact's, and "
                f"{of['apart']['S-S']:.2f} with S-S instead of {of['beside']['S-S']:.2f}: such steps are a part of the difference there. The rest is not known. "
                "Step times were calibrated on one rate of M-M with prompts beside decodes, and hold for the other way as far as that goes."]
    return "\n".join(out)


def preempted(runs):
    return percent(median([report["preemptions.requests"] / report["requests"] for report in runs.reports]))
