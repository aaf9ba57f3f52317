"""Pictures of a learning run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelpde.drawing import Chart, Curve, draw_charts
from kernelpde.learning._record import LearningRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST = 8
"""Maximum number of hyperparameters drawn one by one; of more, the largest and the smallest."""


def plot_learning(
    history: Sequence[LearningRecord],
    evaluations: Sequence[LearningRecord],
    coordinates: Sequence[str] = (),
) -> "Figure":
    """The outer loss, the residuals and the hyperparameters over the factorizations made.

    Lengthscales of all coordinates are named by these.
    """
    losses = [
        Curve(name, _column(records, "factorizations"), _column(records, "loss"), faint)
        for name, records, faint in (("evaluations", evaluations, True), ("steps", history, False))
    ]
    steps = _column(history, "step")
    conditions = list(history[-1].residuals) if history else []
    residuals = [
        Curve(name, steps, np.array([record.residuals.get(name, np.nan) for record in history]))
        for name in conditions
    ]
    return draw_charts(
        [
            Chart("outer loss", "factorizations", losses),
            Chart("residual at validation points, rms", "Gauss-Newton step", residuals),
            Chart("hyperparameters", "Gauss-Newton step", _paths(history, coordinates)),
        ]
    )


def _column(records: Sequence[LearningRecord], name: str) -> np.ndarray:
    values = np.array([getattr(record, name) for record in records], dtype=float)
    return np.where(np.isfinite(values), values, np.nan)


def _paths(history: Sequence[LearningRecord], coordinates: Sequence[str]) -> list[Curve]:
    """Every number by its name; of an array the extremes once it has many."""
    found: dict[str, list[tuple[float, float]]] = {}
    fields = len({field for record in history for field in record.hyperparameters})
    for record in history:
        for field, values in record.hyperparameters.items():
            for name, value in values.items():
                whole = f"{field}: {name}" if fields > 1 else name
                for label, number in _entries(whole, value, coordinates).items():
                    found.setdefault(label, []).append((record.step, number))
    curves = [
        Curve(label, np.array([step for step, _ in path]), np.array([value for _, value in path]))
        for label, path in found.items()
    ]
    return curves[:_MOST]


def _entries(name: str, value: Any, coordinates: Sequence[str]) -> dict[str, float]:
    numbers = np.asarray(value, dtype=float).reshape(-1)
    if numbers.size == 1:
        return {name: float(numbers[0])}
    if name.endswith("lengthscale") and numbers.size == len(coordinates):
        return {f"{name} in {c}": float(x) for c, x in zip(coordinates, numbers, strict=True)}
    if numbers.size <= 3:
        return {f"{name} {n + 1}": float(number) for n, number in enumerate(numbers)}
    return {f"{name}, largest": float(numbers.max()), f"{name}, smallest": float(numbers.min())}


class LearningHistory(tuple[LearningRecord, ...]):
    """The steps of a learning run, in order."""

    def plot(self) -> "Figure":
        """Draw the outer loss, the residuals and the hyperparameters over the steps."""
        return plot_learning(self, ())
