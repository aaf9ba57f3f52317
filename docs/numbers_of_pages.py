"""List the measured numbers of the pages with their sources.

    python docs/numbers_of_pages.py [--typed]

Numbers are errors (2e-7), seconds, percentages and Cholesky factorizations, outside of code. The
source of a number is `results/` (a reference in braces), a generated page or table, the paper or
other publications if the line cites them, or a setting or a definition. All others are typed by
hand. `--typed` lists these, and a test limits their number.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parent
GENERATED = (
    "peers.md",
    "commands.md",
    "changelog.md",
    "reproduced.md",
    "thresholds.md",
    "criteria.md",
)
FOLDERS = ("gallery", "lessons", "api")
NUMBER = re.compile(
    r"\b\d+(?:\.\d+)?e-\d+\b|\b\d+(?:\.\d+)?\s?(?:s|seconds|minutes|ms|GB|MB|kB|Choleskys|%)(?!\w)"
)
CITED = re.compile(r"published|paper|arXiv|reported", re.I)
SETTING = re.compile(
    r"accuracy|rtol|nugget|tolerance|interval|band|quantile|domain|memory|matrix|rounding", re.I
)


class PageNumber(NamedTuple):
    """A number on a page."""

    page: str
    line: int
    number: str
    source: str


def numbers() -> Iterator[PageNumber]:
    """Yield the numbers of all pages."""
    pages = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
    for page in pages:
        name = str(page.relative_to(DOCS.parent))
        is_generated = page.name in GENERATED or page.parent.name in FOLDERS
        text = page.read_text()
        parts = re.split(r"(<!--[^>]*-->)", text)
        line, writer = 1, ""
        for part in parts:
            if part.startswith("<!--"):
                writer = "" if part.startswith("<!-- end") else part[4:-3].strip()
                line += part.count("\n")
                continue
            is_code, heading = False, ""
            for row in part.split("\n"):
                is_code = is_code != row.startswith("```")
                # The head of a table or section may name the source of the numbers below.
                if row.startswith("#") or (row.startswith("|") and not heading.startswith("|")):
                    heading = row
                elif not row.startswith("|") and heading.startswith("|"):
                    heading = ""
                if not is_code:
                    yield from _of(row, heading, name, line, is_generated, writer)
                line += 1
            line -= 1


def _of(
    row: str, heading: str, name: str, line: int, is_generated: bool, writer: str
) -> Iterator[PageNumber]:
    for benchmark, figure in re.findall(r"\{\{ ([\w-]+)[^>}]*> ([^|}]+?) \|", row):
        yield PageNumber(name, line, figure, f"results/{benchmark}.jsonl")
    plain = re.sub(r"\{\{[^}]*\}\}|`[^`]*`|\]\([^)]*\)", "", row)
    for number in NUMBER.findall(plain):
        if is_generated:
            source = "generated"
        elif writer:
            source = writer
        elif name == "README.md":
            source = "compared with results/ by tests/test_code_of_pages_runs.py, or typed"
        elif CITED.search(row) or CITED.search(heading):
            source = "cited in the line or the heading"
        elif "projection" in heading:
            source = "a projection"
        elif SETTING.search(row):
            source = "a setting or a definition"
        else:
            source = "typed"
        yield PageNumber(name, line, number, source)


def main() -> None:
    typed_only = "--typed" in sys.argv
    for number in numbers():
        if not typed_only or number.source == "typed":
            print(f"{number.page}:{number.line}: {number.number}  [{number.source}]")


if __name__ == "__main__":
    main()
