"""Learning on the paper's elliptic problem from several starts: defaults, and Adam.

    python -m benchmarks learning default|paper [--seeds 0:5]

`paper` is the published algorithm: Adam, 30 x 50 steps, batches of 200 interior points.
"""

import time
from typing import Any

import numpy as np

import kernelpde as kp
from benchmarks._report import parser, record, seeds
from kernelpde.gallery import Example, elliptic

STARTS = (0.05, 0.1, 0.5, 1.0, 2.0, 3.0)
TRAINING = {"equation": 900, "boundary": 300}


def run(example: Example, seed: int, validation: Any = None, **settings: Any) -> dict[str, Any]:
    """Learn at 1200 points and solve at 1800 + 300."""
    start = time.perf_counter()
    learned = kp.learn(
        example.problem,
        TRAINING,
        validation=validation,
        method=kp.learning.Bilevel(final=kp.learning.FinalSolve(example.points), **settings),
        seed=seed,
        sampling="uniform",
        throw=False,
    )
    edge = (example.grid % 1 == 0).any(axis=1)
    error = np.asarray(learned.solution["u"](example.grid)) - example.references["u"](example.grid)
    return {
        "lengthscale": learned.problem.hyperparameters["u"]["lengthscale"],
        **example.errors(learned.solution)["u"],
        "interior l2": np.sqrt(np.mean(error[~edge] ** 2)),
        "boundary l2": np.sqrt(np.mean(error[edge] ** 2)),
        "factorizations": learned.factorizations,
        "converged": learned.converged,
        "seconds": time.perf_counter() - start,
    }


def default(start: float, seed: int) -> dict[str, Any]:
    return {"case": f"from {start}", **run(elliptic(start), seed)}


def paper(start: float, seed: int) -> dict[str, Any]:
    figures = run(
        elliptic(start),
        seed,
        optimizer=kp.paper_adam(),
        validation=kp.HeldOut(batch_size=200, weights={"boundary": 0.0}),
        solver=kp.GaussNewton(),
        multistart=False,
        tolerance=0.0,
    )
    return {"case": f"Adam as published, from {start}", **figures}


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("settings", choices=("default", "paper"))
    command.add_argument("--seeds", type=seeds, default="0:5")
    options = command.parse_args(arguments)
    measured, starts = (
        (paper, STARTS) if options.settings == "paper" else (default, (0.01, *STARTS))
    )
    for seed in options.seeds:
        for start in starts:
            record("learning", measured(start, seed) | {"seed": seed})
