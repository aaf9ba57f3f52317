"""What a gallery problem consists of."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec

import numpy as np
from jaxtyping import Array, Float

from kernelpde.checking import instance, real_number, whole_number
from kernelpde.evolve import Evolution
from kernelpde.gauss_newton import Solution, check_solution
from kernelpde.problem import Problem

Settings = ParamSpec("Settings")


@dataclasses.dataclass(frozen=True)
class Example:
    """A problem with a reference solution.

    **Attributes:**

    - `name`: as in `kernelpde solve NAME`.
    - `summary`: one line.
    - `problem`: fields, kernels and conditions.
    - `points`: how many points each condition is meant to have.
    - `references`: for each field with a known solution, a function of points `(n, d)`.
    - `grid`: points at which errors are measured.
    - `training`: how many points learning takes; as many for validation.
    - `sampling`: how the command draws points unless told otherwise.
    - `parameters`: the true values of unknown numbers.
    - `nugget`: that suits it; 1e-12 unless given.
    - `group`: of the gallery it belongs to.
    - `small`: fewer points, for a quick look.
    - `bound`: on the relative error with these.
    - `windows`: of time, one after another by `march`, with kernels as they are; `points` are those
      of each. 1 is for `learn` and all of the time at once.
    - `places`: points at which errors of some fields are measured, if not at those of `grid`.
    """

    name: str
    summary: str
    problem: Problem
    points: Mapping[str, int]
    references: Mapping[str, Callable[[np.ndarray], np.ndarray]]
    grid: Float[np.ndarray, "n d"]
    training: Mapping[str, int]
    sampling: str = "uniform"
    parameters: Mapping[str, float] = dataclasses.field(default_factory=dict)
    nugget: float = 1e-12
    group: str = "the paper and more"
    small: Mapping[str, int] = dataclasses.field(default_factory=dict)
    bound: float = 1.0
    windows: int = 1
    places: Mapping[str, Float[np.ndarray, "_ d"]] = dataclasses.field(default_factory=dict)

    def errors(self, solution: Solution | Evolution) -> dict[str, dict[str, float]]:
        """Root mean square ("l2", as the paper has it), maximum and relative error of each field.

        For a complex field also those of its absolute value, which is what the paper compares.
        """
        if not isinstance(solution, Evolution):
            check_solution("errors", solution)
        found = {}
        for field, reference in self.references.items():
            where = self.places.get(field, self.grid)
            values, truth = np.asarray(solution[field](where)), np.asarray(reference(where))
            found[field] = _sizes(values - truth, truth)
            if np.iscomplexobj(truth):
                found[f"abs({field})"] = _sizes(np.abs(values) - np.abs(truth), truth)
        return found


_CHECKS: dict[str, Callable[[str, str, Any], Any]] = {
    "lengthscale": functools.partial(real_number, above=0),
    "duration": functools.partial(real_number, above=0),
    "noise": functools.partial(real_number, above=0),
    "seed": functools.partial(whole_number, at_least=0),
    "observations": functools.partial(whole_number, at_least=1),
    "shape": functools.partial(
        instance, kinds=(tuple, list), expected="two numbers of bumps, such as (4, 15)"
    ),
}


def gallery(make: Callable[Settings, Example]) -> Callable[Settings, Example]:
    """A function that makes an example, its settings checked by their names."""

    @functools.wraps(make)
    def checked(*positional: Settings.args, **named: Settings.kwargs) -> Example:
        given = inspect.signature(make).bind(*positional, **named).arguments
        for name, value in given.items():
            if name in _CHECKS:
                _CHECKS[name](make.__name__, name, value)
        return make(*positional, **named)

    return checked


def _sizes(error: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    size = float(np.sqrt(np.mean(np.abs(error) ** 2)))
    return {
        "l2": size,
        "linf": float(np.max(np.abs(error))),
        "relative": size / float(np.sqrt(np.mean(np.abs(truth) ** 2))),
    }


def product_grid(*axes: Float[np.ndarray, " _"] | Array) -> Float[np.ndarray, "m d"]:
    """All combinations of coordinates, one point per row."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
