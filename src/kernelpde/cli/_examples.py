"""List of the gallery."""

import json

import typer
from rich.console import Console
from rich.table import Table

from kernelpde.checking import check_choice
from kernelpde.gallery import EXAMPLES, example_groups, page_summaries


def print_examples(group: str | None, as_json: bool) -> None:
    """Print the gallery, or one group of it."""
    by_group = example_groups()
    if group is not None:
        check_choice("examples", "--group", group, tuple(by_group))
        by_group = {group: by_group[group]}
    # Pages are parsed and not run: their domains and references would take seconds.
    pages = page_summaries()
    names = [name for group_names in by_group.values() for name in group_names]
    summaries = {name: pages[name] if name in pages else EXAMPLES[name]() for name in names}
    if as_json:
        content = {
            name: {"summary": e.summary, "points": dict(e.points), "training": dict(e.training)}
            for name, e in summaries.items()
        }
        typer.echo(json.dumps(content))
        return
    table = Table(box=None, pad_edge=False)
    for title in ("name", "problem", "points"):
        table.add_column(title, overflow="fold")
    for title, group_names in by_group.items():
        table.add_row(f"[bold cyan]{title}[/bold cyan]", "", "")
        for name in group_names:
            points = summaries[name].points.items()
            counts = ", ".join(f"{count} {condition}" for condition, count in points)
            table.add_row(f"  [bold]{name}[/bold]", summaries[name].summary, counts)
    Console().print(table)
    typer.echo("\nTo learn the kernel and solve an example: kernelpde solve NAME")
