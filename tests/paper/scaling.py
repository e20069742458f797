"""Figures 14 to 16: autoscaling, what it costs, and many instances."""

import chart
from page import latency, ms, percent, picture, ratio, span, table, times

POLICIES = {"infaas++": "INFaaS++", "llumnix-base": "Llumnix"}
DRAINS = "infaas++ that drains by migration"  # given what it lacks, to tell how much of the saving that is
PAPER = {"Poisson": (12.2, 0.16), "Gamma": (11, 0.18)}  # at most: prefill P99, INFaaS++ over Llumnix; cost saved
BAND = 50  # blocks between the bounds of freeness, as in the artifact
RULE = ("Bounds and rule are the artifact's (`--scaling-rule total`): every 10 s what is free in all for each request is held against "
        "them; as many instances as are missing are started at once, and one is stopped where the others would still be above the "
        "upper bound.")


def run(policy, count, rate, cv, low):
    scheduler = ["infaas++", "--migration", "none"] if policy == DRAINS else [policy]
    return ["--instances", 8, "--lengths", "L-L", "--rate", rate, "--cv", cv, "--requests", count, "--policy", *scheduler,
            "--scaling", "on", "--scaling-rule", "total", "--scaling-freeness-min", low, "--scaling-freeness-max", low + BAND,
            "--scheduler-migrate-below", 3, "--scheduler-migrate-above", 6]


def line(report):
    return [ms(report["end_to_end_ms.p99"]), latency(report, "prefill_ms"), ms(report["prefill_ms.max"]),
            latency(report, "decode_ms"),
            percent(report["memory.used_share"]), f"{report['instances.mean']:.2f}", f"{report['instances.max']:.0f}",
            f"{report['instances.instance_seconds']:.0f}"]


HEAD = ["end to end P99", "prefill", "the longest", "decode", "memory used", "instances, mean", "max", "instance-seconds"]


def loads(sim, scale, folder):
    count, seeds = scale.requests(10000), scale.seeds(3)
    poisson = [(rate, 1) for rate in ((2.0, 3.0) if scale.quick else (2.0, 2.2, 2.4, 2.6, 2.8, 3.0))]
    gamma = [(2, cv) for cv in ((2, 6) if scale.quick else (2, 3, 4, 5, 6))]
    keys = [(rate, cv, policy) for rate, cv in poisson + gamma for policy in (*POLICIES, DRAINS)]
    reports = dict(zip(keys, sim.all([run(policy, count, rate, cv, 10) for rate, cv, policy in keys], seeds)))
    rows, summary, prefill, waits, best = [], [], [], [], {}
    for name, points in (("Poisson", poisson), ("Gamma", gamma)):
        gains, longest, saved, without_drains = [], [], [], []
        for rate, cv in points:
            theirs, ours, drained = (reports[rate, cv, policy] for policy in (*POLICIES, DRAINS))
            saved.append(1 - ours.times(theirs, "instances.instance_seconds"))
            without_drains.append(1 - ours.times(drained, "instances.instance_seconds"))
            gains.append(theirs.times(ours, "prefill_ms.p99"))
            longest.append(theirs.times(ours, "prefill_ms.max"))
            for label, report in zip(POLICIES.values(), (theirs, ours)):
                rows.append([f"Poisson {rate:g}" if cv == 1 else f"Gamma {rate:g}, CV {cv:g}", label, *line(report)])
        prefill += gains
        waits += longest
        best[name] = max(gains), max(saved)
        tail, cost = PAPER[name]
        summary += [[f"{name}: prefill P99, INFaaS++ over Llumnix", f"up to {tail:g}x", span(gains, roughly)],
                    [f"{name}: the longest prefill, likewise", "", span(longest, roughly)],
                    [f"{name}: cost saved", f"up to {100 * cost:g} %", span(saved, percent)],
                    [f"{name}: cost saved, if INFaaS++ could drain by migration", "", span(without_drains, percent)]]
    charts = []
    for name, points, across in (("Poisson", poisson, "requests/s"), ("Gamma, 2 requests/s", gamma, "CV")):
        for what, value in (("prefill P99, ms", lambda r: r["prefill_ms.p99"]),
                            ("mean instances", lambda r: r["instances.mean"])):
            charts.append({"title": f"{name}: {what}", "across": across, "series": {
                label: [(cv if across == "CV" else rate, value(reports[rate, cv, policy])) for rate, cv in points]
                for policy, label in POLICIES.items()}})
    chart.write(f"{folder}/figure14.svg", charts)
    return "\n".join([
        "## Figure 14: autoscaling by load", "",
        f"L-L, {count} requests, 8 instances at the start, 1 to 16 allowed, bounds of 10 and 60 blocks. {RULE} An instance takes the "
        "profile's 16.7 s to start. Latencies are mean / P99" + medians(seeds), "",
        table(["arrivals", "policy", *HEAD], rows), "", picture("figure14", "tail and cost by load"), "",
        table(["", "paper", "godwit sim"], summary), "",
        "Both policies scale by the same rule and differ in dispatch and migration only. Llumnix's evener load looks freer to that "
        "rule and gets fewer instances. And an instance that is to stop is rid of its requests by migration, where INFaaS++ pays for it "
        "until the last of them has been answered: what is saved if INFaaS++ could drain like that leaves this out."
        + worse(prefill, waits) + smaller(best)])


def medians(seeds):
    return f"; medians of {seeds} seeds, ratios too." if seeds > 1 else "."


def roughly(gain):
    return f"{gain:.2g}x"


def smaller(best):
    """A sentence where the paper's figures are not reached; `best` has a load's (gain in prefill's P99, cost saved)."""
    short = [f"{what} by {name} arrivals" for name, (gain, saved) in best.items()
             for what, ours, paper in (("the gain in prefill's P99", gain, PAPER[name][0]),
                                       ("the saving", saved, PAPER[name][1])) if ours < paper]
    return f" Smaller than in the paper, for reasons that are not known: {', '.join(short)}." if short else ""


def worse(prefill, longest):
    """Sentences where the fewer instances are felt."""
    if min(prefill) >= 1:
        return ""
    out = (f" The price is prefill's P99: on these fewer and fuller instances Llumnix's is up to {times(1 / min(prefill))} as long as "
           "INFaaS++'s.")
    if min(longest) > 1:
        out += (f" Yet INFaaS++'s longest prefill is {span(longest, roughly)} as long as Llumnix's: there few requests wait, for as long as "
                "the instance where they queue stays full, here more, until others have made room. A P99 tells only whether it is more "
                "than one in a hundred.")
    return out


def thresholds(sim, scale, folder):
    count, lows, seeds = scale.requests(10000), (5, 45, 85) if scale.quick else (5, 25, 45, 65, 85), scale.seeds(3)
    keys = [(low, policy) for low in lows for policy in POLICIES]
    reports = dict(zip(keys, sim.all([run(policy, count, 2, 2, low) for low, policy in keys], seeds)))
    rows = [[low, POLICIES[policy], *line(reports[low, policy])] for low, policy in keys]
    curves = {name: [(reports[low, policy]["instances.mean"], reports[low, policy]["prefill_ms.p99"])
                     for low in lows] for policy, name in POLICIES.items()}
    chart.write(f"{folder}/figure15.svg", [{"title": "prefill P99, ms", "across": "instances, mean",
                                            "series": {name: sorted(line) for name, line in curves.items()}}])
    return "\n".join([
        "## Figure 15: cost and tail latency", "",
        f"As figure 14, Gamma arrivals with 2 requests/s and a CV of 2, {count} requests; the bounds of the freeness are the "
        "threshold and 50 blocks more" + (f". Medians of {seeds} seeds." if seeds > 1 else "."), "",
        table(["threshold", "policy", *HEAD], rows), "", picture("figure15", "tail by cost"), "",
        table(["instances saved, at most, where this is no worse", "paper", "godwit sim"],
              [[name, paper, saving(reports, lows, key)] for key, name, paper in (
                  ("prefill_ms.p99", "prefill P99", "36 %"), ("prefill_ms.max", "the longest prefill", ""),
                  ("decode_ms.p99", "decode P99", ""), ("end_to_end_ms.p99", "end to end P99", ""))]), "",
        "Ours compares whole runs, each of Llumnix's with those of INFaaS++ that are no better, and does not interpolate. Why prefill's "
        "P99 saves so little: from a threshold of 25 on hardly anybody queues under either policy, and then its P99 is the time that a prompt of "
        "thousands of tokens takes by itself, which no instance more makes shorter; below, Llumnix's fewer instances queue "
        "first. The tails of decoding and of whole requests, which load does lengthen, save more."])


def stalls(report):
    stall = report["central_scheduler.stall_ms_mean"]
    return f"{latency(report, 'decode_ms')}; {ms(stall) if stall >= 10 else f'{stall:.2f} ms'}"


def saving(reports, lows, key):
    """The largest share of instances that Llumnix saves against a run of INFaaS++ whose tail is no better."""
    found = []
    for low in lows:
        theirs = reports[low, "infaas++"]
        as_good = [reports[other, "llumnix-base"]["instances.mean"] for other in lows
                   if reports[other, "llumnix-base"][key] <= theirs[key]]
        if as_good:
            found.append((1 - min(as_good) / theirs["instances.mean"], theirs[key]))
    if not found:
        return "no threshold of Llumnix's was as good"
    most, tail = max(found)
    return f"{percent(most)} (at {ms(tail)})"


# What a central scheduler takes for a step of an instance with 9 requests, in us: about what `./run bench scheduler central`
# measured of godwit's own planner, with 64 and 256 instances, and slower ones.
PLAN_US = (3.5, 50, 200, 1000)


def many(sim, scale, folder):
    sizes = (4, 16, 64) if scale.quick else (4, 16, 64, 256)
    each = scale.requests(300, 60)
    ways = [["llumnix-base"], ["round_robin"]] + [["llumnix-base", "--central-scheduler", us] for us in PLAN_US]
    runs = sim.all([["--instances", n, "--lengths", "fixed:64:64", "--rate", 3 * n, "--requests", each * n, "--policy", *way]
                    for way in ways for n in sizes])
    reports, in_turn, *central = [runs[i:i + len(sizes)] for i in range(0, len(runs), len(sizes))]
    rows = [[n, r["requests"], ms(r["prefill_ms.mean"]), ms(r["prefill_ms.p99"]), ms(r["decode_ms.mean"]),
             ms(r["decode_ms.p99"]), f"{r['events'] / r['requests']:.0f}", latency(other, "prefill_ms")]
            for n, r, other in zip(sizes, reports, in_turn)]
    stalled = [[n, latency(reports[i], "decode_ms"), *(stalls(of_all[i]) for of_all in central)] for i, n in enumerate(sizes)]
    named = {"Llumnix": reports} | {f"central, {us:g} us": of_all for us, of_all in zip(PLAN_US, central)}
    chart.write(f"{folder}/figure16.svg", [
        {"title": "decode mean, ms", "across": "instances", "log_x": True,
         "series": {name: [(n, r["decode_ms.mean"]) for n, r in zip(sizes, of_all)] for name, of_all in named.items()}},
        {"title": "events for each request", "across": "instances", "log_x": True,
         "series": {"Llumnix": [(n, r["events"] / r["requests"]) for n, r in zip(sizes, reports)]}}])
    return "\n".join([
        "## Figure 16: scheduling scalability", "",
        "Requests of 64 tokens in and 64 out, 3 requests/s for each instance.", "",
        table(["instances", "requests", "prefill mean", "P99", "decode mean", "P99", "messages and timers a request",
               "round robin: prefill"], rows),
        "", "The same under a centralised scheduler, which follows every request and plans the steps of all instances, one after "
        "another (`--central-scheduler US`): what a token takes, mean / P99, and how long a step waits for its plan, that plan included, on average.", "",
        table(["instances", "each plans its own", *(f"{us:g} us a plan" for us in PLAN_US)], stalled),
        "", picture("figure16", "decode latency with each scheduler, and events for each request, by instances"), "",
        "The paper's figure is a plot, which was not read off; its centralised scheduler stalls the instances. Here a plan takes a given time, "
        "whatever the number of instances, and they stall one another where the plans of all come to take as long as a step, 45 ms: from there "
        f"on a token takes as long as these. {PLAN_US[0]:g} us is what godwit's own planner takes "
        "in one thread: `./run bench scheduler central` measured "
        "0.04 ms between two steps with 16 instances of 9 requests each, 0.21 with 64, 0.95 with 256 and 5.7 with 1,024, next to 0.0024 "
        "ms for an instance that plans for itself (one hour of one machine). Messages to and from the scheduler, which the simulation leaves out, come on top: "
        "the other columns say how much they may take. In godwit every instance plans its own steps, beside the others, and that takes no virtual time here. "
        "What the simulation also shows is that the traffic for each request "
        "does not grow with the cluster, and decoding does not either. Prefill does, by less than a decode step, and not under round "
        "robin: it is dispatch's choice. The freest instance is often one where a request has just ended, which is when a step ends "
        "and the next one begins, and that one a new request has to wait for. The more instances, the more often there is one. "
        "What decisions cost is measured by `./run bench scheduler` on the real scheduler: microseconds a pick with 1,000 "
        "instances, whatever the number of running requests ([bench.md](bench.md))."])
