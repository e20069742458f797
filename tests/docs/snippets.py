"""Puts the C++ snippets of a page into a source file: snippets.py TEMPLATE PAGE OUTPUT

A line "@N@" of the template becomes the page's Nth snippet, "@N until TEXT@" what is before the line that begins with
TEXT, "@N from TEXT@" the rest. Every snippet of the page has to be named.
"""

import re
import sys
import textwrap


def part(snippet: list[str], how: str, text: str) -> list[str]:
    at = next(i for i, line in enumerate(snippet) if line.startswith(text)) if how else 0
    return snippet[:at] if how == "until" else snippet[at:]


def main() -> None:
    template, page, output = sys.argv[1:]
    with open(page, encoding="utf-8") as file:
        found = re.findall(r"^ *```cpp\n(.*?)^ *```$", file.read(), re.DOTALL | re.MULTILINE)
    snippets = [textwrap.dedent(s).splitlines() for s in found]
    used, out = set(), []
    with open(template, encoding="utf-8") as file:
        for line in file.read().splitlines():
            place = re.fullmatch(r"@(\d+)(?: (until|from) (.+))?@", line)
            if place is None:
                out.append(line)
                continue
            number = int(place[1])
            used.add(number)
            out += part(snippets[number - 1], place[2], place[3])
    if used != set(range(1, len(snippets) + 1)):
        sys.exit(f"{page} has {len(snippets)} snippets, and {template} takes {sorted(used)}")
    with open(output, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


main()
