"""Plots of the records of a solve or of a learning run over its steps."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from kernelpde.plotting._panels import Chart, Curve, draw_charts
from kernelpde.plotting._style import COLORS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@runtime_checkable
class SolveStep(Protocol):
    """A record of one step of a solve."""

    @property
    def step(self) -> int: ...
    @property
    def residuals(self) -> Mapping[str, float]: ...
    @property
    def change(self) -> float | None: ...


@runtime_checkable
class LearningStep(SolveStep, Protocol):
    """A record of one step of learning, or of one evaluation of the outer loss."""

    @property
    def factorizations(self) -> int: ...
    @property
    def loss(self) -> float: ...
    @property
    def hyperparameters(self) -> Mapping[str, Mapping[str, Any]]: ...


def plot_solve_history(records: Sequence[SolveStep]) -> "Figure":
    """Plot residuals and relative changes over the steps of a solve."""
    changes = Curve("", _column(records, "step"), _column(records, "change"))
    residuals = Chart("residual, root mean square", "step", _residual_curves(records))
    return draw_charts([residuals, Chart("relative change of the solution", "step", [changes])])


def plot_learning_history(
    history: Sequence[LearningStep],
    evaluations: Sequence[LearningStep] = (),
    coordinates: Sequence[str] = (),
) -> "Figure":
    """Plot the outer loss, the residuals and the hyperparameters of a learning run.

    **Arguments:**

    - `history`: one record per step.
    - `evaluations`: one record per evaluation of the outer loss, plotted in the background.
    - `coordinates`: names that label lengthscales with one value per coordinate.
    """
    losses = [_loss_curve("evaluations", evaluations, True), _loss_curve("steps", history)]
    residuals, step = _residual_curves(history), "Gauss-Newton step"
    charts = [
        Chart("outer loss", "factorizations", losses),
        Chart("residual at validation points, rms", step, residuals),
        Chart("hyperparameters", step, _hyperparameter_curves(history, coordinates)),
    ]
    return draw_charts(charts)


def _loss_curve(name: str, records: Sequence[LearningStep], secondary: bool = False) -> Curve:
    return Curve(name, _column(records, "factorizations"), _column(records, "loss"), secondary)


def _residual_curves(records: Sequence[SolveStep]) -> list[Curve]:
    steps = _column(records, "step")
    return [
        Curve(name, steps, np.array([record.residuals.get(name, np.nan) for record in records]))
        for name in (records[-1].residuals if records else ())
    ]


def _column(records: Sequence[SolveStep], name: str) -> np.ndarray:
    values = np.array([getattr(record, name) for record in records], dtype=float)
    return np.where(np.isfinite(values), values, np.nan)


def _hyperparameter_curves(
    history: Sequence[LearningStep], coordinates: Sequence[str]
) -> list[Curve]:
    """Return one curve per scalar hyperparameter; of long arrays, the extremes."""
    paths: dict[str, list[tuple[float, float]]] = {}
    num_fields = len({field for record in history for field in record.hyperparameters})
    for record in history:
        for field, values in record.hyperparameters.items():
            for name, value in values.items():
                label = f"{field}: {name}" if num_fields > 1 else name
                for component, scalar in _components(label, value, coordinates).items():
                    paths.setdefault(component, []).append((record.step, scalar))
    curves = [Curve(label, *np.array(path, dtype=float).T) for label, path in paths.items()]
    # Further colors could not be distinguished.
    return curves[: len(COLORS)]


def _components(name: str, value: Any, coordinates: Sequence[str]) -> dict[str, float]:
    """Return labeled scalars of a hyperparameter."""
    components = np.asarray(value, dtype=float).reshape(-1)
    if components.size == 1:
        return {name: float(components[0])}
    if name.endswith("lengthscale") and components.size == len(coordinates):
        labels = [f"{name} in {coordinate}" for coordinate in coordinates]
    elif components.size <= 3:
        labels = [f"{name} {index + 1}" for index in range(components.size)]
    else:
        labels = [f"{name}, largest", f"{name}, smallest"]
        components = np.array([components.max(), components.min()])
    return {label: float(components[index]) for index, label in enumerate(labels)}
