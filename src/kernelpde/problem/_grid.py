"""Names of the fields of a problem, and grids over its domain."""

from collections.abc import Mapping, Sequence

from kernelpde.checking import check_instance
from kernelpde.geometry import Grid, bounding_box, make_grid
from kernelpde.problem._problem import Problem

_RESOLUTION = (401, 121, 41)
"""Points along each coordinate, for one, two, and three or more free coordinates. More resolution
is not visible in a plot, half of it is. In three dimensions double costs 4 MB per field."""


def field_names(problem: Problem) -> list[str]:
    """Return the names of the fields, complex ones as one, without parameters and laws."""
    components = {problem.fields[i].name for _, *pair in problem.complex_fields for i in pair}
    excluded = components | {unknown.name for unknown in (*problem.parameters, *problem.laws)}
    return [
        *(name for name, *_ in problem.complex_fields),
        *(field.name for field in problem.fields if field.name not in excluded),
    ]


def problem_grid(
    problem: Problem,
    counts: int | Sequence[int] | None = None,
    at: Mapping[str, float] | None = None,
    free: int | None = None,
) -> Grid:
    """Make a grid over the domain of a problem.

    **Arguments:**

    - `problem`: problem whose conditions bound the grid.
    - `counts`: number of points along each free coordinate.
    - `at`: coordinates to fix.
    - `free`: maximum number of free coordinates. Further coordinates are fixed at their middle,
      time first and then from the last on.
    """
    names, time = problem.space.coordinates, problem.space.time
    regions = [condition.region for condition in problem.conditions]
    fixed = {} if at is None else at
    check_instance("A grid", "at", fixed, Mapping, 'a dictionary such as {"t": 0.5}')
    fixed = dict(fixed)
    if free is not None:
        middles = dict(zip(names, bounding_box(regions).mean(1), strict=True))
        for name in sorted(names, key=lambda name: (name != time, -names.index(name))):
            if len(names) - len(fixed) > free and name not in fixed:
                fixed[name] = float(middles[name])
    num_free = len(names) - len([name for name in fixed if name in names])
    if counts is None:
        counts = _RESOLUTION[min(max(num_free, 1), len(_RESOLUTION)) - 1]
    return make_grid(regions, names, counts, fixed)
