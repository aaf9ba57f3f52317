"""When the state moves alone, how far it goes, and when learning has come to rest."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernelpde.gauss_newton import cycles

_FAR = 0.3
"""A relative change of the state that leaves little of what was known of it."""

_PATIENCE = 4
"""Maximum number of consecutive steps that move the state alone."""

_TRUST = 10
"""Number of such changes after which steps are taken only as far as the residuals allow."""

_WANDERING = 4
"""Number of steps without progress that count as the scatter of the validation points."""

_SETTLED = 0.01
"""Relative change of the state below which this may be said."""

_FIRST = 15
"""With data, the maximum number of steps in the beginning that move the state alone,"""

_NEARER = 0.03
"""until one changes it by less than this."""

_RESTING = 5
"""With data, the number of consecutive steps that must leave the hyperparameters unchanged,"""

_AT_REST = 0.02
"""none moving one of them by more than this."""


_MANY = 12
"""With more hyperparameters than this, two steps in a row must find nothing better."""


def _still(path: Sequence[np.ndarray]) -> bool:
    return bool(np.max(np.abs(np.diff(path, axis=0)), initial=0.0) < 0.5 * _AT_REST)


def _cycles(changes: Sequence[float]) -> bool:
    return len(changes) >= 5 and bool(cycles(np.asarray(changes)))


@dataclass(frozen=True)
class Pace:
    """What the steps so far say about the next one.

    **Attributes:**

    - `with_data`: whether the loss is a density of data. The inner iteration then converges
      linearly, residuals of data are to stay, and at first the state is not even near to them.
    - `changing`: whether validation points change from step to step.
    - `path`: where the hyperparameters went, in steps in which they did.
    - `changes`: of the state, relative.
    - `unsettled`, `held`, `far`: how many of the last steps changed the state much, or moved it
      alone; how many of all changed it much.
    - `shortened`: whether steps are half ones, since full steps oscillated.
    """

    with_data: bool
    changing: bool
    path: tuple[np.ndarray, ...] = ()
    changes: tuple[float, ...] = ()
    unsettled: int = 0
    held: int = 0
    far: int = 0
    shortened: bool = False

    def state_alone(self) -> bool:
        """Whether the next step leaves the hyperparameters as they are.

        Far from a solution the loss says little about the kernel, and data are judged only once
        the state is near.
        """
        lost = self.unsettled >= 2 and self.held < _PATIENCE
        waiting = (
            self.with_data
            and len(self.changes) < _FIRST
            and all(change > _NEARER for change in self.changes)
        )
        return lost or waiting

    def before_step(self) -> "Pace":
        """Half steps from now on, if full steps oscillate."""
        return replace(self, shortened=self.with_data and (self.shortened or _cycles(self.changes)))

    def lengths(self, offered: Sequence[float]) -> np.ndarray:
        """Fractions of the inner step to choose from."""
        if self.with_data:
            return np.array([0.5 if self.shortened else 1.0])
        # Whole steps, until they have led nowhere for long.
        return np.asarray(offered)[: None if self.far >= _TRUST else 1]

    def after_step(self, theta: np.ndarray | None, change: float) -> "Pace":
        """With a step taken into account: where the hyperparameters went, if they did."""
        unsettled = self.unsettled + 1 if change > _FAR else 0
        return replace(
            self,
            path=self.path if theta is None else (*self.path, theta),
            changes=(*self.changes, change),
            unsettled=unsettled,
            held=self.held + 1 if theta is None else 0,
            far=self.far + (unsettled > 0),
        )

    def rested(self) -> bool:
        """Whether the hyperparameters have rested, where the state follows them slowly.

        With data a step in which nothing better was found says little.
        """
        if not self.with_data:
            # Among many hyperparameters a step may fail and the next one, shorter, lead on.
            last = self.path[-1].size
            return last <= _MANY or (len(self.path) > 2 and _still(self.path[-3:]))
        recent = np.array(self.path[-_RESTING - 1 :])
        still = np.max(np.abs(np.diff(recent, axis=0)), initial=0.0) < _AT_REST
        return len(recent) > _RESTING and bool(still)

    def scattered(self) -> np.ndarray | None:
        """The middle of the last moves, if they oscillate with the scatter of new points."""
        if not self.changing or len(self.path) <= _WANDERING or self.changes[-1] > _SETTLED:
            return None
        moves = np.diff(self.path[-_WANDERING - 1 :], axis=0)
        whole = np.linalg.norm(np.sum(moves, axis=0))
        if whole >= 0.5 * np.sum(np.linalg.norm(moves, axis=1)):
            return None
        return np.mean(self.path[-_WANDERING:], axis=0)
