"""Figures of the report."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from kernelpde.errors import InputError
from kernelpde.plotting import Chart, Curve, draw_charts, import_pyplot
from kernelpde.reproduce._cases import Computed, Run
from kernelpde.reproduce._parts import LENGTHSCALES, SIZES


def draw_solution(name: str, computed: Computed, directory: Path) -> None:
    """Plot the solution of a case, and its lengthscales if they vary in space."""
    solution, example = computed.solution, computed.example
    figures = {"solution": solution.plot(references=example.references)}
    with suppress(InputError):  # constant lengthscales
        figures["lengthscales"] = solution.plot_lengthscales()
    for label, figure in figures.items():
        figure.savefig(directory / f"reproduce-{name}-{label}.png")
        import_pyplot().close(figure)


def draw_run_charts(name: str, cases: Mapping[str, list[Run]], directory: Path) -> None:
    """Plot the runs of a part: lengthscales during learning, or errors over the lengthscale."""
    charts = {"elliptic": _paths, "sensitivity": _errors}
    if name in charts:
        figure = draw_charts([charts[name](cases)])
        figure.savefig(directory / f"reproduce-{name}-chart.png")
        import_pyplot().close(figure)


def _paths(cases: Mapping[str, list[Run]]) -> Chart:
    """Return the lengthscale after each Gauss-Newton step of the published algorithm, seed 0."""
    curves = []
    for title, runs in cases.items():
        path = np.array(runs[0].get("path", ()))
        if path.size:
            curves.append(Curve(title.split(", ")[-1], np.arange(1, path.size + 1), path))
    return Chart("lengthscale, Adam as published", "Gauss-Newton step", curves)


def _errors(cases: Mapping[str, list[Run]]) -> Chart:
    """Return root mean square errors over the lengthscale."""
    curves = []
    for size in SIZES:
        runs = [cases[f"{size} points, lengthscale {at:g}"][0] for at in LENGTHSCALES]
        errors = np.array([run["errors"]["u"]["l2"] for run in runs])
        curves.append(Curve(f"{size} points", np.array(LENGTHSCALES), errors))
    return Chart("rms error of u", "lengthscale", curves, log_x=True)
