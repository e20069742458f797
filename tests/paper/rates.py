"""Request rates by one rule for every trace, the paper's own: Llumnix's P50 does not queue, its P99 for tens of seconds at
most. `highest` finds the highest of each trace."""

from simulate import Failed

P50_MS, P99_MS = 1000, 50000  # of Llumnix's prefill

# (from, to, step) in tenths of a request a second
GRID = {"sharegpt": (60, 140, 2), "burstgpt": (60, 140, 2), "S-S": (300, 1000, 20), "M-M": (60, 120, 2),
        "L-L": (20, 48, 1), "S-L": (30, 66, 1), "L-S": (80, 380, 10)}


def fine(report):
    return report["prefill_ms.p50"] <= P50_MS and report["prefill_ms.p99"] <= P99_MS


def highest(traces, run):
    """{trace: the highest rate that is fine}, by halving the grid. `run` takes (trace, rate) pairs to their reports."""
    grids = {trace: [tenth / 10 for tenth in range(low, high + 1, step)]
             for trace, (low, high, step) in ((trace, GRID[trace]) for trace in traces)}
    good = {trace: -1 for trace in grids}
    bad = {trace: len(grid) for trace, grid in grids.items()}
    while open_ones := [trace for trace in grids if bad[trace] - good[trace] > 1]:
        middles = {trace: (good[trace] + bad[trace]) // 2 for trace in open_ones}
        for trace, report in zip(open_ones, run([(trace, grids[trace][at]) for trace, at in middles.items()])):
            (good if fine(report) else bad)[trace] = middles[trace]
    for trace, grid in grids.items():
        if good[trace] < 0 or bad[trace] == len(grid):
            raise Failed(f"{trace}: the highest rate is not within {grid[0]:g} to {grid[-1]:g} requests/s")
    return {trace: grid[good[trace]] for trace, grid in grids.items()}
