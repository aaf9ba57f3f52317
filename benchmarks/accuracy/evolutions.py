"""Estimated errors of evolutions, and accuracies on demand, on 40 random evolutions.

    python -m benchmarks evolutions [--names heat,wave] [--seeds 900:908]

Five kinds with known solutions and random scales, frequencies and coefficients: the heat, Burgers
and Fisher equations of `robustness`, a wave equation with a cubic term, and two coupled reactions.
None was used to make the estimator or the repetition by `march`; both were made on one diffusion
problem (`tests/test_windows_in_time.py`). Each evolution has four windows. It is solved with given
points and learned kernels, and to 1e-3 and 1e-5: estimated and true error over the whole interval.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import kernelpde as kp
from benchmarks._report import Line, parser, record, seeds
from benchmarks.robustness._problems import Case, Waves, box, log_uniform
from benchmarks.robustness._problems import problem as random_problem

WINDOWS = 4
ACCURACIES = (1e-3, 1e-5)
SECONDS = 120.0


def wave(rng: np.random.Generator) -> Case:
    """uₜₜ = c² uₓₓ - k u³ + f."""
    A, S = log_uniform(rng, 1e-3, 1e3), log_uniform(rng, 1e-2, 1e2)
    T, f = S * log_uniform(rng, 0.1, 10), log_uniform(rng, 2, 12)
    c, L = S / T * log_uniform(rng, 0.3, 1), np.array([T, S])
    k = log_uniform(rng, 0.1, 10) / (A * T) ** 2
    return Case(
        box([0, 0], L, time="t"),
        {"u": Waves(rng, A, [0.0, 0.0], L, f)},
        lambda x, u: (u.d(0, 0) - c**2 * u.d(1, 1) + k * u.value**3,),
        {"eq": 200, "bd": 50, "init": 40},
        L,
        initial=True,
        own_lengthscales=True,
    )


def reactions(rng: np.random.Generator) -> Case:
    """uₜ = D uₓₓ + u - u v + f and vₜ = E vₓₓ + u v - v + g, in units of their scales."""
    A, S = log_uniform(rng, 1e-3, 1e3), log_uniform(rng, 1e-2, 1e2)
    T, f = S * log_uniform(rng, 0.1, 10), log_uniform(rng, 2, 10)
    L = np.array([T, S])
    D, E = (log_uniform(rng, 0.01, 0.3) * S**2 / T for _ in range(2))
    rate = log_uniform(rng, 0.3, 3) / T

    def operator(x, u, v):
        product = rate * u.value * v.value / A
        return (
            u.d(0) - D * u.d(1, 1) - rate * u.value + product,
            v.d(0) - E * v.d(1, 1) - product + rate * v.value,
        )

    return Case(
        box([0, 0], L, time="t"),
        {name: Waves(rng, A, [0.0, 0.0], L, f) for name in ("u", "v")},
        operator,
        {"eq": 130, "bd": 40, "init": 30},
        L,
        initial=True,
        own_lengthscales=True,
    )


KINDS: dict[str, Callable[[np.random.Generator], Case]] = {"wave": wave, "reactions": reactions}
NAMES = ("heat", "burgers", "fisher", *KINDS)


class WithRates(Case):
    """A case whose initial condition prescribes the rate as well."""

    def problem(self, kernels, scales=None, sizes=None) -> kp.Problem:
        problem = Case.problem(self, kernels, scales, sizes)
        boundary, self.boundary = self.boundary, lambda x, u: (u.value, u.d(0))
        initial = Case.problem(self, kernels, scales, sizes).conditions[2]
        self.boundary = boundary
        return problem.with_conditions([*problem.conditions[:2], initial])


def evolution_case(name: str, seed: int) -> tuple[Case, list]:
    """Return a random evolution and its initial lengthscales."""
    if name not in KINDS:
        case, start, _ = random_problem(name, seed)
        return case, start
    case = KINDS[name](np.random.default_rng([seed, sum(map(ord, name))]))
    if name == "wave":
        case = WithRates(**vars(case))
    return case, case.lengthscales([0.3] * len(case.exact))


def measure(name: str, seed: int) -> Iterator[Line]:
    """Solve one evolution with given points, and to each accuracy."""
    case, start = evolution_case(name, seed)
    problem = case.problem(start)
    points = {key: max(8, count // 2) for key, count in case.points.items()}
    for accuracy in (None, *ACCURACIES):
        options: dict[str, Any] = {"points": points, "learning": {}}
        if accuracy is not None:
            options = {"accuracy": kp.Accuracy(accuracy, max_seconds=SECONDS)}
        try:
            evolution = kp.march(problem, WINDOWS, throw=False, seed=seed, **options)
        except kp.SolveError as error:
            yield {"study": "failed", "problem": name, "result": str(error)[:80]}
            continue
        yield {
            "study": "points" if accuracy is None else f"{accuracy:.0e}",
            "problem": name,
            "converged": evolution.converged,
            "result": evolution.result.name,
            "estimate": evolution.error_estimate.largest,
            "error": case.error(evolution),
            "seconds": sum(evolution.seconds),
        }


def main(arguments: list[str]) -> None:
    options = parser(__doc__)
    options.add_argument("--names", default=",".join(NAMES))
    options.add_argument("--seeds", type=seeds, default=range(900, 908))
    chosen = options.parse_args(arguments)
    for name in chosen.names.split(","):
        for seed in chosen.seeds:
            for line in measure(name, seed):
                case = f"{name}, {line['study']}"
                record("evolutions", {"case": case, "seed": seed, **line})
