"""Pages of the gallery: scripts that define one problem, imported on first use."""

import ast
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kernelpde.gallery._example import Example
from kernelpde.linear_solvers import DEFAULT_NUGGET

_PAGES = Path(__file__).parent / "pages"

_TEST_POINTS = 1500
"""Number of interior points at which errors are measured."""


class Heading(NamedTuple):
    """Static description of a page.

    **Attributes:**

    - `name`: name, as in `kernelpde solve NAME`.
    - `group`: group of the gallery.
    - `summary`: first line of the docstring.
    - `points`, `training`: numbers of points for the solve and for learning.
    """

    name: str
    group: str
    summary: str
    points: dict[str, int]
    training: dict[str, int]


@cache
def page_summaries() -> dict[str, Heading]:
    """Return the descriptions of all pages by name, without importing them."""
    headings = {}
    for path in sorted(_PAGES.glob("[a-z]*.py")):
        tree = ast.parse(path.read_text())
        assignments = _assignments(tree)
        group = ast.literal_eval(assignments["GROUP"])
        points = ast.literal_eval(assignments["points"])
        training = ast.literal_eval(assignments.get("training", assignments["points"]))
        name = path.stem.replace("_", "-")
        text = ast.get_docstring(tree) or ""
        headings[name] = Heading(name, group, text.split("\n")[0], points, training)
    return headings


def _assignments(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the top-level assignments of a module, also of tuples, by name."""
    values = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                values |= {ast.unparse(n): v for n, v in zip(target.elts, value.elts, strict=True)}
            else:
                values[ast.unparse(target)] = value
    return values


def page(name: str) -> Callable[[], Example]:
    """Return a function that imports a page and returns its example."""

    def make() -> Example:
        module = import_module(f"kernelpde.gallery.pages.{name.replace('-', '_')}")
        rng = np.random.default_rng(7)
        region = module.problem.conditions[0].region
        domain = getattr(module, "domain", region)
        grid = getattr(domain, "interior", domain).sample(_TEST_POINTS, rng, "halton").points
        field_grids = {
            field: region.sample(_TEST_POINTS, rng, "halton").points
            for field, region in getattr(module, "regions", {}).items()
        }
        heading, (small, bound) = page_summaries()[name], module.small
        return Example(
            name,
            heading.summary,
            module.problem,
            module.points,
            module.references,
            grid,
            getattr(module, "training", module.points),
            "halton",
            getattr(module, "parameters", {}),
            getattr(module, "nugget", DEFAULT_NUGGET),
            heading.group,
            small,
            bound,
            getattr(module, "windows", 1),
            field_grids,
        )

    return make
