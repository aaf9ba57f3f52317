"""Report of computed and published figures as Markdown and HTML."""

import html
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kernelpde.reproduce._parts import PARTS, Case

_NORMS = {"l2": "rms", "linf": "max"}


def median_errors(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Return the median errors over seeds by "FIELD NORM"."""
    return {
        f"{name} {norm}": float(np.median([run["errors"][name][norm] for run in runs]))
        for name in runs[0]["errors"]
        for norm in _NORMS
    }


def markdown(results: Mapping[str, dict[str, Any]], figures: Mapping[str, list[str]]) -> str:
    """Return the report on the given parts.

    **Arguments:**

    - `results`: content of the results file of each part.
    - `figures`: file names of the figures of each part, relative to the report.
    """
    quick = any(result["quick"] for result in results.values())
    lines = [
        "# The paper's tables, reproduced",
        "",
        "Written by `kernelpde reproduce" + (" --quick" if quick else "") + "`. Errors are root "
        "mean squares (rms) and maxima (max) on the paper's grids, the median over sets of points "
        "where the paper has one set.",
    ]
    if quick:
        lines += ["", "**Quick run with one small set of points, not for comparison.**"]
    for name, result in results.items():
        lines += ["", *_section(name, result), ""]
        lines += [f"![{name}]({figure})\n" for figure in figures.get(name, [])]
    return "\n".join(lines).rstrip() + "\n"


def _section(name: str, result: dict[str, Any]) -> list[str]:
    paper = PARTS[name]
    lines = [f"## {paper.title}", "", f"Section {paper.section}. {paper.remark}".rstrip(), ""]
    versions = ", ".join(f"{k} {v}" for k, v in result["versions"].items())
    seeds = "Seed 0" if result["seeds"] == 1 else f"Seeds 0 to {result['seeds'] - 1}"
    if paper.figure_only:
        return [*lines, f"{seeds}; {versions}."]
    titles = ("", "error of", "published", "here", "worst", "seeds", "remark")
    lines += [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for title, case in paper.cases.items():
        runs = result["cases"].get(title, [])
        if runs:
            lines += _rows(title, case, runs)
    return [*lines, "", f"{seeds}; {versions}."]


def _rows(title: str, case: Case, runs: list[dict[str, Any]]) -> list[str]:
    errors = median_errors(runs)
    keys = [key for key in errors if key in case.published] or [
        key for key in errors if key.endswith(" l2")
    ]
    lines = []
    for key in keys:
        field, norm = key.rsplit(" ", 1)
        worst = max(run["errors"][field][norm] for run in runs)
        published = case.published.get(key)
        first = key == keys[0]
        lines.append(
            f"| {title if first else ''} | {field}, {_NORMS[norm]} "
            f"| {'none' if published is None else f'{published:.2e}'} | {errors[key]:.2e} "
            f"| {worst:.2e} | {len(runs)} | {_remark(case, runs) if first else ''} |"
        )
    return lines


def _remark(case: Case, runs: list[dict[str, Any]]) -> str:
    num_failed = sum(not run["converged"] for run in runs)
    remarks = [case.remark] if case.remark else []
    if num_failed:
        remarks.append(f"{num_failed} of {len(runs)} did not converge here")
    return "; ".join(remarks)


def as_html(text: str, title: str = "kernelpde: the paper's tables") -> str:
    """Convert the Markdown of the report to an HTML page."""
    body: list[str] = []
    table: list[str] = []

    def close() -> None:
        if table:
            head, _, *rows = table
            body.append("<table>" + _cells(head, "th") + "".join(_cells(r, "td") for r in rows))
            body.append("</table>")
            table.clear()

    for line in text.splitlines():
        if line.startswith("|"):
            table.append(line)
            continue
        close()
        if match := re.match(r"(#+) (.*)", line):
            level = len(match[1])
            body.append(f"<h{level}>{_inline(match[2])}</h{level}>")
        elif match := re.match(r"!\[(.*)\]\((.*)\)", line):
            body.append(f'<img alt="{html.escape(match[1])}" src="{html.escape(match[2])}">')
        elif line:
            body.append(f"<p>{_inline(line)}</p>")
    close()
    style = (
        "body{font:16px/1.5 sans-serif;max-width:62em;margin:2em auto;padding:0 1em}"
        "table{border-collapse:collapse}td,th{padding:.25em .7em;border-bottom:1px solid #ddd;"
        "text-align:left}img{max-width:100%}"
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}'
        f"</title><style>{style}</style></head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _cells(line: str, tag: str) -> str:
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    return "<tr>" + "".join(f"<{tag}>{_inline(cell)}</{tag}>" for cell in cells) + "</tr>\n"


def _inline(text: str) -> str:
    safe = html.escape(text, quote=False)
    safe = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", safe)
    return re.sub(r"`(.+?)`", r"<code>\1</code>", safe)


def write_report(
    out: Path, results: Mapping[str, dict[str, Any]], figures: Mapping[str, list[str]]
) -> list[Path]:
    """Write `reproduce.md` and `reproduce.html`."""
    text = markdown(results, figures)
    written = [out / "reproduce.md", out / "reproduce.html"]
    for path, content in zip(written, (text, as_html(text)), strict=True):
        path.write_text(content)
    return written
