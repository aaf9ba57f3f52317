"""Gallery problem with reference solution and settings."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec

import numpy as np
from jaxtyping import Array, Float

from kernelpde.checking import check_instance, check_integer, check_real
from kernelpde.evolve import Evolution
from kernelpde.linear_solvers import DEFAULT_NUGGET
from kernelpde.problem import Problem
from kernelpde.solution import Solution, check_solution

Settings = ParamSpec("Settings")


@dataclasses.dataclass(frozen=True)
class Example:
    """Problem with reference solution.

    **Attributes:**

    - `name`: name, as in `kernelpde solve NAME`.
    - `summary`: description in one line.
    - `problem`: fields, kernels and conditions.
    - `points`: number of points of each condition, in each window.
    - `references`: reference solutions by field, as functions of points `(n, d)`.
    - `grid`: test points at which errors are measured.
    - `training`: number of training points for learning, also of validation points.
    - `sampling`: default point distribution of the command.
    - `parameters`: true values of unknown parameters.
    - `nugget`: default nugget of the command.
    - `group`: group of the gallery.
    - `small`: numbers of points for a quick test.
    - `bound`: bound on the relative error with `small`.
    - `num_windows`: number of time windows for `march`, by default without learning. With 1, the
      problem is solved at once.
    - `field_grids`: test points of fields for which `grid` is not used.
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
    nugget: float = DEFAULT_NUGGET
    group: str = "the paper and more"
    small: Mapping[str, int] = dataclasses.field(default_factory=dict)
    bound: float = 1.0
    num_windows: int = 1
    field_grids: Mapping[str, Float[np.ndarray, "_ d"]] = dataclasses.field(default_factory=dict)

    def errors(self, solution: Solution | Evolution) -> dict[str, dict[str, float]]:
        """Return root mean square ("l2" in the paper), maximum and relative error of each field.

        For a complex field the errors of its absolute value are included, as in the paper.
        """
        if not isinstance(solution, Evolution):
            check_solution("errors", solution)
        errors = {}
        for field, reference in self.references.items():
            points = self.field_grids.get(field, self.grid)
            values, truth = np.asarray(solution[field](points)), np.asarray(reference(points))
            errors[field] = _norms(values - truth, truth)
            if np.iscomplexobj(truth):
                errors[f"abs({field})"] = _norms(np.abs(values) - np.abs(truth), truth)
        return errors


_CHECKS: dict[str, Callable[[str, str, Any], Any]] = {
    "lengthscale": functools.partial(check_real, greater_than=0),
    "duration": functools.partial(check_real, greater_than=0),
    "noise": functools.partial(check_real, greater_than=0),
    "seed": functools.partial(check_integer, at_least=0),
    "observations": functools.partial(check_integer, at_least=1),
    "shape": functools.partial(
        check_instance, kinds=(tuple, list), expected="two numbers of bumps, such as (4, 15)"
    ),
}


def gallery(make: Callable[Settings, Example]) -> Callable[Settings, Example]:
    """Decorate a function that returns an example: check its arguments by name."""

    @functools.wraps(make)
    def checked(*args: Settings.args, **kwargs: Settings.kwargs) -> Example:
        arguments = inspect.signature(make).bind(*args, **kwargs).arguments
        for name, value in arguments.items():
            if name in _CHECKS:
                _CHECKS[name](make.__name__, name, value)
        return make(*args, **kwargs)

    return checked


def _norms(error: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    rms = float(np.sqrt(np.mean(np.abs(error) ** 2)))
    return {
        "l2": rms,
        "linf": float(np.max(np.abs(error))),
        "relative": rms / float(np.sqrt(np.mean(np.abs(truth) ** 2))),
    }


def product_grid(*axes: Float[np.ndarray, " _"] | Array) -> Float[np.ndarray, "m d"]:
    """Return the points of a tensor-product grid, one per row."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
