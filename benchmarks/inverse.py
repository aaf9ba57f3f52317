"""Inverse problems: errors, settling and credible intervals over seeds 0 to 9; for Darcy 0 to 19.

    python benchmarks/inverse.py darcy|rates|coverage|adaptive|speed

writes `results/inverse-NAME.json`. Each seed has its own points, observations and noise.
"""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from _report import against_cholesky, measure, write
from scipy.integrate import cumulative_simpson
from scipy.interpolate import CubicSpline
from scipy.special import ndtr

import kernelpde as kp
from kernelpde.gallery import Example, burgers, darcy, gray_scott_rates
from kernelpde.inference._posterior import PosteriorView

SEEDS = range(10)


def judged(example: Example, result: kp.Solution | kp.Learned) -> dict[str, Any]:
    """Errors, misfit of the data, and how the error of each field compares with its deviation."""
    solution = result.solution if isinstance(result, kp.Learned) else result
    found: dict[str, Any] = {
        "errors": example.errors(solution),
        "converged": solution.converged,
    }
    if solution.converged:
        posterior = kp.posterior(result)
        found["chi_squared"] = posterior.chi_squared["data"]
        for field in example.references:
            deviation = np.asarray(posterior[field].std(example.grid))
            mean = np.asarray(posterior[field].mean(example.grid))
            truth = example.references[field](example.grid)
            error = mean - truth
            relative = np.linalg.norm(error) / np.linalg.norm(truth)
            found[f"relative error of the posterior mean of {field}"] = float(relative)
            inside = np.abs(error) <= 1.96 * deviation + 1e-12
            found[f"share of {field} in its 95% interval"] = float(np.mean(inside))
        for name, truth in example.parameters.items():
            estimate = posterior.parameters[name]
            found[name] = {
                "mean": estimate.mean,
                "deviation": estimate.std,
                "error in deviations": (estimate.mean - truth) / estimate.std,
            }
    return found


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


def unlearned(example: Example, seed: int) -> dict[str, Any]:
    solution = kp.solve(
        example.problem,
        example.points,
        seed=seed,
        sampling=example.sampling,
        linear_solver=kp.Dense(nugget=example.nugget, refinement=0),
        throw=False,
    )
    return {"seed": seed, **judged(example, solution)}


def learned(example: Example, seed: int) -> dict[str, Any]:
    started = time.perf_counter()
    result = kp.learn(
        example.problem, example.training, seed=seed, sampling=example.sampling, throw=False
    )
    return {
        "seed": seed,
        **judged(example, result),
        "hyperparameters": {
            field: {name: value.tolist() for name, value in values.items()}
            for field, values in result.problem.hyperparameters.items()
        },
        "largest move in the last five steps": last_moves(result.history),
        "factorizations": result.factorizations,
        "result": result.result.name,
        "seconds": time.perf_counter() - started,
    }


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {"seeds": len(runs)}
    for field in runs[0]["errors"]:
        for size in ("l2", "relative"):
            values = [run["errors"][field][size] for run in runs]
            found[f"median {size} of {field}"] = float(np.median(values))
    for name in runs[0]:
        values = [run[name] for run in runs if isinstance(run.get(name), float)]
        if values:
            found[f"median {name}"] = float(np.median(values))
            found[f"most {name}"] = float(np.max(values))
    found["converged"] = sum(run["converged"] for run in runs)
    return found


def run_darcy() -> None:
    cases = {}
    for count in (60, 180):
        cases[f"learned, {count} observations"] = lambda seed, n=count: learned(
            darcy(seed=seed, observations=n), seed
        )
        cases[f"lengthscales 1, {count} observations"] = lambda seed, n=count: unlearned(
            darcy(seed=seed, observations=n), seed
        )
    measure("inverse-darcy", cases, summary, range(20))


def rates_summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    found = summary(runs)
    for name in ("feed", "kill"):
        means = np.array([run[name]["mean"] for run in runs])
        deviations = np.array([run[name]["deviation"] for run in runs])
        scores = np.array([run[name]["error in deviations"] for run in runs])
        found[name] = {
            "within two deviations": int(np.sum(np.abs(scores) <= 2)),
            "median deviation": float(np.median(deviations)),
            "spread over seeds": float(np.std(means, ddof=1)) if len(means) > 1 else None,
        }
    return found


def run_rates() -> None:
    measure(
        "inverse-rates",
        {"given kernels": lambda seed: unlearned(gray_scott_rates(seed=seed), seed)},
        rates_summary,
        SEEDS,
    )


# Coverage: a drawn from its prior, u by quadrature, both from 15 noisy values of u.

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


def covered(seed: int) -> dict[str, Any]:
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
        linear_solver=kp.Dense(nugget=1e-10, refinement=0),
        throw=False,
    )
    places = np.sort(rng.random(5))
    found: dict[str, Any] = {"seed": seed, "converged": solution.converged}
    if solution.converged:
        posterior = kp.posterior(solution)
        mean, deviation = (
            np.asarray(f(places[:, None])) for f in (posterior["a"].mean, posterior["a"].std)
        )
        found["a in deviations"] = ((np.interp(places, grid, a) - mean) / deviation).tolist()
        estimate = posterior.parameters["load"]
        found["load in deviations"] = (load - estimate.mean) / estimate.std
    return found


def ranks(scores: np.ndarray) -> list[int]:
    """How often the truth has each tenth of its posterior's ranks; even if calibrated."""
    return np.histogram(ndtr(scores), bins=10, range=(0, 1))[0].tolist()


def coverage_summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    done = [run for run in runs if run["converged"]]
    of_a = np.concatenate([run["a in deviations"] for run in done])
    of_load = np.array([run["load in deviations"] for run in done])
    reach = 1.959963984540054
    return {
        "problems": len(runs),
        "converged": len(done),
        "coverage of a": float(np.mean(np.abs(of_a) <= reach)),
        "coverage of the load": float(np.mean(np.abs(of_load) <= reach)),
        "rank histogram of a": ranks(of_a),
        "rank histogram of the load": np.histogram(ndtr(of_load), bins=10, range=(0, 1))[
            0
        ].tolist(),
    }


def run_coverage() -> None:
    measure("inverse-coverage", {"a and the load": covered}, coverage_summary, range(100))


# Adaptive collocation on Burgers' equation with a given stationary kernel.


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
            to=count,
            by=by,
            **options,
        )
    return {
        "seed": seed,
        **example.errors(solution)["u"],
        "converged": solution.converged,
    }


def adapted_summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return {f"median {name}": float(np.median([r[name] for r in runs])) for name in ("l2", "linf")}


def run_adaptive() -> None:
    cases = {
        "uniform, 1200 points": lambda seed: adapted(seed, 1200, None),
        "uniform, 600 points": lambda seed: adapted(seed, 600, None),
        "by residual, 600 points": lambda seed: adapted(seed, 600, "residual"),
        "by residual, 400 points": lambda seed: adapted(seed, 400, "residual"),
        "by deviation, 600 points": lambda seed: adapted(seed, 600, "std"),
    }
    measure("inverse-adaptive", cases, adapted_summary, range(5))


def run_speed() -> None:
    """Standard deviations at 10,000 points, in Choleskys of the size of the system."""
    example = darcy(0.2, observations=200)
    counts = {"equation": 1600, "boundary": 200}
    solution = kp.solve(
        example.problem, counts, linear_solver=kp.Dense(nugget=1e-10, refinement=0), throw=False
    )
    posterior = kp.posterior(solution)
    places = np.random.default_rng(0).random((10_000, 2))
    random = np.random.default_rng(0).standard_normal((2000, 2000))
    matrix = random @ random.T + 2000 * np.eye(2000)
    report = {}
    for field in ("u", "a"):
        view = posterior[field]
        assert isinstance(view, PosteriorView)
        functionals = view.functionals(places)
        few = posterior.std(functionals)
        exact = posterior.exact_std(functionals)
        report[field] = {
            **against_cholesky(lambda f=functionals: posterior.std(f), matrix, 7),
            "one by one": against_cholesky(lambda f=functionals: posterior.exact_std(f), matrix, 3),
            "largest relative difference": float(np.max(np.abs(few / exact - 1))),
        }
    write("inverse-speed", {"system": 2000, "points": 10_000, "fields": report})


COMMANDS: Mapping[str, Callable[[], None]] = {
    "darcy": run_darcy,
    "rates": run_rates,
    "coverage": run_coverage,
    "adaptive": run_adaptive,
    "speed": run_speed,
}

if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    COMMANDS[sys.argv[1]]()
