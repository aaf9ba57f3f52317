"""What learning asks of a plan of validation."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import equinox as eqx
import numpy as np

from kernelpde.checking import named, real_number, whole_number
from kernelpde.learning._outer import Judge, density, squares
from kernelpde.learning._predictive import Predictions, each_given_all
from kernelpde.problem import Collocation, Problem

Left = tuple[np.ndarray | None, ...]
"""For each condition the rows of the user's own points that are left out of training."""


class AbstractValidation(eqx.Module):
    """Where the outer loss is measured.

    The answers here are those of a plan that judges by the training points themselves.
    """

    @property
    def weights(self) -> Mapping[str, float] | None:
        """Of each condition in the loss; 1 unless given."""
        return None

    @property
    def needs(self) -> frozenset[str]:
        """Capabilities that a linear solver has to have."""
        return frozenset()

    @property
    def batch(self) -> int | None:
        """How many of its points are used in a step; `None` for all."""
        return None

    @property
    def redraws(self) -> bool:
        """Whether each step has points of its own."""
        return False

    @property
    def changes(self) -> bool:
        """Whether the loss scatters from step to step."""
        return self.redraws or self.batch is not None

    @property
    def stays(self) -> bool:
        """Whether there are points, the same in all steps."""
        return False

    @property
    def standardized(self) -> bool:
        """Whether misses are divided by their standard deviation."""
        return False

    @property
    def judge(self) -> Judge:
        """What is made of the solution with all rows, where there are no points."""
        return density if self.standardized else squares

    @property
    def predictions(self) -> Predictions:
        """From what each datum is predicted, where the loss is the density of data."""
        return each_given_all

    def left_out(self, problem: Problem, blocks: tuple[Collocation, ...], seed: int) -> Left:
        """Rows of the user's own points that are not for training."""
        del problem, seed
        return (None,) * len(blocks)

    def drawn(
        self, problem: Problem, points: "Points", step: int
    ) -> tuple[Collocation, ...] | None:
        """The validation points of a step; `None` without any."""
        del problem, points, step
        return None

    def folds(self, rows: int, seed: int, step: int) -> tuple[np.ndarray, ...]:
        """Row numbers of each fold of the training rows; none to leave out one row at a time."""
        del rows, seed, step
        return ()

    def data_of(self, problem: Problem) -> tuple[int, ...] | None:
        """The numbers of the conditions whose density is the loss; `None` if it is none."""
        del problem
        return None

    def thinned(self, share: float) -> "AbstractValidation":
        """The same for a part of the points."""
        del share
        return self


class Points(eqx.Module):
    """The points of a learning run.

    **Attributes:**

    - `train`, `whole`: those for training, and these with what was left out.
    - `left`: rows that were.
    - `seed`, `sampling`: how they were drawn.
    """

    train: tuple[Collocation, ...]
    whole: tuple[Collocation, ...]
    left: Left
    seed: int = eqx.field(static=True)
    sampling: str = eqx.field(static=True)


def check_plan(owner: str, points: Any, weights: Any) -> None:
    """The make of what a plan is given; whether the names exist is known when a problem is."""
    for name, given, check in (
        ("points", points, partial(whole_number, at_least=1)),
        ("weights", weights, partial(real_number, at_least=0)),
    ):
        if given is not None:
            keys = given if isinstance(given, Mapping) else ()
            named(owner, name, given, keys, check, f"Write {name}={{'equation': 100}}.")
