"""Learning on the elliptic problem: starts, seeds and validation plans.

    python benchmarks/learning.py PART

with PART one of `paper` (Adam as published), `default`, `plans`, `additive` and `hypergradient`,
writes `results/learning-PART.json`, anew after every run, so that what is finished is never lost.
"""

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from _report import Run, measure

import kernelpde as kp
from kernelpde.gallery import Example, elliptic, elliptic_additive, product_grid

STARTS = (0.05, 0.1, 0.5, 1.0, 2.0, 3.0)
TRAINING = {"equation": 900, "boundary": 300}
FINE = kp.Dense(nugget=1e-12, refinement=0)


def run(example: Example, seed: int, **options: Any) -> dict[str, Any]:
    """One learning run, with the final solve at 1800 + 300 points."""
    started = time.perf_counter()
    final = kp.learning.FinalSolve(
        options.pop("final", example.points), linear_solver=options.pop("final_linear_solver", None)
    )
    learned = kp.learn(
        example.problem,
        options.pop("points", TRAINING),
        validation=options.pop("validation", None),
        linear_solver=options.pop("linear_solver", None),
        method=kp.learning.Bilevel(final=final, **options),
        seed=seed,
        sampling="uniform",
        throw=False,
    )
    edge = (example.grid % 1 == 0).any(axis=1)
    error = np.asarray(learned.solution["u"](example.grid)) - example.references["u"](example.grid)
    return {
        "seed": seed,
        "hyperparameters": {
            name: value.tolist() for name, value in learned.problem.hyperparameters["u"].items()
        },
        "errors": example.errors(learned.solution)["u"],
        "interior_error": float(np.sqrt(np.mean(error[~edge] ** 2))),
        "boundary_error": float(np.sqrt(np.mean(error[edge] ** 2))),
        "factorizations": learned.factorizations,
        "converged": learned.converged,
        "seconds": time.perf_counter() - started,
    }


def paper() -> Iterator[tuple[str, Run]]:
    """The published algorithm: Adam, 30 x 50 steps, batches of 200 interior points."""
    for start in STARTS:

        def one(seed: int, start: float = start) -> dict[str, Any]:
            return run(
                elliptic(start),
                seed,
                optimizer=kp.paper_adam(),
                validation=kp.HeldOut(batch=200, weights={"boundary": 0.0}),
                solver=kp.GaussNewton(),
                multistart=False,
                tolerance=0.0,
            )

        yield f"from {start}", one


def default() -> Iterator[tuple[str, Run]]:
    for start in (0.01, *STARTS):

        def one(seed: int, start: float = start) -> dict[str, Any]:
            return run(elliptic(start), seed)

        yield f"from {start}", one


def plans() -> Iterator[tuple[str, Run]]:
    """Validation plans and the relaxed inner problem, all from 1.0."""
    everything = elliptic(1.0).points
    options: dict[str, dict[str, Any]] = {
        "held out": {},
        "fresh": {"validation": kp.Resampled()},
        "10 folds": {"validation": kp.KFold(10)},
        "leave one out": {"validation": kp.KFold()},
        "relaxed": {"linear_solver": kp.Dense(nugget=1e-8, refinement=0)},
        "leave one out, 1200 points": {
            "validation": kp.KFold(),
            "final": TRAINING,
            "linear_solver": FINE,
            "final_linear_solver": FINE,
        },
        "leave one out, 2100 points": {
            "validation": kp.KFold(),
            "points": everything,
            "linear_solver": FINE,
        },
    }
    for name, option in options.items():
        yield name, lambda seed, option=option: run(elliptic(1.0), seed, **option)
    yield "best lengthscale, 1200 points", best_lengthscale


def best_lengthscale(seed: int) -> dict[str, Any]:
    """What leave-one-out with 1200 points is to be compared with: the best of a fine grid."""
    found = {}
    for lengthscale in np.geomspace(0.1, 0.25, 24):
        example = elliptic(float(lengthscale))
        solution = kp.solve(
            example.problem,
            TRAINING,
            seed=seed,
            sampling="uniform",
            linear_solver=FINE,
            throw=False,
        )
        found[float(lengthscale)] = example.errors(solution)["u"]
    best = min(found, key=lambda at: found[at]["l2"])
    return {"seed": seed, "hyperparameters": {"lengthscale": best}, "errors": found[best]}


def additive() -> Iterator[tuple[str, Run]]:
    """The additive kernel; also with the nugget of the paper in the final solve."""
    yield "default", lambda seed: run(elliptic_additive(1.0), seed)
    published = kp.Dense(nugget=1e-10)
    yield (
        "nugget 1e-10",
        lambda seed: run(elliptic_additive(1.0), seed, final_linear_solver=published),
    )


def _burgers_like(x, u):
    source = 2.0 * jnp.sin(3 * x[0]) * jnp.cos(2 * x[1])
    return u.value * u.d("x") - 0.2 * u.laplacian - source


def _given(x, u):
    return u.value - x[0] * x[1]


def hypergradient() -> Iterator[tuple[str, Run]]:
    """Kernels learned with the linearized and with the exact hypergradient."""
    square = kp.Box(x=(0, 1), y=(0, 1))
    problems = {
        "elliptic": elliptic(kernel=kp.Gaussian([0.2, 0.2])).problem,
        "burgers-like": kp.Problem(
            kp.Condition("equation", square.interior, _burgers_like),
            kp.Condition("boundary", square.boundary, _given),
            fields=[kp.Field("u", kp.Gaussian([0.3, 0.3]))],
        ),
    }
    # Few points: where the solution is exact but for rounding there is nothing to compare.
    counts = {
        "elliptic": {"equation": 300, "boundary": 100},
        "burgers-like": {"equation": 60, "boundary": 32},
    }
    for name, problem in problems.items():
        points = counts[name]
        yield (
            name,
            lambda seed, problem=problem, points=points: both_gradients(problem, points, seed),
        )


def both_gradients(problem: kp.Problem, points: dict[str, int], seed: int) -> dict[str, Any]:
    """Two learned kernels, and how far apart their solutions are."""
    grid = product_grid(np.linspace(0, 1, 40), np.linspace(0, 1, 40))
    found, values = {}, []
    for which in ("linearized", "exact"):
        learned = kp.learn(
            problem,
            points,
            method=kp.learning.Bilevel(hypergradient=which, final=kp.learning.FinalSolve(points)),
            seed=seed,
            throw=False,
        )
        found[which] = {
            "lengthscales": learned.problem.hyperparameters["u"]["lengthscale"].tolist(),
            "factorizations": learned.factorizations,
        }
        values.append(np.asarray(learned.solution["u"](grid)))
    scales = [np.log(found[w]["lengthscales"]) for w in ("linearized", "exact")]
    return {
        "seed": seed,
        **found,
        "largest change of a log lengthscale": float(np.max(np.abs(scales[1] - scales[0]))),
        "relative difference of the solutions": float(
            np.linalg.norm(values[1] - values[0]) / np.linalg.norm(values[1])
        ),
    }


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians, and the spread that a single seed would hide."""

    def of(name: str, reduce: Callable, value: Callable[[dict[str, Any]], Any]) -> dict[str, float]:
        values = [value(r) for r in runs if _has(r, value)]
        return {name: float(reduce(values))} if values else {}

    return {
        **of("median l2", np.median, lambda r: r["errors"]["l2"]),
        **of("worst l2", np.max, lambda r: r["errors"]["l2"]),
        **of("median linf", np.median, lambda r: r["errors"]["linf"]),
        **of("median interior error", np.median, lambda r: r["interior_error"]),
        **of("median boundary error", np.median, lambda r: r["boundary_error"]),
        **of("most factorizations", np.max, lambda r: r["factorizations"]),
        **of("median seconds", np.median, lambda r: r["seconds"]),
        **of(
            "median change of a log lengthscale",
            np.median,
            lambda r: r["largest change of a log lengthscale"],
        ),
        **of(
            "median relative difference",
            np.median,
            lambda r: r["relative difference of the solutions"],
        ),
    }


def _has(run: dict[str, Any], value: Callable[[dict[str, Any]], Any]) -> bool:
    try:
        value(run)
    except KeyError:
        return False
    return True


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    parts = {
        "paper": paper,
        "default": default,
        "plans": plans,
        "additive": additive,
        "hypergradient": hypergradient,
    }
    if len(sys.argv) != 2 or sys.argv[1] not in parts:
        sys.exit(f"usage: python benchmarks/learning.py {'|'.join(parts)}")
    measure(f"learning-{sys.argv[1]}", dict(parts[sys.argv[1]]()), summary)


if __name__ == "__main__":
    main()
