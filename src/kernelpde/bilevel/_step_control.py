"""Control of the learning steps: frozen hyperparameters, step lengths and convergence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

_LARGE_CHANGE = 0.3
"""Relative change of the iterate above which the previous linearization is uninformative."""

_PATIENCE = 4
"""Maximum number of consecutive frozen steps after large changes."""

_MAX_LARGE_CHANGES = 10
"""Number of large changes after which the step length is chosen by the residuals."""

_FLUCTUATION_STEPS = 4
"""Number of steps without net progress that are attributed to changing validation points."""

_SMALL_CHANGE = 0.01
"""Relative change of the iterate below which fluctuation is tested."""

_MAX_FROZEN_STEPS = 15
"""With data, maximum number of initial frozen steps."""

_FROZEN_UNTIL_CHANGE = 0.03
"""With data, relative change of the iterate below which the initial frozen steps end."""

_CONVERGED_STEPS = 5
"""With data, number of consecutive steps that must leave the hyperparameters unchanged."""

_CONVERGED_MOVE = 0.02
"""With data, maximum change of an unchanged hyperparameter."""

_REPEAT_ABOVE = 12
"""Number of hyperparameters above which convergence requires two consecutive small moves."""


_OSCILLATION_CHANGE = 0.3
"""Relative change below which an iteration that does not contract counts as oscillating."""


def _is_oscillating(changes: np.ndarray) -> bool:
    """Return whether the last three changes are small, and none below the change two before it."""
    near_solution = changes[-3:].max() <= _OSCILLATION_CHANGE
    return bool(near_solution and (changes[-3:] > 0.95 * changes[-5:-2]).all())


def _max_move(thetas: Sequence[np.ndarray]) -> float:
    return float(np.max(np.abs(np.diff(np.asarray(thetas), axis=0)), initial=0.0))


@dataclass(frozen=True)
class StepControl:
    """History of the learning steps, which determines the next step.

    **Attributes:**

    - `uses_data`: whether the loss is a density of data. The inner iteration then converges
      linearly, residuals of data do not vanish, and the initial iterate is far from the data.
    - `stochastic`: whether validation points change from step to step.
    - `theta_history`: hyperparameters after each step that was not frozen.
    - `changes`: relative changes of the iterate.
    - `consecutive_large_changes`: number of last steps with a large change.
    - `consecutive_frozen_steps`: number of last steps with frozen hyperparameters.
    - `total_large_changes`: number of all steps with a large change.
    - `halve_steps`: whether steps have length ½ because full steps oscillated.
    """

    uses_data: bool
    stochastic: bool
    theta_history: tuple[np.ndarray, ...] = ()
    changes: tuple[float, ...] = ()
    consecutive_large_changes: int = 0
    consecutive_frozen_steps: int = 0
    total_large_changes: int = 0
    halve_steps: bool = False

    def freeze_hyperparameters(self) -> bool:
        """Return whether the next step updates only the linearization point.

        Far from a solution the outer loss is uninformative about the kernel. With data,
        hyperparameters are learned only after the inner iteration has nearly converged.
        """
        large_changes = (
            self.consecutive_large_changes >= 2 and self.consecutive_frozen_steps < _PATIENCE
        )
        far_from_data = (
            self.uses_data
            and len(self.changes) < _MAX_FROZEN_STEPS
            and all(change > _FROZEN_UNTIL_CHANGE for change in self.changes)
        )
        return large_changes or far_from_data

    def before_step(self) -> "StepControl":
        """Halve all further steps if full steps oscillate."""
        if not self.uses_data or self.halve_steps or len(self.changes) < 5:
            return self
        return replace(self, halve_steps=_is_oscillating(np.asarray(self.changes)))

    def lengths(self, step_lengths: Sequence[float]) -> np.ndarray:
        """Return the fractions of the inner step to choose from."""
        if self.uses_data:
            return np.array([0.5 if self.halve_steps else 1.0])
        full_only = self.total_large_changes < _MAX_LARGE_CHANGES
        return np.asarray(step_lengths)[: 1 if full_only else None]

    def after_step(self, theta: np.ndarray | None, change: float) -> "StepControl":
        """Record a step with its new θ, `None` if θ was frozen, and its relative change."""
        is_large = change > _LARGE_CHANGE
        return replace(
            self,
            theta_history=self.theta_history if theta is None else (*self.theta_history, theta),
            changes=(*self.changes, change),
            consecutive_large_changes=self.consecutive_large_changes + 1 if is_large else 0,
            consecutive_frozen_steps=self.consecutive_frozen_steps + 1 if theta is None else 0,
            total_large_changes=self.total_large_changes + is_large,
        )

    def has_converged(self) -> bool:
        """Return whether a small move of the hyperparameters indicates convergence.

        With data the iterate follows the hyperparameters slowly, so several moves must be small.
        """
        thetas = self.theta_history
        if not self.uses_data:
            # With many hyperparameters a step may fail although the next, shorter one succeeds.
            if thetas[-1].size <= _REPEAT_ABOVE:
                return True
            return len(thetas) > 2 and _max_move(thetas[-3:]) < 0.5 * _CONVERGED_MOVE
        recent = thetas[-_CONVERGED_STEPS - 1 :]
        return len(recent) > _CONVERGED_STEPS and _max_move(recent) < _CONVERGED_MOVE

    def mean_if_fluctuating(self) -> np.ndarray | None:
        """Return the mean of the last θ if they fluctuate with the validation points."""
        if (
            not self.stochastic
            or len(self.theta_history) <= _FLUCTUATION_STEPS
            or self.changes[-1] > _SMALL_CHANGE
        ):
            return None
        moves = np.diff(self.theta_history[-_FLUCTUATION_STEPS - 1 :], axis=0)
        net_move = np.linalg.norm(np.sum(moves, axis=0))
        if net_move >= 0.5 * np.sum(np.linalg.norm(moves, axis=1)):
            return None
        return np.mean(self.theta_history[-_FLUCTUATION_STEPS:], axis=0)
