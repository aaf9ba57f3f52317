"""The pages of the gallery: found by their files, read when they are asked for."""

import ast
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kernelpde.gallery._example import Example

_PAGES = Path(__file__).parent / "pages"

_TESTED = 1500
"""Points inside of a domain at which errors are measured."""


class Heading(NamedTuple):
    """What a page says of itself.

    **Attributes:**

    - `name`: as in `kernelpde solve NAME`.
    - `group`: of the gallery.
    - `summary`: the first line of its text.
    - `points`, `training`: numbers of points for the solution and for learning.
    """

    name: str
    group: str
    summary: str
    points: dict[str, int]
    training: dict[str, int]


@cache
def headings() -> dict[str, Heading]:
    """All pages, without running them."""
    found = {}
    for path in sorted(_PAGES.glob("[a-z]*.py")):
        tree = ast.parse(path.read_text())
        written = _assigned(tree)
        group, points = (ast.literal_eval(written[each]) for each in ("GROUP", "points"))
        training = ast.literal_eval(written.get("training", written["points"]))
        name = path.stem.replace("_", "-")
        text = ast.get_docstring(tree) or ""
        found[name] = Heading(name, group, text.split("\n")[0], points, training)
    return found


def _assigned(tree: ast.Module) -> dict[str, ast.expr]:
    """What the names of a module are assigned, one by one or as a tuple."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                found |= {ast.unparse(n): v for n, v in zip(target.elts, value.elts, strict=True)}
            else:
                found[ast.unparse(target)] = value
    return found


def page(name: str) -> Callable[[], Example]:
    """A function that makes the example of a page."""

    def make() -> Example:
        module = import_module(f"kernelpde.gallery.pages.{name.replace('-', '_')}")
        rng = np.random.default_rng(7)
        first = module.problem.conditions[0].region
        whole = getattr(module, "domain", first)
        grid = getattr(whole, "interior", whole).sample(_TESTED, rng, "halton").points
        places = {
            field: region.sample(_TESTED, rng, "halton").points
            for field, region in getattr(module, "regions", {}).items()
        }
        heading, (small, bound) = headings()[name], module.small
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
            getattr(module, "nugget", 1e-12),
            heading.group,
            small,
            bound,
            getattr(module, "windows", 1),
            places,
        )

    return make
