"""Held-out validation points as the outer loss."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import equinox as eqx
import numpy as np

from kernelpde.checking import check_bool, check_integer
from kernelpde.errors import InputError
from kernelpde.learning.validation._validation import (
    AbstractValidation,
    HeldOutRows,
    LearningPoints,
    check_validation,
)
from kernelpde.problem import PointSet, Problem

_HELD_OUT_STRIDE = 5
"""One in this many user-supplied points is held out for validation."""

_MIN_POINTS = 10
"""Minimum number of user-supplied points from which some are held out. Without the points that
determine it, for example at the ends of an interval, there is no solution to validate."""


class _PointValidation(AbstractValidation):
    points: eqx.AbstractVar[Mapping[str, int] | None]

    def held_out_rows(
        self, problem: Problem, point_sets: tuple[PointSet, ...], seed: int
    ) -> HeldOutRows:
        """Select rows of user-supplied points; `None` where validation points can be drawn."""
        held_out: list[np.ndarray | None] = []
        for condition, points in zip(problem.conditions, point_sets, strict=True):
            if not problem.has_given_points(condition.name):
                held_out.append(None)
                continue
            num_points = points.rows_per_equation
            default = num_points // _HELD_OUT_STRIDE if num_points >= _MIN_POINTS else 0
            count = (self.points or {}).get(condition.name, default)
            if not 0 <= count < num_points:
                raise InputError(
                    f"Condition {condition.name!r}: {count} of its {num_points} points cannot be "
                    "held out for validation. Hold out fewer."
                )
            rng = np.random.default_rng([seed, 17])
            held_out.append(np.sort(rng.permutation(num_points)[:count]) if count else None)
        if all(
            rows is None and problem.has_given_points(condition.name)
            for condition, rows in zip(problem.conditions, held_out, strict=True)
        ):
            raise InputError(
                "HeldOut: there are no points for validation: all conditions have user-supplied "
                "points, and too few of them. Use validation=KFold(), which needs no others."
            )
        return tuple(held_out)

    def draw_points(
        self, problem: Problem, points: LearningPoints, step: int
    ) -> tuple[PointSet, ...]:
        """Draw new points in regions, and return the held-out rows of user-supplied points."""
        counts, point_sets = self.points or {}, []
        for condition, train, all_points, held_out in zip(
            problem.conditions, points.train, points.all_points, points.held_out, strict=True
        ):
            name = condition.name
            if held_out is not None:
                point_sets.append(all_points.select_rows(held_out))
            elif problem.has_given_points(name):
                point_sets.append(train)
            else:
                # A random stream independent of the training points.
                seed = points.seed + 7919 * step + 1_000_003
                count = counts.get(name, train.rows_per_equation)
                point_sets.append(
                    problem.collocate_condition(name, count, seed=seed, sampling=points.sampling)
                )
        return tuple(point_sets)

    def subsampled(self, share: float) -> AbstractValidation:
        if self.points is None:
            return self
        counts = {name: max(1, round(share * count)) for name, count in self.points.items()}
        return replace(self, points=counts)


class HeldOut(_PointValidation):
    """Discretize, then optimize: one fixed set of validation points.

    New points cannot be drawn for conditions at user-supplied points. If there are at least ten,
    one in five is excluded from training. The final solve uses all points.

    **Arguments:**

    - `points`: number of validation points per condition; by default the number of training points.
    - `batch_size`: number of these points per condition used in each Gauss-Newton step, drawn at
      random; all by default.
    - `weights`: weights of the conditions in the loss; 1 by default, 0 excludes a condition.
    - `standardized`: divide residuals by their standard deviation given the training points, where
      that is above the median of the equation. Otherwise the few points farthest from the training
      points may dominate the loss, for example with uniform random points.

    **Example:**

    ```python
    >>> kp.learn(problem, points, validation=kp.HeldOut({"equation": 40, "ends": 2})).converged
    True
    ```
    """

    points: Mapping[str, int] | None = None
    batch_size: int | None = None  # pyright: ignore[reportIncompatibleMethodOverride]
    weights: Mapping[str, float] | None = None  # pyright: ignore[reportIncompatibleMethodOverride]
    standardized: bool = False  # pyright: ignore[reportIncompatibleMethodOverride]

    def __check_init__(self):
        check_validation("HeldOut", self.points, self.weights)
        check_bool("HeldOut", "standardized", self.standardized)
        if self.batch_size is not None:
            check_integer("HeldOut", "batch_size", self.batch_size, at_least=1)

    @property
    def required_capabilities(self) -> frozenset[str]:
        return frozenset({"covariance"}) if self.standardized else frozenset()


class Resampled(_PointValidation):
    """Optimize, then discretize: new validation points in each Gauss-Newton step.

    **Arguments:** as for `HeldOut`.

    **Example:**

    ```python
    >>> resampled = kp.learn(problem, points, validation=kp.Resampled(), max_steps=3, throw=False)
    ```
    """

    points: Mapping[str, int] | None = None
    weights: Mapping[str, float] | None = None  # pyright: ignore[reportIncompatibleMethodOverride]

    is_resampled: ClassVar[bool] = True

    def __check_init__(self):
        check_validation("Resampled", self.points, self.weights)


def can_hold_out_points(problem: Problem, point_sets: tuple[PointSet, ...]) -> bool:
    """Return whether validation points can be drawn or held out."""
    return any(
        not problem.has_given_points(condition.name) or points.rows_per_equation >= _MIN_POINTS
        for condition, points in zip(problem.conditions, point_sets, strict=True)
    )
