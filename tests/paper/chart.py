"""Line charts as SVG: the same numbers give the same bytes."""

import math

COLOURS = ("#b3402a", "#d9a441", "#2a6fb3", "#4d8f4d", "#7a5aa6", "#666666")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 420, 260, 62, 12, 30, 62


def text(x, y, words, more=""):
    safe = str(words).replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" font-family="sans-serif" font-size="11" {more}>{safe}</text>'


def short(value):
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"


def ticks(low, high, log):
    if log:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        return [10.0**power for power in range(first, last + 1)]
    step = 10 ** math.floor(math.log10((high - low) or 1))
    while (high - low) / step > 6:
        step *= 2
    while (high - low) / step < 3:
        step /= 2
    return [step * i for i in range(math.floor(low / step), math.ceil(high / step) + 1)]


def one(left, top, title, across, series, log=False, log_x=False):
    """One chart as SVG elements; series: {name: [(x, y), ...]}."""
    points = [p for line in series.values() for p in line if not log or p[1] > 0]
    if not points:
        points = [(0, 0), (1, 1)]
        log = log_x = False
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    marks = ticks(min(ys) if log else min(0, *ys), max(max(ys), min(ys) + 1e-9), log)
    across_marks = ticks(min(xs), max(xs), log_x) if max(xs) > min(xs) else [min(xs)]
    if log_x:
        low_x, high_x = min(xs), max(xs)
        across_marks = sorted(set(xs)) if len(set(xs)) <= 8 else [m for m in across_marks if low_x <= m <= high_x]
    else:
        low_x, high_x = min(across_marks[0], min(xs)), max(across_marks[-1], max(xs))

    def place(value, low, high, size, logarithm):
        if logarithm:
            value, low, high = (math.log10(max(v, 1e-12)) for v in (value, low, high))
        return (value - low) / (high - low) * size if high > low else size / 2

    def at(x, y):
        return (left + LEFT + place(x, low_x, high_x, WIDTH - LEFT - RIGHT, log_x),
                top + HEIGHT - BOTTOM - place(y, marks[0], marks[-1], HEIGHT - TOP - BOTTOM, log))

    out = [text(left + LEFT, top + 18, title, 'font-weight="bold"')]
    for mark in marks:
        x, y = at(low_x, mark)
        out.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{left + WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(text(x - 5, y + 4, short(mark), 'text-anchor="end"'))
    for mark in across_marks:
        x, y = at(mark, marks[0])
        out.append(text(x, y + 14, short(mark), 'text-anchor="middle"'))
    out.append(text(left + (WIDTH + LEFT) / 2, top + HEIGHT - BOTTOM + 28, across, 'text-anchor="middle"'))
    width = (WIDTH - LEFT) / max(1, len(series))
    for i, (name, line) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        shown = [at(x, y) for x, y in line if not log or y > 0]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in shown)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        if len(shown) <= 40:
            out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in shown]
        out.append(text(left + LEFT + i * width, top + HEIGHT - 10, name, f'fill="{colour}"'))
    return out


def write(path, charts, columns=2):
    """charts: a list of keyword arguments for `one`, laid out row by row."""
    rows = (len(charts) + columns - 1) // columns
    wide, high = WIDTH * min(columns, len(charts)), HEIGHT * rows
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}">',
           f'<rect width="{wide}" height="{high}" fill="white"/>']
    for i, chart in enumerate(charts):
        out += one(WIDTH * (i % columns), HEIGHT * (i // columns), **chart)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out + ["</svg>", ""]))
