"""Where the outer loss is measured."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

import equinox as eqx
import numpy as np

from kernelpde.checking import named, real_number, truth, whole_number
from kernelpde.errors import InputError
from kernelpde.geometry import Averages, PointCloud
from kernelpde.problem import Collocation, Problem


class HeldOut(eqx.Module):
    """Discretize, then optimize: one set of validation points, kept throughout.

    Conditions on points of the user's own have no others: one in five of those is left out of
    training, if there are at least ten, and is part of the final solve.

    **Arguments:**

    - `points`: how many for each condition; as many as there are training points if left out.
    - `batch`: use only so many of them, drawn anew in each Gauss-Newton step, for each condition
      or for those named.
    - `weights`: of each condition in the loss; 1 unless given, 0 leaves it out.
    """

    points: Mapping[str, int] | None = None
    batch: int | None = None
    weights: Mapping[str, float] | None = None

    def __check_init__(self):
        _check_plan("HeldOut", self.points, self.weights)
        if self.batch is not None:
            whole_number("HeldOut", "batch", self.batch, at_least=1)


class Resampled(eqx.Module):
    """Optimize, then discretize: new validation points in each Gauss-Newton step.

    **Arguments:** as for `HeldOut`.
    """

    points: Mapping[str, int] | None = None
    weights: Mapping[str, float] | None = None

    def __check_init__(self):
        _check_plan("Resampled", self.points, self.weights)


class KFold(eqx.Module):
    """K-fold cross-validation on the training points, from one factorization.

    **Arguments:**

    - `count`: K; `None` leaves out one row at a time.
    - `weights`: of each condition in the loss.
    - `standardized`: divide what each row misses by its standard deviation given the others, which
      makes the loss the predictive density of the rows left out; otherwise it is a sum of squares.
    """

    count: int | None = None
    weights: Mapping[str, float] | None = None
    standardized: bool = True

    def __check_init__(self):
        if self.count is not None and whole_number("KFold", "count", self.count) < 2:
            raise InputError(f"KFold: expected at least 2 folds; got {self.count}.")
        _check_plan("KFold", None, self.weights)
        truth("KFold", "standardized", self.standardized)

    def rows(self, total: int, seed: int) -> tuple[np.ndarray, ...]:
        """The row numbers of each fold, drawn at random."""
        if self.count is None:
            return ()
        if self.count > total:
            raise InputError(f"KFold: {self.count} folds of {total} rows.")
        order = np.random.default_rng([seed, 7]).permutation(total)
        return tuple(np.sort(part) for part in np.array_split(order, self.count))


class LeaveOneOutPredictive(eqx.Module):
    """The predictive density of data, each left out in turn: for inverse problems and regression.

    Equations stay; no validation points are needed. How closely data are followed comes from their
    noise, which may be learned as well; amplitudes of the kernels matter and are learned with the
    lengthscales.

    **Arguments:**

    - `data`: the names of the conditions that are data; if left out, those on points of their own
      with noise.
    """

    data: tuple[str, ...] | None = None

    def __check_init__(self):
        words = () if self.data is None else self.data
        listed = isinstance(words, Sequence) and not isinstance(words, str)
        if not listed or not all(isinstance(name, str) for name in words):
            raise InputError(
                "LeaveOneOutPredictive: data must be names of conditions, as in data=('sensors',); "
                f"got {self.data!r}."
            )

    def conditions(self, problem: Problem) -> tuple[int, ...]:
        """The numbers of the conditions that are data."""
        names = data_conditions(problem) if self.data is None else self.data
        chosen = [problem.condition_index(name) for name in names]
        if not chosen:
            raise InputError(
                "LeaveOneOutPredictive: the problem has no data. Expected a condition on points of "
                "its own with noise, or names of conditions as in "
                "LeaveOneOutPredictive(data=('sensors',))."
            )
        return tuple(sorted(chosen))


def _check_plan(owner: str, points: object, weights: object) -> None:
    """The make of what a plan is given; whether the names exist is known when a problem is."""
    for name, given, check in (
        ("points", points, partial(whole_number, at_least=1)),
        ("weights", weights, partial(real_number, at_least=0)),
    ):
        if given is not None:
            keys = given if isinstance(given, Mapping) else ()
            named(owner, name, given, keys, check, f"Write {name}={{'equation': 100}}.")


def data_conditions(problem: Problem) -> tuple[str, ...]:
    """Conditions on points of their own, with noise."""
    return tuple(
        c.name
        for c in problem.conditions
        if isinstance(c.region, PointCloud | Averages) and np.any(c.noise_level > 0)
    )


Validation: TypeAlias = HeldOut | Resampled | KFold | LeaveOneOutPredictive
"""A plan for the outer loss: points of its own, folds of the training points, or data."""


_SHARE = 5
"""Of points of the user's own one in so many is left out for validation."""

_FEWEST = 10
"""Of fewer of them none is: without an end point there is no solution to be judged."""


def left_out(
    problem: Problem, blocks: tuple[Collocation, ...], counts: Mapping[str, int] | None, seed: int
) -> tuple[np.ndarray | None, ...]:
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


def batch_of(
    block: Collocation, size: int, rng: np.random.Generator
) -> tuple[Collocation, np.ndarray]:
    """Some of the points of a block, and their numbers; averages stay together."""
    count = block.count
    if block.quadrature is not None:
        return block, np.arange(count)
    chosen = np.sort(rng.choice(count, size=min(size, count), replace=False))
    return block.take(chosen), chosen
