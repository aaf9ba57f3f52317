"""Base class of the outer losses, and the points of a learning run."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from kernelpde.checking import check_integer, check_mapping, check_real
from kernelpde.learning._outer import Formula, predictive_density, squared_error
from kernelpde.learning._predictive import Predictor, leave_one_out_predictor
from kernelpde.problem import PointSet, Problem

HeldOutRows = tuple[np.ndarray | None, ...]
"""Per condition the rows of user-supplied points that are excluded from training, or `None`."""


class AbstractValidation(eqx.Module):
    """Definition of the outer loss.

    The defaults define a loss at the training points.
    """

    is_resampled: ClassVar[bool] = False
    """True if validation points are redrawn in each step."""

    predictor: ClassVar[Predictor] = leave_one_out_predictor
    """Conditioning of the data, if the loss is their density."""

    # Properties, since subclasses have fields of these names, whose order a ClassVar would change.

    @property
    def weights(self) -> Mapping[str, float] | None:
        """Weights of the conditions in the loss; 1 by default."""
        return None

    @property
    def batch_size(self) -> int | None:
        """Number of validation points per condition and step; `None` for all."""
        return None

    @property
    def standardized(self) -> bool:
        """True if residuals are divided by their standard deviations."""
        return False

    @property
    def required_capabilities(self) -> frozenset[str]:
        """Capabilities that the linear solver must have."""
        return frozenset()

    @property
    def is_stochastic(self) -> bool:
        """True if the loss is random from step to step."""
        return self.is_resampled or self.batch_size is not None

    @property
    def formula(self) -> Formula:
        """Map from the solution with all rows to ρ, if there are no validation points."""
        return predictive_density if self.standardized else squared_error

    def held_out_rows(
        self, problem: Problem, point_sets: tuple[PointSet, ...], seed: int
    ) -> HeldOutRows:
        """Return the rows of user-supplied points that are excluded from training."""
        del problem, seed
        return (None,) * len(point_sets)

    def draw_points(
        self, problem: Problem, points: "LearningPoints", step: int
    ) -> tuple[PointSet, ...] | None:
        """Return the validation points of a step, or `None` without validation points."""
        del problem, points, step
        return None

    def folds(self, rows: int, seed: int, step: int) -> tuple[np.ndarray, ...]:
        """Return the row indices of each fold of the training rows; empty for leave-one-out."""
        del rows, seed, step
        return ()

    def data_condition_indices(self, problem: Problem) -> tuple[int, ...] | None:
        """Return the indices of the conditions whose density is the loss, or `None`."""
        del problem
        return None

    def subsampled(self, share: float) -> "AbstractValidation":
        """Return the same loss for a share of the points."""
        del share
        return self


class LearningPoints(eqx.Module):
    """The points of a learning run.

    **Attributes:**

    - `train`: training points.
    - `all_points`: training and held-out points.
    - `held_out`: rows of the held-out points.
    - `seed`, `sampling`: seed and method of point sampling.
    """

    train: tuple[PointSet, ...]
    all_points: tuple[PointSet, ...]
    held_out: HeldOutRows
    seed: int = eqx.field(static=True)
    sampling: str = eqx.field(static=True)


def check_validation(caller: str, points: Any, weights: Any) -> None:
    """Check the types of arguments; names of conditions are checked by `learn`."""
    for name, value, check in (
        ("points", points, partial(check_integer, at_least=1)),
        ("weights", weights, partial(check_real, at_least=0)),
    ):
        if value is not None:
            keys = value if isinstance(value, Mapping) else ()
            check_mapping(caller, name, value, keys, check, f"Write {name}={{'equation': 100}}.")
