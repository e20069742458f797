"""Figures 11 and 13: latency over the request rate, and requests that go first."""

import chart
from page import ms, percent, picture, ratio, table, times

POLICIES = {"round_robin": "round robin", "infaas++": "INFaaS++", "llumnix-base": "Llumnix"}
# The artifact's rates; those of ShareGPT and BurstGPT are ours, up to where Llumnix's P50 begins to queue.
TRACES = {"sharegpt": (7, 9), "burstgpt": (9, 12), "S-S": (32, 38), "M-M": (7.4, 8.0), "L-L": (2.6, 3.2),
          "S-L": (4.1, 4.4), "L-S": (10, 22)}
OURS = ("sharegpt", "burstgpt")
THRESHOLD = {"M-M": 10, "S-L": 10}  # the artifact's; 3 otherwise
BEYOND = {"S-S": (60,), "M-M": (9,)}  # rates of ours
QUEUES_MS = 1000  # a P50 of the prefill above this is a queue


def thresholds(trace):
    below = THRESHOLD.get(trace, 3)
    return ["--scheduler-migrate-below", below, "--scheduler-migrate-above", 2 * below]


def latency(report, key):
    return f"{ms(report[key]['mean'])} / {ms(report[key]['p99'])}"


def combinations(sim, scale, folder):
    wanted, keys = [], []
    for trace, rates in TRACES.items():
        for rate in (rates if scale.quick else (*rates, *BEYOND.get(trace, ()))):
            for policy in POLICIES:
                keys.append((trace, rate, policy))
                wanted.append(["--instances", 16, "--lengths", trace, "--rate", rate, "--policy", policy,
                               "--requests", scale.requests(10000), *thresholds(trace)])
    reports = dict(zip(keys, sim.all(wanted)))
    out = ["## Figure 11: latency by request rate", "",
           f"16 instances of LLaMA-7B, Poisson arrivals, {scale.requests(10000)} requests for each line. Latencies are "
           "mean / P99. S, M, L: the artifact's rates, then rates of ours (*), since ours may saturate elsewhere; ShareGPT and "
           "BurstGPT: rates of ours, for the paper's text does not give its own. Migration below a freeness of 3 blocks (M-M and S-L: 10) as in "
           "the artifact, towards instances above twice that.", ""]
    best, saturation, charts = {}, [], []
    for trace, rates in TRACES.items():
        rows, fine = [], []
        swept = [rate for t, rate, p in keys if t == trace and p == "llumnix-base"]
        for rate in swept:
            ours = reports[trace, rate, "llumnix-base"]
            if ours["prefill_ms"]["p50"] <= QUEUES_MS:
                fine.append(rate)
            for policy, name in POLICIES.items():
                report = reports[trace, rate, policy]
                rows.append([f"{rate:g}{'*' if rate not in rates or trace in OURS else ''}",
                             name, latency(report, "end_to_end_ms"), latency(report, "prefill_ms"),
                             ms(report["prefill_ms"]["p50"]), latency(report, "decode_ms"),
                             ms(report["preemption_loss_ms"]["mean"]), percent(report["memory"]["used_share"]),
                             report["migrations"]["committed"]])
                if rate in rates and rate in fine and policy != "llumnix-base":
                    note_gains(best, policy, report, ours, f"{trace} at {rate:g}")
        out += [f"### {trace}", "", table(
            ["rate", "policy", "end to end", "prefill", "prefill P50", "decode per token", "preemption loss, mean",
             "memory used", "migrations"], rows), ""]
        last = reports[trace, swept[-1], "llumnix-base"]
        saturation.append([trace, f"{rates[0]:g} to {rates[-1]:g}" + (" (ours)" if trace in OURS else ""),
                           ms(reports[trace, rates[-1], "llumnix-base"]["prefill_ms"]["p99"]),
                           f"{max(fine):g}" if fine else "none", f"{swept[-1]:g}", ms(last["prefill_ms"]["p50"]),
                           ms(last["prefill_ms"]["p99"])])
        for key, what in (("prefill_ms", "prefill P99"), ("decode_ms", "decode P99")):
            charts.append({"title": f"{trace}: {what}, ms", "across": "requests/s", "log": True, "series": {
                name: [(rate, reports[trace, rate, policy][key]["p99"]) for rate in swept]
                for policy, name in POLICIES.items()}})
    chart.write(f"{folder}/figure11.svg", charts)
    return "\n".join(out + [picture("figure11", "prefill and decode P99 by rate"), "", *gains(best), "",
                            "### Where it saturates", "", table(
        ["trace", "rates of the paper", "prefill P99 at the highest of them", "highest rate tried at which Llumnix's P50 does not queue", "highest tried",
         "prefill P50 there", "P99 there"], saturation), "",
        f"The paper chose rates at which its P50 hardly queues and its P99 queues for up to tens of seconds; here a "
        f"P50 of the prefill above {ms(QUEUES_MS)} counts as queueing. Where the P99 of ours waits for about a second at the paper's "
        "highest rate, our simulated instances take more than the paper's did: a step costs what the profile says, which was "
        "calibrated on one rate of M-M, and admitting and answering a request costs nothing."])


def note_gains(best, policy, report, ours, where):
    found = best.setdefault(policy, {})
    for key in ("end_to_end_ms", "prefill_ms", "decode_ms"):
        for what in ("mean", "p99"):
            gain = ratio(report[key][what], ours[key][what])
            if gain > found.get((key, what), (0, ""))[0]:
                found[key, what] = (gain, where)
    if report["prefill_ms"]["mean"] < ours["prefill_ms"]["mean"]:
        found.setdefault("behind", []).append(
            f"{where} ({ms(ours['prefill_ms']['mean'])} against {ms(report['prefill_ms']['mean'])})")
    found.setdefault("behind", [])
    found.setdefault("loss", []).append((report["preemption_loss_ms"]["mean"], ours["preemption_loss_ms"]["mean"]))


def gains(best):
    said = {("round_robin", "end_to_end_ms", "mean"): "2x", ("round_robin", "end_to_end_ms", "p99"): "2.9x",
            ("round_robin", "prefill_ms", "mean"): "26.6x", ("round_robin", "prefill_ms", "p99"): "34.4x",
            ("round_robin", "decode_ms", "p99"): "2x", ("infaas++", "end_to_end_ms", "mean"): "1.5x (re-run 1.65x)",
            ("infaas++", "end_to_end_ms", "p99"): "1.6x (re-run 2.59x)",
            ("infaas++", "prefill_ms", "mean"): "7.7x (re-run 6.1x)",
            ("infaas++", "prefill_ms", "p99"): "14.8x (re-run 15.6x)", ("infaas++", "decode_ms", "mean"): "re-run 1.16x",
            ("infaas++", "decode_ms", "p99"): "2x (re-run 1.61x)"}
    names = {"end_to_end_ms": "end to end", "prefill_ms": "prefill", "decode_ms": "decode per token"}
    rows = []
    for policy in best:
        for (key, what), (gain, where) in ((k, v) for k, v in best[policy].items() if k not in ("loss", "behind")):
            rows.append([f"{POLICIES[policy]}: {names[key]}, {what.replace('p99', 'P99')}",
                         said.get((policy, key, what), ""), f"{times(gain)} ({where})"])
        saved = [1 - ratio(ours, theirs) for theirs, ours in best[policy]["loss"] if theirs > 0]
        rows.append([f"{POLICIES[policy]}: preemption loss, mean of the reductions",
                     {"round_robin": "-84 %", "infaas++": "-70.4 %"}[policy],
                     f"-{percent(sum(saved) / len(saved))}" if saved else "nobody lost anything"])
    return ["### Llumnix against the others, at most", "",
            "Over the paper's rates, and ours of ShareGPT and BurstGPT, where Llumnix's P50 does not queue. The paper compares with round robin on "
            "ShareGPT and BurstGPT only.", "",
            table(["against", "paper", "godwit sim"], rows), "",
            "Where ours gains more over round robin, it is on generated traces, in which a few long requests stop a whole "
            "instance; the paper leaves round robin out of these as worse by two orders of magnitude. INFaaS++ comes closer "
            "to Llumnix here than in the paper, in prefill above all. One reason may be that our instances report every change "
            "at once, so that dispatch alone decides with fresh numbers. " + lost(best["infaas++"]["behind"])]


def lost(behind):
    if not behind:
        return "Nowhere in this table is Llumnix's mean prefill longer than INFaaS++'s."
    return ("Llumnix's mean prefill is longer than INFaaS++'s at: " + ", ".join(behind) + ". Its dispatch looks at the "
            "memory for each running request, not at the time that a prompt waits for others; where nobody queues for memory "
            "that costs some milliseconds, and where it costs more a few long requests decide.")


def priorities(sim, scale, folder):
    count, variations = scale.requests(10000), (2, 4, 6, 8)
    rates, policies = {26: variations, 52: (2, 4)}, ("llumnix-base", "llumnix")
    wanted = [(rate, cv, policy) for rate, points in rates.items() for cv in points for policy in policies]
    reports = dict(zip(wanted, sim.all([
        ["--instances", 16, "--lengths", "S-S", "--rate", rate, "--cv", cv, "--requests", count, "--policy", policy,
         "--priority-share", "high=0.1", *thresholds("S-S")] for rate, cv, policy in wanted])))
    keys = ("end_to_end_ms", "prefill_ms", "decode_ms")
    rows, kept = [], {(rate, level): [] for rate in rates for level in (0, 1)}
    for rate, points in rates.items():
        for cv in points:
            for level in (1, 0):
                base, ours = (reports[rate, cv, policy]["levels"][level] for policy in policies)
                rows.append([f"{rate}{'*' if rate != 26 else ''}", cv, ours["priority"]] +
                            [latency(of, key) for key in keys for of in (base, ours)])
                kept[rate, level].append([ratio(base[key][what], ours[key][what])
                                          for key in keys for what in ("mean", "p99")])

    def span(rate, i):
        gained = [of[i] for of in kept[rate, 1]]
        return f"{times(min(gained))} to {times(max(gained))}"

    def worse(rate, i):
        most = max(1 / of[i] - 1 for of in kept[rate, 0])
        return f"at most {percent(most)} slower" if most > 0 else "none slower"

    lines = [("high: end to end, mean", "1.2x to 1.5x", span, 0), ("high: prefill, mean", "2.9x to 8.6x", span, 2),
             ("high: prefill, P99", "3.6x to 10x", span, 3), ("high: decode, mean", "1.2x to 1.5x", span, 4),
             ("high: decode, P99", "1.3x to 2.2x", span, 5), ("normal: end to end, mean", "at most 4.5 % slower", worse, 0),
             ("normal: prefill, mean", "at most 13 % slower", worse, 2),
             ("normal: decode, mean", "at most 2 % slower", worse, 4)]
    chart.write(f"{folder}/figure13.svg", [
        {"title": f"{rate}/s, high priority, {name}, mean ms", "across": "CV", "series": {
            policy: [(cv, reports[rate, cv, policy]["levels"][1][key]["mean"]) for cv in points]
            for policy in policies}}
        for rate, points in rates.items() for key, name in zip(keys, ("end to end", "prefill", "decode"))], 3)
    return "\n".join([
        "## Figure 13: priorities", "",
        f"S-S, Gamma arrivals, {count} requests of which 10 % at random have high execution priority and go first; "
        "llumnix-base knows no priorities. The artifact's rate, 26 requests/s, and twice that (*), since our instances take more "
        "short requests (figure 11). Mean / P99.", "",
        table(["rate", "CV", "requests", "end to end, base", "llumnix", "prefill, base", "llumnix", "decode, base",
               "llumnix"], rows), "",
        picture("figure13", "high-priority requests by burstiness"), "",
        table(["base over llumnix", "paper", "godwit sim at 26", "at 52*"],
              [[name, said, of(26, i), of(52, i)] for name, said, of, i in lines]), "",
        PRIORITIES_DIFFER])


PRIORITIES_DIFFER = (
    "High-priority requests gain less than the paper's and normal ones pay far more. At the artifact's rate ours without "
    "priorities hardly queue, so there is little prefill to save; where they do, at twice the rate, prefill gains. The headroom, which "
    "each instance finds out as the load that keeps a decode step within 5 % of an unloaded one, leaves little of an instance to "
    "others, so normal requests crowd on the rest. Whether the profile's large cost of each sequence or our rule for the headroom is to "
    "blame was not found out.")
