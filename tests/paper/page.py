"""Markdown: tables, and numbers with as many digits as they deserve."""


def ms(value):
    """Milliseconds, in the unit that reads best."""
    if value >= 100000:
        return f"{value / 1000:.0f} s"
    if value >= 1000:
        return f"{value / 1000:.1f} s" if value >= 10000 else f"{value / 1000:.2f} s"
    return f"{value:.0f} ms" if value >= 100 else f"{value:.1f} ms"


def times(value):
    return f"{value:.0f}x" if value >= 100 else f"{value:.1f}x" if value >= 10 else f"{value:.2f}x"


def percent(share):
    return f"{share * 100:.1f} %"


def fine(share):
    return f"{share * 100:.2f} %"


def span(values, shown):
    """The least and the most of several, or the one."""
    least, most = shown(min(values)), shown(max(values))
    return least if least == most else f"{least} to {most}"


def ratio(of, to):
    """How many times `of` is `to`; 0 over 0 is 1."""
    return of / to if to > 0 else (1.0 if of <= 0 else float("inf"))


def median(values):
    """Of an even number the mean of the two in the middle."""
    if not values:
        raise ValueError("a median of nothing")
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def latency(report, key):
    return f"{ms(report[key + '.mean'])} / {ms(report[key + '.p99'])}"


def table(head, rows):
    for row in rows:
        if len(row) != len(head):
            raise ValueError(f"{len(row)} cells under {len(head)} headings: {row}")
    lines = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in [head, *rows]]
    lines.insert(1, "|" + "---|" * len(head))
    return "\n".join(lines)


def picture(name, words):
    return f"![{words}](evaluation/{name}.svg)"
