"""Hooks of MkDocs: pages from elsewhere in the repository, and figures of `results/`.

A page that contains `{{ speed: case="learning step, 1200 rows" > ratio | .1f }}` shows that field
of that line of `results/speed.jsonl` in that format. Several lines need `median`, `mean`, `min` or
`max` in between: `{{ learning: case="from 0.01" > l2 | median | .1e }}`. The build fails if there
is no such line or field, or if an earlier minor version measured it.
"""

import json
import re
import statistics
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks._report import ROOT, Line, by_case, column, load

PRESENT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
PAGES = {"contributing.md": ROOT / "CONTRIBUTING.md", "changelog.md": ROOT / "CHANGELOG.md"}

REFERENCE = re.compile(
    r"\{\{ (?P<name>[\w-]+)(?:: (?P<fields>[^>|{}]+))? > (?P<figure>[^>|{}]+)"
    r"(?: \| (?P<summary>[a-z]{3,}))? \| (?P<format>[^|{}]+) \}\}"
)
FIELD = re.compile(r'(\w+)=("[^"]*"|[^",\s]+)')
SUMMARIES: dict[str, Callable[[Sequence[Any]], Any]] = {
    "median": statistics.median,
    "mean": statistics.mean,
    "min": min,
    "max": max,
}


def on_pre_build(config) -> None:
    docs = Path(config["docs_dir"])
    sys.path.insert(0, str(docs))
    from thresholds import page

    _write(page(), docs / "thresholds.md")
    _write(reproduced(), docs / "reproduced.md")
    for name, source in PAGES.items():
        _write(source.read_text(), docs / name)


def _write(text: str, target: Path) -> None:
    text = text.replace("docs/architecture.md", "architecture.md")
    if not target.exists() or target.read_text() != text:
        target.write_text(text)


def reproduced() -> str:
    """Return the page of the paper's tables, with the errors of `results/reproduce.jsonl`."""
    from kernelpde.reproduce import PARTS, markdown

    parts: dict[str, Any] = {}
    for case, lines in by_case(load("reproduce")).items():
        name, title = case.split(": ", 1)
        part = parts.setdefault(
            name, {"quick": False, "cases": {}, "versions": lines[0]["versions"]}
        )
        part["cases"][title] = [_run(line) for line in lines]
        part["seeds"] = max(len(runs) for runs in part["cases"].values())
    return markdown({name: parts[name] for name in PARTS if name in parts}, {})


def _run(line: Line) -> dict[str, Any]:
    errors: dict[str, dict[str, float]] = {}
    for key, value in line.items():
        field, _, norm = key.rpartition(" ")
        if norm in ("l2", "linf", "relative"):
            errors.setdefault(field, {})[norm] = value
    return {"seed": line["seed"], "errors": errors, "converged": line["converged"]}


def on_page_markdown(markdown: str, page, config, files) -> str:
    del config, files
    return with_figures(markdown, page.file.src_path)


def on_page_content(html: str, page, config, files) -> str:
    """Return the page with images that link to their full size, for small screens."""
    del page, config, files
    return re.sub(r'(?<!">)(<img [^>]*src="([^"]+)"[^>]*>)(?!</a>)', r'<a href="\2">\1</a>', html)


def with_figures(markdown: str, page: str) -> str:
    """Replace every reference by the figure it names."""

    def figure(match: re.Match[str]) -> str:
        fields = {key: json.loads(value) for key, value in FIELD.findall(match["fields"] or "")}
        lines = load(match["name"], **fields)
        if not lines:
            cases = ", ".join(dict.fromkeys(line["case"] for line in load(match["name"])))
            raise KeyError(f"{page}: {match[0]} matches no line; the cases are {cases}.")
        for line in lines:
            _check_version(line, page)
        values = column(lines, match["figure"])
        if not values:
            raise KeyError(f"{page}: {match[0]}: the fields are {', '.join(lines[0])}.")
        if match["summary"] is None and len(values) > 1:
            raise ValueError(
                f"{page}: {match[0]} matches {len(values)} lines; name one of them, or put one of "
                f"{', '.join(SUMMARIES)} before the format."
            )
        summary = SUMMARIES[match["summary"]] if match["summary"] else SUMMARIES["max"]
        return format(summary(values), match["format"])

    return REFERENCE.sub(figure, markdown)


def _check_version(line: Line, page: str) -> None:
    measured = line["versions"]["kernelpde"]
    if _minor(measured) < _minor(PRESENT):
        raise ValueError(
            f"{page}: {line['name']}.jsonl, {line['case']}: measured with version {measured}; this "
            f"is {PRESENT}. Run {line['command']} again."
        )


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])
