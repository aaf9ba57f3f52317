"""Validation points that are not for training."""

from collections.abc import Mapping
from dataclasses import replace

import equinox as eqx
import numpy as np

from kernelpde.checking import truth, whole_number
from kernelpde.errors import InputError
from kernelpde.learning.validation._plan import AbstractValidation, Left, Points, check_plan
from kernelpde.problem import Collocation, Problem

_SHARE = 5
"""Of the user's own points one in this many is held out for validation."""

_FEWEST = 10
"""Of fewer of them none is: without an end point there is no solution to be judged."""


class _OtherPoints(AbstractValidation):
    points: eqx.AbstractVar[Mapping[str, int] | None]

    def left_out(self, problem: Problem, blocks: tuple[Collocation, ...], seed: int) -> Left:
        return left_out(problem, blocks, self.points, seed)

    def drawn(self, problem: Problem, points: Points, step: int) -> tuple[Collocation, ...]:
        """Others, or those of the user's own that were left out."""
        asked, found = self.points or {}, []
        for condition, block, whole, rows in zip(
            problem.conditions, points.train, points.whole, points.left, strict=True
        ):
            name = condition.name
            if rows is not None:
                found.append(whole.take(rows))
            elif problem.has_own_points(name):
                found.append(block)
            else:
                # Another random stream than that of the training points.
                seed = points.seed + 7919 * step + 1_000_003
                count = asked.get(name, block.count)
                found.append(problem.collocated(name, count, seed=seed, sampling=points.sampling))
        return tuple(found)

    def thinned(self, share: float) -> AbstractValidation:
        if self.points is None:
            return self
        fewer = {name: max(1, round(share * count)) for name, count in self.points.items()}
        return replace(self, points=fewer)


class HeldOut(_OtherPoints):
    """Discretize, then optimize: one set of validation points, kept throughout.

    For conditions on given points no others can be drawn: if there are at least ten, one in five is
    left out of training. The final solve uses all of them.

    **Arguments:**

    - `points`: how many for each condition; as many as there are training points if left out.
    - `batch`: use only this many points of each condition, drawn anew in each Gauss-Newton step.
    - `weights`: of each condition in the loss; 1 unless given, 0 leaves it out.
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
    batch: int | None = None  # pyright: ignore[reportIncompatibleMethodOverride]
    weights: Mapping[str, float] | None = None  # pyright: ignore[reportIncompatibleMethodOverride]
    standardized: bool = False  # pyright: ignore[reportIncompatibleMethodOverride]

    def __check_init__(self):
        check_plan("HeldOut", self.points, self.weights)
        truth("HeldOut", "standardized", self.standardized)
        if self.batch is not None:
            whole_number("HeldOut", "batch", self.batch, at_least=1)

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"covariance"}) if self.standardized else frozenset()

    @property
    def stays(self) -> bool:
        return self.batch is None


class Resampled(_OtherPoints):
    """Optimize, then discretize: new validation points in each Gauss-Newton step.

    **Arguments:** as for `HeldOut`.

    **Example:**

    ```python
    >>> anew = kp.learn(problem, points, validation=kp.Resampled(), max_steps=3, throw=False)
    ```
    """

    points: Mapping[str, int] | None = None
    weights: Mapping[str, float] | None = None  # pyright: ignore[reportIncompatibleMethodOverride]

    def __check_init__(self):
        check_plan("Resampled", self.points, self.weights)

    @property
    def redraws(self) -> bool:
        return True


def left_out(
    problem: Problem, blocks: tuple[Collocation, ...], counts: Mapping[str, int] | None, seed: int
) -> Left:
    """For each condition the rows of the user's own points that are left out of training.

    Of other points there are as many as one likes: nothing is left out, `None`.

    **Arguments:**

    - `problem`, `blocks`: with all points.
    - `counts`: how many to leave out, where that was said.
    - `seed`: of the choice.
    """
    found: list[np.ndarray | None] = []
    for condition, block in zip(problem.conditions, blocks, strict=True):
        own = problem.has_own_points(condition.name)
        default = block.count // _SHARE if block.count >= _FEWEST else 0
        count = (counts or {}).get(condition.name, default) if own else 0
        if own and not 0 <= count < block.count:
            raise InputError(
                f"Condition {condition.name!r}: {count} of its {block.count} points cannot be left "
                "out for validation. Leave out fewer."
            )
        rng = np.random.default_rng([seed, 17])
        found.append(np.sort(rng.permutation(block.count)[:count]) if count else None)
    if not any(
        rows is not None or not problem.has_own_points(condition.name)
        for condition, rows in zip(problem.conditions, found, strict=True)
    ):
        raise InputError(
            "HeldOut: there are no points for validation: every condition has its own, and too few "
            "of them. Use validation=KFold(), which leaves out one at a time."
        )
    return tuple(found)


def can_hold_out(problem: Problem, blocks: tuple[Collocation, ...]) -> bool:
    """Whether points for validation can be had, by drawing them or by leaving some out."""
    return any(
        not problem.has_own_points(c.name) or b.count >= _FEWEST
        for c, b in zip(problem.conditions, blocks, strict=True)
    )
