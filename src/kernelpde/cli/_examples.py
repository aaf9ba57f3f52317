"""List of the gallery."""

from collections.abc import Mapping

import typer
from rich.console import Console
from rich.table import Table

from kernelpde.checking import check_choice
from kernelpde.gallery import EXAMPLES, example_groups, page_summaries
from kernelpde.io import Attributes


def list_examples(group: str | None) -> dict[str, Attributes]:
    """Return summaries and numbers of points of the gallery, or of one group of it."""
    by_group = example_groups()
    if group is not None:
        check_choice("examples", "--group", group, tuple(by_group))
        by_group = {group: by_group[group]}
    # Pages are parsed and not run: their domains and references would take seconds.
    pages = page_summaries()
    names = [name for group_names in by_group.values() for name in group_names]
    examples = {name: pages[name] if name in pages else EXAMPLES[name]() for name in names}
    return {
        name: {"summary": e.summary, "points": dict(e.points), "training": dict(e.training)}
        for name, e in examples.items()
    }


def print_examples(content: Mapping[str, Attributes]) -> None:
    """Print the result of `list_examples` as a table."""
    table = Table(box=None, pad_edge=False)
    for title in ("name", "problem", "points"):
        table.add_column(title, overflow="fold")
    for title, group_names in example_groups().items():
        names = [name for name in group_names if name in content]
        if names:
            table.add_row(f"[bold cyan]{title}[/bold cyan]", "", "")
        for name in names:
            points = content[name]["points"].items()
            counts = ", ".join(f"{count} {condition}" for condition, count in points)
            table.add_row(f"  [bold]{name}[/bold]", content[name]["summary"], counts)
    Console().print(table)
    typer.echo("\nTo learn the kernel and solve an example: kernelpde solve NAME")
