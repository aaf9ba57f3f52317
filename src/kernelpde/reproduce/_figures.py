"""The figures of the report."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from kernelpde.drawing import Chart, Curve, draw_charts, pyplot
from kernelpde.errors import InputError
from kernelpde.reproduce._cases import Computed, Run
from kernelpde.reproduce._parts import LENGTHSCALES, SIZES


def draw_solution(name: str, computed: Computed, directory: Path) -> None:
    """The solution of a case, and its lengthscales where they vary."""
    solution, example = computed.solution, computed.example
    figures = {"solution": solution.plot(references=example.references)}
    with suppress(InputError):  # the same everywhere
        figures["lengthscales"] = solution.plot_lengthscales()
    for what, figure in figures.items():
        figure.savefig(directory / f"reproduce-{name}-{what}.png")
        pyplot().close(figure)


def draw_charts_of(name: str, cases: Mapping[str, list[Run]], directory: Path) -> None:
    """What is drawn from the runs of a part: paths of lengthscales, errors over them."""
    charts = {"elliptic": _paths, "sensitivity": _errors}
    if name in charts:
        figure = draw_charts([charts[name](cases)])
        figure.savefig(directory / f"reproduce-{name}-chart.png")
        pyplot().close(figure)


def _paths(cases: Mapping[str, list[Run]]) -> Chart:
    """The lengthscale after each Gauss-Newton step of the published algorithm, seed 0."""
    curves = []
    for title, runs in cases.items():
        path = np.array(runs[0].get("path", ()))
        if path.size:
            curves.append(Curve(title.split(", ")[-1], np.arange(1, path.size + 1), path))
    return Chart("lengthscale, Adam as published", "Gauss-Newton step", curves)


def _errors(cases: Mapping[str, list[Run]]) -> Chart:
    """Root mean square errors over the lengthscale."""
    curves = []
    for size in SIZES:
        runs = [cases[f"{size} points, lengthscale {at:g}"][0] for at in LENGTHSCALES]
        errors = np.array([run["errors"]["u"]["l2"] for run in runs])
        curves.append(Curve(f"{size} points", np.array(LENGTHSCALES), errors))
    return Chart("rms error of u", "lengthscale", curves, decades_across=True)
