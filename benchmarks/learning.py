"""Learning on the elliptic problem: starts, seeds and validation plans.

    python benchmarks/learning.py PART

with PART one of `paper` (Adam as published), `default`, `plans` and `additive`, writes
`results/learning-PART.json`, anew after every run, so that what is finished is never lost.
"""

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from _report import write

import kernelpde as kp
from kernelpde.gallery import Example, elliptic, elliptic_additive

SEEDS = range(5)
STARTS = (0.05, 0.1, 0.5, 1.0, 2.0, 3.0)
TRAINING = {"equation": 900, "boundary": 300}


def run(example: Example, seed: int, **options: Any) -> dict[str, Any]:
    """One learning run, with the final solve at 1800 + 300 points."""
    started = time.perf_counter()
    settings = {"final": example.points, **options}
    points = settings.pop("points", TRAINING)
    learned = kp.learn(example.problem, points, seed=seed, sampling="uniform", **settings)
    assert learned.solution is not None
    (field,) = learned.problem.fields
    edge = example.grid[(example.grid % 1 == 0).any(axis=1)]
    error = np.abs(np.asarray(learned.solution["u"](edge)) - example.references["u"](edge))
    return {
        "seed": seed,
        "hyperparameters": {k: v.tolist() for k, v in kp.hyperparameters(field.kernel).items()},
        "errors": example.errors(learned.solution)["u"],
        "boundary_error": float(np.sqrt(np.mean(error**2))),
        "factorisations": learned.factorisations,
        "converged": learned.converged,
        "seconds": time.perf_counter() - started,
    }


def paper() -> Iterator[tuple[str, Callable[[int], dict[str, Any]]]]:
    """The published algorithm: Adam, 30 x 50 steps, batches of 200 interior points."""
    for start in STARTS:

        def one(seed: int, start: float = start) -> dict[str, Any]:
            return run(
                elliptic(start),
                seed,
                optimizer=kp.paper_adam(),
                validation=kp.HeldOut(batch=200, weights={"boundary": 0.0}),
                method=kp.GaussNewton(),
                starts=False,
                tolerance=0.0,
                throw=False,
            )

        yield f"from {start}", one


def default() -> Iterator[tuple[str, Callable[[int], dict[str, Any]]]]:
    for start in (0.01, *STARTS):

        def one(seed: int, start: float = start) -> dict[str, Any]:
            return run(elliptic(start), seed)

        yield f"from {start}", one


def plans() -> Iterator[tuple[str, Callable[[int], dict[str, Any]]]]:
    """Validation plans and the relaxed inner problem, all from 1.0."""
    everything = elliptic(1.0).points
    options: dict[str, dict[str, Any]] = {
        "held out": {},
        "fresh": {"validation": kp.Fresh()},
        "10 folds": {"validation": kp.Folds(10)},
        "leave one out": {"validation": kp.Folds()},
        "relaxed": {"solver": kp.Dense(nugget=1e-8, refinement=0)},
        "leave one out, 1200 points": {
            "validation": kp.Folds(),
            "final": TRAINING,
            "solver": kp.Dense(nugget=1e-12, refinement=0),
        },
        "leave one out, 2100 points": {
            "validation": kp.Folds(),
            "points": everything,
            "solver": kp.Dense(nugget=1e-12, refinement=0),
        },
    }
    for name, option in options.items():
        yield name, lambda seed, option=option: run(elliptic(1.0), seed, **option)


def additive() -> Iterator[tuple[str, Callable[[int], dict[str, Any]]]]:
    yield (
        "default",
        lambda seed: run(elliptic_additive(1.0), seed, final_solver=kp.Dense(nugget=1e-10)),
    )


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians, and the spread that a single seed would hide."""
    l2 = [r["errors"]["l2"] for r in runs]
    return {
        "median l2": float(np.median(l2)),
        "worst l2": float(np.max(l2)),
        "median linf": float(np.median([r["errors"]["linf"] for r in runs])),
        "median boundary error": float(np.median([r["boundary_error"] for r in runs])),
        "most factorisations": max(r["factorisations"] for r in runs),
        "median seconds": float(np.median([r["seconds"] for r in runs])),
    }


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    parts = {"paper": paper, "default": default, "plans": plans, "additive": additive}
    if len(sys.argv) != 2 or sys.argv[1] not in parts:
        sys.exit(f"usage: python benchmarks/learning.py {'|'.join(parts)}")
    cases = dict(parts[sys.argv[1]]())
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in cases}
    for seed in SEEDS:
        for name, one in cases.items():
            runs[name].append(one(seed))
            report = {n: {**summary(done), "runs": done} for n, done in runs.items() if done}
            write(f"learning-{sys.argv[1]}", {"cases": report})


if __name__ == "__main__":
    main()
