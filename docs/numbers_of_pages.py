"""Every measured-looking number on the pages, and where it comes from.

    python docs/numbers_of_pages.py [--typed]

Errors (2e-7), seconds, percentages and Cholesky factorizations, outside of code. A number
comes from `results/` (by an entry in braces), from a page or a part of one that a command writes,
from the paper and other people's work where the line says so, or is a setting or a definition. The
rest is typed by hand: `--typed` lists it, and a test keeps it from growing.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parent
MADE = ("peers.md", "commands.md", "changelog.md", "reproduced.md", "thresholds.md", "criteria.md")
FOLDERS = ("gallery", "lessons", "api")
NUMBER = re.compile(
    r"\b\d+(?:\.\d+)?e-\d+\b|\b\d+(?:\.\d+)?\s?(?:s|seconds|minutes|ms|GB|MB|kB|Choleskys|%)(?!\w)"
)
ELSEWHERE = re.compile(r"published|paper|arXiv|reported", re.I)
SETTING = re.compile(
    r"accuracy|rtol|nugget|tolerance|interval|band|quantile|domain|memory|matrix|rounding", re.I
)


class Found(NamedTuple):
    """A number on a page."""

    page: str
    line: int
    number: str
    source: str


def numbers() -> Iterator[Found]:
    """All of them, page by page."""
    pages = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
    for page in pages:
        name = str(page.relative_to(DOCS.parent))
        made = page.name in MADE or page.parent.name in FOLDERS
        text = page.read_text()
        parts = re.split(r"(<!--[^>]*-->)", text)
        line, writer = 1, ""
        for part in parts:
            if part.startswith("<!--"):
                writer = "" if part.startswith("<!-- end") else part[4:-3].strip()
                line += part.count("\n")
                continue
            code, said = False, ""
            for row in part.split("\n"):
                code = code != row.startswith("```")
                # What the head of a table, or of a section, says of the numbers below.
                if row.startswith("#") or (row.startswith("|") and not said.startswith("|")):
                    said = row
                elif not row.startswith("|") and said.startswith("|"):
                    said = ""
                if not code:
                    yield from _of(row, said, name, line, made, writer)
                line += 1
            line -= 1


def _of(row: str, said: str, name: str, line: int, made: bool, writer: str) -> Iterator[Found]:
    for entry in re.findall(r"\{\{\s*([^}]*?)\s*\|", row):
        yield Found(name, line, entry.split(" > ")[-1], f"results/{entry.split(' > ')[0]}.json")
    plain = re.sub(r"\{\{[^}]*\}\}|`[^`]*`|\]\([^)]*\)", "", row)
    for number in NUMBER.findall(plain):
        if made:
            source = "made by a command"
        elif writer:
            source = writer
        elif name == "README.md":
            source = "compared with results/ by tests/test_readme.py, or typed"
        elif ELSEWHERE.search(row) or ELSEWHERE.search(said):
            source = "named in the line, or above"
        elif "projection" in said:
            source = "a projection, which says so"
        elif SETTING.search(row):
            source = "a setting or a definition"
        else:
            source = "typed"
        yield Found(name, line, number, source)


def main() -> None:
    only = "--typed" in sys.argv
    for found in numbers():
        if not only or found.source == "typed":
            print(f"{found.page}:{found.line}: {found.number}  [{found.source}]")


if __name__ == "__main__":
    main()
