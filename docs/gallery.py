"""Pages of the gallery: one for each group of problems, and an index of all."""

import ast
import html
import re
import statistics
import sys
from collections.abc import Iterator
from typing import Any

import nbformat
from notebooks import (
    EXAMPLES,
    ROOT,
    code_of,
    executed,
    notebook_of,
    pictures_of,
    printed_by,
    problems,
)

from kernelpde.gallery import Heading, page_summaries

sys.path.insert(0, str(ROOT))

from benchmarks._report import Line, by_case, column, load

_PICTURE_HEIGHT = 300
"""Approximate height of one row of panels in pixels, to show only the first panel on a card."""

_TABLE = "| problem | rows | relative error | CPU time, warm |\n|---|---|---|---|"

_VARIABLE = re.compile(
    r"[\u03b1-\u03bf\u03c1-\u03c9]"  # Greek letters except pi,
    r"|(?<=_)[a-zA-Z]+"  # subscripts,
    r"|(?<![A-Za-z])(?!in|on|at|of|it|as|is)[A-Za-z]{1,2}(?![A-Za-z])"  # products of one or two
)


def files_of_gallery() -> Iterator[tuple[str, str | bytes]]:
    """Yield pages, notebooks and pictures of the gallery's problems, by their addresses."""
    measured = by_case(load("gallery"))
    by_group: dict[str, list[Heading]] = {}
    for heading in page_summaries().values():
        by_group.setdefault(heading.group, []).append(heading)
    index = [
        "# Gallery",
        "Each problem is one file with the equation, its conditions, the numbers of points and a "
        "reference solution. `kernelpde examples --group fluids` lists a group, and "
        "`kernelpde solve NAME` solves one problem. Kernels are learned with the default options. "
        "Errors are relative, for each field, medians over three seeds at points other than the "
        "collocation points (`python -m benchmarks gallery`).",
    ]
    for group, members in sorted(by_group.items()):
        title = f"{group[0].upper()}{group[1:]}"
        texts, cards = [f"# {title}"], []
        for heading in members:
            address = f"gallery/notebooks/{heading.name}"
            path = problems()[address]
            output = executed(address, path)
            picture = next(pictures_of(output), None) if output else None
            result = _summary(measured[heading.name]) if heading.name in measured else None
            texts += _section(heading, path.read_text(), output, picture, result)
            cards.append(_card(heading, picture, result))
            yield f"{address}.ipynb", nbformat.writes(notebook_of(path), indent=1)
            if picture:
                yield f"gallery/{heading.name}.png", picture
        yield f"gallery/{_slug(group)}.md", "\n\n".join(texts) + "\n"
        index += [f"## {title}", '<div class="grid cards gallery" markdown>', *cards, "</div>"]
    titles = {path.stem: _title(path.read_text()) for path in sorted(EXAMPLES.glob("*.py"))}
    index += [
        "## Examples from start to finish",
        "\n".join(f"- [{title}]({name}.md)" for name, title in titles.items()),
        "The problems of the paper are on [a separate page](../reproduced.md).",
    ]
    yield "gallery/index.md", "\n\n".join(index) + "\n"


def _section(
    heading: Heading,
    source: str,
    output: nbformat.NotebookNode | None,
    picture: bytes | None,
    result: dict[str, Any] | None,
) -> Iterator[str]:
    """Yield the paragraphs of a problem."""
    title, _, about = (ast.get_docstring(ast.parse(source)) or "").partition("\n")
    equation, _, about = about.strip("\n").partition("\n\n")
    yield f"## {heading.name}"
    yield f"**{title}** *[As a notebook](notebooks/{heading.name}.ipynb).*"
    yield typeset(equation)
    yield about.strip("\n")
    if picture:
        yield f"![{title}]({heading.name}.png)"
    if result:
        yield f"{_TABLE}\n{_row(heading.name, result)}"
    yield f"```python\n{code_of(source)}```"
    if output:
        printed = "\n".join(filter(None, map(printed_by, output.cells)))
        yield f"`print(solution)` shows\n\n```text\n{printed}\n```"


def typeset(equation: str) -> str:
    """Return the formulas of a docstring with italic variables, subscripts and superscripts."""
    text = _VARIABLE.sub("\0<\\g<0>\0>", equation.replace("-", "\u2212").replace("'", "\u2032"))
    text = html.escape(text, quote=False)
    text = re.sub(r"\0&lt;(\w+)\0&gt;", r"<i>\1</i>", text)
    text = re.sub(r"_(<i>\w+</i>)", r"<sub>\1</sub>", text)
    text = re.sub(r"\^\(([^()]*)\)", r"<sup>\1</sup>", text)
    lines = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    return '<p class="equation">{}</p>'.format(
        "<br>".join("&emsp;".join(f"<span>{part}</span>" for part in line) for line in lines)
    )


def _summary(lines: list[Line]) -> dict[str, Any]:
    """Return medians over the seeds of a problem."""
    first = lines[0]
    cpu_time = statistics.median(column(lines, "CPU seconds"))
    return {
        "rows": first["rows"],
        "windows": first.get("windows"),
        "errors": {
            key.removesuffix(" relative"): statistics.median(column(lines, key))
            for key in first
            if key.endswith(" relative")
        },
        "converged": all(column(lines, "converged")),
        "cpu_time": cpu_time,
        "choleskys": cpu_time / first["CPU seconds of one Cholesky"],
    }


def _row(name: str, result: dict[str, Any]) -> str:
    errors = ", ".join(f"{field} {error:.1e}" for field, error in result["errors"].items())
    mark = "" if result["converged"] else " (not converged)"
    windows = f"{result['windows']} x " if result["windows"] else ""
    cost = f"{result['cpu_time']:.1f} s"
    # Below 500 rows a factorization costs less than its call.
    if result["rows"] > 500:
        cost += f", {result['choleskys']:.0f} Choleskys"
    return f"| {name} | {windows}{result['rows']} | {errors}{mark} | {cost} |"


def _card(heading: Heading, picture: bytes | None, result: dict[str, Any] | None) -> str:
    link = f"{_slug(heading.group)}.md#{heading.name}"
    lines = []
    if picture:
        # The height is at bytes 20 to 23 of a PNG file.
        rows = max(1, round(int.from_bytes(picture[20:24], "big") / _PICTURE_HEIGHT))
        style = f' style="--rows: {rows}"' if rows > 1 else ""
        lines = [f"[![{heading.summary}]({heading.name}.png){{ loading=lazy{style} }}]({link})", ""]
    text = f"**[{heading.name}]({link})**: {heading.summary}"
    if result:
        errors = ", ".join(f"{error:.0e}" for error in result["errors"].values())
        text += f" *Error {errors}.*"
    first, *others = [*lines, text]
    return "\n".join([f"- {first}", *(f"    {line}" if line else "" for line in others)])


def _slug(group: str) -> str:
    return group.lower().replace(" ", "-")


def _title(source: str) -> str:
    return (ast.get_docstring(ast.parse(source)) or "").split("\n")[0].rstrip(".")
