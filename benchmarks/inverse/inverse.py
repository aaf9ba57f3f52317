"""The paper's Darcy flow, coverage with the true prior, and adaptive points.

    python -m benchmarks inverse darcy [--seeds 0:20]
    python -m benchmarks inverse coverage [--seeds 0:100]
    python -m benchmarks inverse adaptive [--seeds 0:5]

Each seed has its own points, observations and noise. `coverage`: a drawn from its prior, u by
quadrature, both from 15 noisy values of u. `adaptive`: Burgers' equation with a given stationary
kernel.
"""

import time
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from scipy.integrate import cumulative_simpson
from scipy.interpolate import CubicSpline

import kernelpde as kp
from benchmarks._report import flat_errors, parser, record, seeds
from kernelpde.gallery import Example, burgers
from kernelpde.gallery import darcy as darcy_example

REACH = 1.959963984540054
"""Half of a 95% interval in standard deviations."""


def judged(example: Example, result: kp.Solution | kp.LearningResult) -> dict[str, Any]:
    """Errors, misfit of the data, and how the error of each field compares with its deviation."""
    solution = result.solution if isinstance(result, kp.LearningResult) else result
    figures = {**flat_errors(example.errors(solution)), "converged": solution.converged}
    if solution.converged:
        posterior = kp.posterior(result)
        figures["chi_squared"] = posterior.chi_squared["data"]
        for field in example.references:
            deviation = np.asarray(posterior[field].std(example.grid))
            mean = np.asarray(posterior[field].mean(example.grid))
            truth = example.references[field](example.grid)
            error = mean - truth
            relative = np.linalg.norm(error) / np.linalg.norm(truth)
            figures[f"relative error of the posterior mean of {field}"] = relative
            inside = np.abs(error) <= 1.96 * deviation + 1e-12
            figures[f"share of {field} in its 95% interval"] = np.mean(inside)
    return figures


def last_moves(history: tuple[kp.LearningRecord, ...], steps: int = 5) -> float:
    """The largest move of a log-hyperparameter from one to the next of the last steps."""
    paths = np.array(
        [
            [
                np.log(v)
                for field in r.hyperparameters.values()
                for v in np.ravel(list(field.values()))
            ]
            for r in history[-steps - 1 :]
        ]
    )
    return float(np.max(np.abs(np.diff(paths, axis=0))))


def darcy(seed: int) -> None:
    """Record the paper's Darcy problem with two numbers of observations."""
    for count in (60, 180):
        example = darcy_example(seed=seed, observations=count)
        for case, figures in (("learned", learned), ("lengthscales 1", unlearned)):
            line = {"case": f"darcy: {case}, {count} observations", "seed": seed}
            record("inverse", line | figures(example, seed))


def unlearned(example: Example, seed: int) -> dict[str, Any]:
    solution = kp.solve(
        example.problem,
        example.points,
        seed=seed,
        sampling=example.sampling,
        linear_solver=kp.Dense(nugget=example.nugget, refinement_sweeps=0),
        throw=False,
    )
    return judged(example, solution)


def learned(example: Example, seed: int) -> dict[str, Any]:
    started = time.perf_counter()
    result = kp.learn(
        example.problem, example.training, seed=seed, sampling=example.sampling, throw=False
    )
    return {
        **judged(example, result),
        **{
            f"{field} {name}": value
            for field, values in result.problem.hyperparameters.items()
            for name, value in values.items()
        },
        "largest move in the last five steps": last_moves(result.history),
        "factorizations": result.factorizations,
        "result": result.result.name,
        "seconds": time.perf_counter() - started,
    }


PRIOR = {"lengthscale": 0.3, "amplitude": 0.5, "load": (1.0, 0.2), "noise": 2e-3}
LINE = kp.Box(x=(0, 1))


def flow(x, u, a, load):
    return -jnp.exp(a.value) * (u.laplacian + a.d("x") * u.d("x")) - load


def zero(x, u):
    return u.value


def seen(x, u, y):
    return u.value - y


def drawn(seed: int):
    """a and the load from the prior, and -(exp(a) u')' = load with u = 0 at both ends."""
    rng = np.random.default_rng([seed, 41])
    grid = np.linspace(0, 1, 2001)
    gap = grid[::20, None] - grid[None, ::20]
    gram = PRIOR["amplitude"] ** 2 * np.exp(-0.5 * (gap / PRIOR["lengthscale"]) ** 2)
    values, vectors = np.linalg.eigh(gram)
    coarse = vectors @ (np.sqrt(np.maximum(values, 0)) * rng.standard_normal(len(gram)))
    a = CubicSpline(grid[::20], coarse)(grid)
    load = PRIOR["load"][0] + PRIOR["load"][1] * rng.standard_normal()
    thin = np.exp(-a)
    ones = cumulative_simpson(thin, x=grid, initial=0)
    ramp = cumulative_simpson(grid * thin, x=grid, initial=0)
    u = load * (ramp[-1] / ones[-1] * ones - ramp)
    where = rng.random(15)
    data = np.interp(where, grid, u) + PRIOR["noise"] * rng.standard_normal(15)
    return rng, grid, a, load, where[:, None], data


def coverage(seed: int) -> None:
    """Record errors of a and the load in standard deviations of their posterior."""
    rng, grid, a, load, where, data = drawn(seed)
    problem = kp.Problem(
        kp.Condition("equation", LINE.interior, flow),
        kp.Condition("ends", LINE.boundary, zero),
        kp.Condition("data", where, seen, noise=PRIOR["noise"], data={"y": data}),
        fields=[
            kp.Field("u", 100.0 * kp.Gaussian(0.15)),
            kp.Field("a", PRIOR["amplitude"] ** 2 * kp.Gaussian(PRIOR["lengthscale"])),
            kp.Parameter("load", *PRIOR["load"]),
        ],
    )
    solution = kp.solve(
        problem,
        {"equation": 40, "ends": 2},
        linear_solver=kp.Dense(nugget=1e-10, refinement_sweeps=0),
        throw=False,
    )
    places = np.sort(rng.random(5))
    line: dict[str, Any] = {"case": "coverage", "seed": seed, "converged": solution.converged}
    if solution.converged:
        posterior = kp.posterior(solution)
        mean, deviation = (
            np.asarray(f(places[:, None])) for f in (posterior["a"].mean, posterior["a"].std)
        )
        scores = (np.interp(places, grid, a) - mean) / deviation
        estimate = posterior.parameters["load"]
        score = (load - estimate.mean) / estimate.std
        line |= {
            "a in deviations": scores,
            "load in deviations": score,
            "a in its 95% interval": np.mean(np.abs(scores) <= REACH),
            "load in its 95% interval": float(abs(score) <= REACH),
        }
    record("inverse", line)


def adaptive(seed: int) -> None:
    """Record errors with uniform and with adaptive points."""
    cases: tuple[tuple[str, int, Literal["residual", "std"] | None], ...] = (
        ("uniform, 1200 points", 1200, None),
        ("uniform, 600 points", 600, None),
        ("by residual, 600 points", 600, "residual"),
        ("by residual, 400 points", 400, "residual"),
        ("by deviation, 600 points", 600, "std"),
    )
    for case, count, by in cases:
        line = {"case": f"adaptive: {case}", "seed": seed}
        record("inverse", line | adapted(seed, count, by))


def adapted(seed: int, count: int, by: Literal["residual", "std"] | None) -> dict[str, Any]:
    example = burgers(kernel="matern")
    problem = example.problem.with_kernels((kp.Matern(3.5, [0.5, 0.2]),))
    options: dict[str, Any] = {
        "seed": seed,
        "sampling": "uniform",
        "linear_solver": kp.Dense(nugget=1e-10),
        "throw": False,
    }
    others = {"ends": 60, "initial": 60}
    if by is None:
        solution = kp.solve(problem, {"equation": count, **others}, **options)
    else:
        solution = kp.refine(
            problem,
            {"equation": count // 3, **others},
            condition="equation",
            target_count=count,
            indicator=by,
            **options,
        )
    return {
        **example.errors(solution)["u"],
        "converged": solution.converged,
    }


STUDIES = {"darcy": (darcy, 20), "coverage": (coverage, 100), "adaptive": (adaptive, 5)}
"""With the number of seeds."""


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("study", choices=list(STUDIES))
    command.add_argument("--seeds", type=seeds)
    options = command.parse_args(arguments)
    study, count = STUDIES[options.study]
    for seed in options.seeds or range(count):
        study(seed)
