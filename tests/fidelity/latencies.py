"""Latencies of the same requests, served and simulated."""

import statistics

GOALS = {"p50": None, "mean": 0.05, "p99": 0.10}  # without a goal: tells what disturbs few requests from what all meet
KINDS = {"prefill": "time to the first token", "decode": "time per token after it", "end to end": "until the last token"}


def percentile(values, share):
    """Interpolated between ranks, as `godwit bench` and `godwit sim` do."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def summary(requests):
    """requests: (start, first token, last token, end, tokens), in seconds. In ms."""
    kinds = {"prefill": [first - start for start, first, _, _, _ in requests],
             "decode": [(last - first) / (tokens - 1) for _, first, last, _, tokens in requests if tokens > 1],
             "end to end": [end - start for start, _, _, end, _ in requests]}
    return {kind: {"p50": 1000 * percentile(values, 0.5), "mean": 1000 * statistics.fmean(values),
                   "p99": 1000 * percentile(values, 0.99)}
            for kind, values in kinds.items()}


def whole(rows):
    """The requests of which each token came with text: a client does not see the others' (half a character), and so not
    when the first one came."""
    return {r["index"] for r in rows if r["pieces"] == r["answer_tokens"]}


def of_served(rows, counted):
    """From the moment a request was sent."""
    return summary([(r["started_s"], r["first_text_s"], r["last_text_s"], r["ended_s"], r["answer_tokens"])
                    for r in rows if r["index"] in counted])


def of_simulated(rows, counted):
    return summary([(r["arrival_s"], r["first_token_s"], r["last_token_s"], r["ended_s"], r["answer_tokens"])
                    for r in rows if r["request"] in counted])


def _of_each(gather, summaries):
    """Of each figure on its own."""
    return {kind: {figure: gather([one[kind][figure] for one in summaries]) for figure in GOALS} for kind in KINDS}


def mean(summaries):
    return _of_each(statistics.fmean, summaries)


def median(summaries):
    return _of_each(statistics.median, summaries)


def compare(runs):
    """Medians of the repetitions: of what was served, of the simulations with the profile before and with the one after
    (their mean), and of the errors. `spread`: how far the served ones lie apart; `profiles`: how far these two do."""
    real, both = [run["served"] for run in runs], [mean(run["simulated"]) for run in runs]
    seen, said = median(real), median(both)
    out = {}
    for kind in KINDS:
        for figure, goal in GOALS.items():
            errors = [b[kind][figure] / r[kind][figure] - 1 for r, b in zip(real, both)]
            values = [r[kind][figure] for r in real]
            apart = [abs(after[kind][figure] / before[kind][figure] - 1)
                     for before, after in (run["simulated"] for run in runs)]
            error = statistics.median(errors)
            out[f"{kind} {figure}"] = {
                "served_ms": seen[kind][figure], "simulated_ms": said[kind][figure], "error": error, "errors": errors,
                "spread": (max(values) - min(values)) / seen[kind][figure], "profiles": statistics.median(apart),
                "goal": goal, "met": None if goal is None else abs(error) <= goal}
    return out
