"""What a learning step costs, and how long learning takes from a cold start.

    python benchmarks/learning_speed.py

writes `results/learning-speed.json`. Times are multiples of one LAPACK Cholesky factorization of
the same size in the same run; memory is in matrices of that size.
"""

import os
import statistics
import subprocess
import sys
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from _losses import published_loss
from _report import SMALLEST, against_cholesky, seconds, write

from kernelpde.gallery import elliptic
from kernelpde.learning._evaluation import loss_and_normal

SIZES = {1200: {"equation": 900, "boundary": 300}, 4200: {"equation": 3600, "boundary": 600}}


def step_cost(size: int) -> dict[str, Any]:
    """Loss, gradient and curvature of one step; the update itself is a few numbers."""
    loss, matrix = published_loss(elliptic(0.2), SIZES[size])
    theta = jnp.asarray(loss.parameters.vector)
    step: Any = eqx.filter_jit(loss_and_normal)
    needed = step.lower(theta, loss).compile().compiled.memory_analysis()
    ratio = against_cholesky(
        lambda: loss_and_normal(theta, loss), matrix, repeats=15 if size < 3000 else 7
    )
    return {
        **ratio,
        "memory in matrices": (needed.temp_size_in_bytes + needed.output_size_in_bytes)
        / (8 * size**2),
    }


_COLD = """
import time
import jax
jax.config.update("jax_enable_x64", True)
import kernelpde as kp
from kernelpde.gallery import elliptic
example = elliptic(1.0)
learned = kp.learn(example.problem, {"equation": 900, "boundary": 300}, seed=int(SEED),
    sampling="uniform", method=kp.learning.Bilevel(final=kp.learning.FinalSolve(example.points)))
print(time.time(), example.errors(learned.solution)["u"]["l2"], learned.factorizations)
"""


def time_to_accuracy() -> dict[str, Any]:
    """From the start of a process to the final solution, lengthscale 1.0 to begin with."""
    runs = []
    for seed in range(1 if SMALLEST else 5):
        started = time.time()
        answer = subprocess.run(
            [sys.executable, "-c", _COLD.replace("SEED", str(seed))],
            check=True,
            capture_output=True,
            text=True,
            env=os.environ,
        ).stdout.split()
        runs.append(
            {
                "seed": seed,
                "seconds": float(answer[0]) - started,
                "l2": float(answer[1]),
                "factorizations": int(answer[2]),
            }
        )
    random = np.random.default_rng(0).standard_normal((2100, 2100))
    matrix = random @ random.T + 2100 * np.eye(2100)
    factor = statistics.median(
        seconds(lambda: scipy.linalg.cholesky(matrix, lower=True, check_finite=False))
        for _ in range(9)
    )
    middle = statistics.median(run["seconds"] for run in runs)
    return {
        "median seconds": middle,
        "in factorizations at 2100": middle / factor,
        "worst l2": max(run["l2"] for run in runs),
        "runs": runs,
    }


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    report = {f"step at M = {size}": step_cost(size) for size in SIZES}
    write("learning-speed", {**report, "cold start from 1.0": time_to_accuracy()})


if __name__ == "__main__":
    main()
