"""Kinks, layers and fronts in adaptive boxes: errors, estimates and cost.

    python -m benchmarks layers [--cases eikonal bump ...] [--rows 2100] [--seeds 0:5]
    python -m benchmarks layers --accuracy 1e-3 [--cases ...] [--seeds 0:5]

The first form uses all rows, the second ends at a target accuracy or at 5000 rows. Each seed
displaces points and kernels by up to a fifth of their boxes. Errors `rms` and `max` are absolute,
on a grid of 97 x 97 points; the solutions have values of about 1, the eikonal equation up to 0.5.
`rms ratio` and `max ratio` are estimated errors by true ones. A solution with fewer rows is
computed before, so that CPU times include no compilation.
"""

import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.linalg

import kernelpde as kp
from benchmarks import _report
from benchmarks._report import parser, record, seeds
from kernelpde.boxes import solve_in_boxes
from kernelpde.gallery._chebyshev import ChebyshevSquare
from kernelpde.gallery._references import ColeHopf, RegularizedDistance

SQUARE = kp.Box(x=(0, 1), y=(0, 1))
STRIP = kp.Box(t=(0, 1), x=(-1, 1), time="t")
WIDTH = 0.02


class Case(NamedTuple):
    """A problem, its exact solution and an initial guess."""

    problem: kp.Problem
    exact: Callable[[np.ndarray], np.ndarray]
    start: dict[str, Callable] | None = None


def on_square(equation: Callable, edge: Callable = lambda x: 0.0) -> kp.Problem:
    return kp.Problem(
        kp.Condition("equation", SQUARE.interior, equation),
        kp.Condition("boundary", SQUARE.boundary, lambda x, u: u.value - edge(x)),
        fields=[kp.Field("u", kp.Gaussian(0.1))],
    )


def eikonal(epsilon: float = 0.01) -> Case:
    problem = on_square(lambda x, u: u.gradient @ u.gradient - 1.0 - epsilon * u.laplacian)
    return Case(problem, RegularizedDistance(epsilon))


def convection(epsilon: float) -> Case:
    def equation(x, u):
        return u.d("x") + 0.5 * u.d("y") - epsilon * u.laplacian - 1.0

    return Case(on_square(equation), lambda points: _convected(epsilon, points))


def _convected(epsilon: float, points: np.ndarray) -> np.ndarray:
    """Solve -ε Δu + u_x + u_y / 2 = 1 by Chebyshev collocation, with a Sylvester equation."""
    square = ChebyshevSquare(260)
    first = square.differentiation
    along_x, along_y = (
        (speed * first - epsilon * first @ first)[1:-1, 1:-1] for speed in (1.0, 0.5)
    )
    values = np.zeros_like(first)
    rhs = np.ones_like(along_x)
    values[1:-1, 1:-1] = scipy.linalg.solve_sylvester(along_x, along_y.T, rhs)
    return square.at(values, points)


def burgers(viscosity: float = 0.005) -> Case:
    problem = kp.Problem(
        kp.Condition(
            "equation",
            STRIP.interior,
            lambda x, u: u.d("t") + u.value * u.d("x") - viscosity * u.d("x", "x"),
        ),
        kp.Condition("ends", STRIP.boundary, lambda x, u: u.value),
        kp.Condition("initial", STRIP.initial, lambda x, u: u.value + jnp.sin(jnp.pi * x[1])),
        fields=[kp.Field("u", kp.Gaussian(0.1))],
    )
    return Case(problem, ColeHopf(viscosity, nodes=320))


def bump() -> Case:
    """-Δu + u³ = f with a source of width 0.02."""

    def squared_distance(x):
        return (x[..., 0] - 0.37) ** 2 + (x[..., 1] - 0.61) ** 2

    def peak(x):
        return jnp.exp(-squared_distance(x) / (2 * WIDTH**2))

    def wave(x):
        return jnp.sin(jnp.pi * x[..., 0]) * jnp.sin(jnp.pi * x[..., 1])

    def exact(x):
        return peak(x) + wave(x)

    def source(x):
        curvature = squared_distance(x) / WIDTH**4 - 2 / WIDTH**2
        return 2 * jnp.pi**2 * wave(x) - curvature * peak(x) + exact(x) ** 3

    problem = on_square(lambda x, u: -u.laplacian + u.value**3 - source(x), exact)
    return Case(problem, lambda points: np.asarray(exact(points)))


def front() -> Case:
    """An Allen-Cahn front of width 0.02 across a circle, from a front of width 0.1."""

    def radius(x):
        return jnp.maximum(jnp.hypot(x[..., 0] - 0.5, x[..., 1] - 0.5), 1e-12)

    def exact(x, width=WIDTH):
        return jnp.tanh((0.3 - radius(x)) / width)

    def source(x):
        u = exact(x)
        laplacian = -(1 - u**2) * (2 * u / WIDTH**2 + 1 / (WIDTH * radius(x)))
        return u**3 - u - WIDTH**2 * laplacian

    def equation(x, u):
        return u.value**3 - u.value - WIDTH**2 * u.laplacian - source(x)

    start = {"u": lambda x: exact(x, 0.1)}
    return Case(on_square(equation, exact), lambda points: np.asarray(exact(points)), start)


CASES: dict[str, Callable[[], Case]] = {
    "eikonal": eikonal,
    "convection 0.005": lambda: convection(0.005),
    "convection 0.001": lambda: convection(0.001),
    "burgers": burgers,
    "bump": bump,
    "front": front,
}
UNUSED: dict[str, Callable[[], Case]] = {
    "eikonal 0.02": lambda: eikonal(0.02),
    "burgers 0.01": lambda: burgers(0.01),
    "convection 0.003": lambda: convection(0.003),
}
"""Cases that had no influence on any constant."""


@cache
def with_reference(name: str) -> tuple[Case, np.ndarray, np.ndarray]:
    """Return a case, the points of the grid and the exact values there."""
    case = {**CASES, **UNUSED}[name]()
    ticks = (np.arange(97) + 0.5) / 97
    unit = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2)
    lower, upper = np.array(list((STRIP if "burgers" in name else SQUARE).intervals.values())).T
    points = lower + (upper - lower) * unit
    return case, points, np.asarray(case.exact(points))


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def measured(name: str, seed: int, accuracy: float, rows: int) -> dict[str, Any]:
    """Solve, and compare with the reference."""
    case, points, expected = with_reference(name)
    start = time.process_time()
    solution = solve_in_boxes(
        case.problem, accuracy, start=case.start, seed=seed, max_rows=rows, throw=False
    )
    seconds = time.process_time() - start
    error, size = np.asarray(solution["u"](points)) - expected, rms(expected)
    estimate = solution.error_estimate["u"]
    return {
        "rows": solution.levels[-1].rows,
        "rms": rms(error),
        "max": np.abs(error).max(),
        "rms ratio": estimate.rms * size / rms(error),
        "max ratio": estimate.max * size / np.abs(error).max(),
        "relative": rms(error) / size,
        "result": solution.result.name,
        "resolved": solution.levels[-1].is_resolved,
        "steps": sum(level.steps for level in solution.levels),
        "CPU seconds": seconds,
    }


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("--cases", nargs="+", choices=[*CASES, *UNUSED], default=list(CASES))
    command.add_argument("--rows", type=int, default=2100)
    command.add_argument("--accuracy", type=float)
    command.add_argument("--seeds", type=seeds, default="0:5")
    options = command.parse_args(arguments)
    rows = 5000 if options.accuracy else options.rows
    accuracy = options.accuracy or 1e-9
    suffix = f"to {accuracy:.0e}" if options.accuracy else f"{rows} rows"
    rows = 400 if _report.SMALLEST else rows
    for name in options.cases:
        case = with_reference(name)[0]
        solve_in_boxes(case.problem, 1e-9, start=case.start, max_rows=400, throw=False)
        for seed in options.seeds:
            figures = measured(name, seed, accuracy, rows)
            record("layers", {"case": f"{name}, {suffix}", "seed": seed, **figures})
