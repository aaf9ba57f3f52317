"""Unknown laws from noisy data: errors, and coverage of the 95% band.

    python -m benchmarks laws [--seeds 0:40] [--families conductivity,reaction]

`conductivity`: -(k(u) u')' = q on a rod, k(u) = 1 + u², from 20 temperatures with noise of 1% in
each of two experiments, heated with q = 6 and with q = 20 between cold ends. True temperatures
come from Kirchhoff's transform, u + u³ / 3 a polynomial in x. `reaction`: u_t = u_xx / 100 + R(u),
R(u) = 4 u (1 - u), from two snapshots of 30 values each with noise of 1%, insulated ends, the
initial state unknown; the truth by finite volumes and scipy's Radau. Errors and the share of the
law within its 95% band at 41 arguments, between the 2nd and the 98th percentile of those that the
equations ask for. Seeds from 1000 were used to choose the experiments and the expected lengthscale
of laws, those of the results were not.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline

import kernelpde as kp
from benchmarks._report import parser, record, seeds

LINE = kp.Box(x=(0, 1))
NOISE = 0.01


def seen(x, u, y):
    return u.value - y


def kirchhoff(x: np.ndarray, source: float, right: float) -> np.ndarray:
    """u with (u + u³ / 3)'' = -source, 0 at the left end and `right` at the other."""
    linear = right + right**3 / 3 + source / 2
    target = linear * x - source * x**2 / 2
    # The one real root of u³ + 3 u = 3 target (Cardano).
    half = 1.5 * target
    root = np.sqrt(half**2 + 1.0)
    return np.cbrt(half + root) + np.cbrt(half - root)


def conductivity(rng: np.random.Generator) -> tuple[kp.Problem, dict[str, int], Callable]:
    """k(u) of two rods."""
    conditions, fields = [], []
    for name, source, right in (("u", 6.0, 0.0), ("v", 20.0, 0.0)):
        where = rng.random((20, 1))
        values = kirchhoff(where[:, 0], source, right)
        noise = NOISE * float(np.sqrt(np.mean(values**2)))

        def heat(x, k, u, source=source):
            there = k(u.value)
            return -(there.value * u.laplacian + there.d("T") * u.d("x") ** 2) - source

        def ends(x, u, right=right):
            return u.value - right * x[0]

        data = {"y": values + noise * rng.standard_normal(20)}
        conditions += [
            kp.Condition(f"heat {name}", LINE.interior, called(heat, name)),
            kp.Condition(f"ends {name}", LINE.boundary, called(ends, name)),
            kp.Condition(f"data {name}", where, called(seen, name), data=data, noise=noise),
        ]
        fields.append(kp.Field(name, 1.0 * kp.Gaussian(0.2)))
    law = kp.Law("k", 1.0 * kp.Gaussian(0.5), T=(0, 1.6), mean=1.0)
    points = {"heat u": 40, "heat v": 40, "ends u": 2, "ends v": 2}
    return kp.Problem(*conditions, fields=[*fields, law]), points, lambda u: 1 + u**2


def called(residual: Callable, name: str) -> Callable:
    """The same residual of the field of one of two experiments."""
    if name == "u":
        return residual
    if residual.__name__ == "heat":
        return lambda x, k, v: residual(x, k, v)
    if residual is seen:
        return lambda x, v, y: residual(x, v, y)
    return lambda x, v: residual(x, v)


def reaction(rng: np.random.Generator) -> tuple[kp.Problem, dict[str, int], Callable]:
    """R(u) of a front, from two snapshots."""
    n = 256
    cells = (np.arange(n) + 0.5) / n

    def slope(t, u):
        padded = np.pad(u, 1, mode="edge")
        return 0.01 * n * n * (padded[2:] - 2 * u + padded[:-2]) + 4 * u * (1 - u)

    band = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= 1
    path = solve_ivp(
        slope,
        (0, 0.6),
        0.6 * np.exp(-((cells - 0.3) ** 2) / 0.04),
        method="Radau",
        rtol=1e-8,
        atol=1e-10,
        dense_output=True,
        jac_sparsity=sparse.csc_matrix(band),
    )
    domain = kp.Box(x=(0, 1), t=(0, 0.6), time="t")
    where = np.stack([rng.uniform(0.01, 0.99, 60), np.repeat([0.1, 0.5], 30)], 1)
    values = np.array([CubicSpline(cells, path.sol(t))(x) for x, t in where])
    noise = NOISE * float(np.sqrt(np.mean(values**2)))
    problem = kp.Problem(
        kp.Condition(
            "equation",
            domain.interior,
            lambda x, u, R: u.d("t") - 0.01 * u.laplacian - R(u.value).value,
        ),
        kp.Condition("ends", domain.boundary, lambda x, u: u.d("x")),
        kp.Condition(
            "data", where, seen, data={"y": values + noise * rng.standard_normal(60)}, noise=noise
        ),
        fields=[
            kp.Field("u", 1.0 * kp.Gaussian([0.2, 0.3])),
            kp.Law("R", 1.0 * kp.Gaussian(0.4), u=(0, 1)),
        ],
    )
    return problem, {"equation": 160, "ends": 40}, lambda u: 4 * u * (1 - u)


def run(family: Callable, seed: int) -> dict[str, Any]:
    """One repetition."""
    problem, points, truth = family(np.random.default_rng([seed, 77]))
    (law,) = problem.laws
    started = time.process_time()
    learned = kp.learn(problem, points, throw=False)
    line: dict[str, Any] = {
        "case": family.__name__,
        "seed": seed,
        "learning": learned.result.name,
        "result": learned.solution.result.name,
        "converged": learned.solution.converged,
    }
    if not learned.solution.converged:
        return line
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = kp.posterior(learned)
    # The range of the data: between the 2nd and 98th percentile of the law's arguments.
    first, last = np.quantile(np.asarray(learned.solution.law_arguments[law.name]), [0.02, 0.98])
    at = np.linspace(first, last, 41)
    true = truth(at)
    view: Any = posterior[law.name]
    mean = np.asarray(view.mean(at))
    low, high = map(np.asarray, view.interval(at))
    return line | {
        "error": np.sqrt(np.mean((mean - true) ** 2) / np.mean(true**2)),
        "covered": np.mean((low <= true) & (true <= high)),
        "deviation": np.sqrt(np.mean(((high - low) / 3.92) ** 2) / np.mean(true**2)),
        "CPU seconds": time.process_time() - started,
    }


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("--seeds", type=seeds, default="0:40")
    command.add_argument("--families", default="conductivity,reaction")
    options = command.parse_args(arguments)
    families = {"conductivity": conductivity, "reaction": reaction}
    for name in options.families.split(","):
        for seed in options.seeds:
            record("laws", run(families[name], seed))
