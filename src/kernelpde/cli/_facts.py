"""What there is, for people: of the gallery, and of the machine."""

import json
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from kernelpde.checking import one_of
from kernelpde.gallery import EXAMPLES, groups, headings
from kernelpde.linear_solvers import in_words

BUSY = "Something else is running on this machine: times vary, and are too long."


def listed_examples(group: str | None, as_json: bool) -> None:
    """The gallery, or one group of it."""
    by_group = groups()
    if group is not None:
        one_of("examples", "--group", group, tuple(by_group))
        by_group = {group: by_group[group]}
    # Pages are read and not run: their domains and references would take seconds.
    pages = headings()
    found = {
        name: pages[name] if name in pages else EXAMPLES[name]()
        for names in by_group.values()
        for name in names
    }
    if as_json:
        facts = {
            name: {"summary": e.summary, "points": dict(e.points), "training": dict(e.training)}
            for name, e in found.items()
        }
        typer.echo(json.dumps(facts))
        return
    table = Table(box=None, pad_edge=False)
    for title in ("name", "what it is", "points"):
        table.add_column(title, overflow="fold")
    for title, names in by_group.items():
        table.add_row(f"[bold cyan]{title}[/bold cyan]", "", "")
        for name in names:
            example = found[name]
            counts = ", ".join(f"{count} {where}" for where, count in example.points.items())
            table.add_row(f"  [bold]{name}[/bold]", example.summary, counts)
    Console().print(table)
    typer.echo("\nkernelpde solve NAME solves one, with its kernel learned.")


def show_facts(facts: dict[str, Any]) -> None:
    memory = facts["memory_gigabytes"]
    lines = [
        f"Python {facts['python']}, "
        + ", ".join(f"{name} {version}" for name, version in facts["versions"].items()),
        f"{facts['backend']}: {', '.join(facts['devices'])}; {facts['processors']} processors, "
        + ("memory unknown" if memory is None else f"{memory:.1f} GB of memory"),
        f"64-bit numbers are {'on' if facts['x64'] else 'OFF'}; one Cholesky of "
        f"{facts['cholesky_seconds']['size']} rows takes "
        f"{facts['cholesky_seconds']['seconds']:.3f} s, the best of several",
    ]
    if facts["busy"]:
        lines.append(BUSY)
    if "estimate" in facts:
        found = facts["estimate"]
        for what in ("solve", "learn"):
            lines.append(
                f"{found['rows']} rows, dense, {what}: about {found['gigabytes'][what]:.2g} GB and "
                f"{in_words(found['seconds'][what])} on the CPU"
            )
        if found["fits"] is False:
            lines.append("A dense matrix of that size does not fit into this machine's memory.")
        lines.append(f"The automatic solver is {found['solver']}.")
    else:
        lines.append("kernelpde doctor --rows 5000 says what a system of that size would take.")
    typer.echo("\n".join(lines))
