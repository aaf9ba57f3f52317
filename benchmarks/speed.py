"""Times as multiples of one LAPACK Cholesky of the same size, in the same run.

    python benchmarks/speed.py

prints JSON and writes `results/speed.json`.
"""

import statistics
import subprocess
import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from _report import SMALLEST, against_cholesky, write

import kernelpde as kp
from kernelpde.functionals import gram_of_blocks
from kernelpde.gallery import elliptic
from kernelpde.gauss_newton import take_step, zero_state
from kernelpde.linear_solvers import DenseState
from kernelpde.problem import linearized


def assembled(kernel: kp.AbstractKernel, points: dict[str, int]):
    """The elliptic functionals, and a matrix of their size that can be factored."""
    problem = elliptic(kernel=kernel).problem
    blocks = problem.collocate(points, sampling="uniform")
    state = tuple(
        jnp.ones((len(block.points), len(residual.nonlinear)))
        for residual, block in zip(problem.residuals, blocks, strict=True)
    )
    batches = linearized(problem.residuals, blocks, state).batches
    matrix = np.asarray(gram_of_blocks(problem.kernels, batches))
    scale = 1 / np.sqrt(np.diag(matrix))
    return problem, batches, scale[:, None] * matrix * scale + 1e-8 * np.eye(len(matrix))


def gram_ratio(kernel: kp.AbstractKernel) -> dict[str, float]:
    problem, batches, matrix = assembled(kernel, {"equation": 900, "boundary": 300})
    assemble = eqx.filter_jit(gram_of_blocks)
    return against_cholesky(lambda: assemble(problem.kernels, batches), matrix)


def step_ratio() -> dict[str, float]:
    problem, _, matrix = assembled(kp.Gaussian(0.2), {"equation": 1800, "boundary": 300})
    blocks = problem.collocate({"equation": 1800, "boundary": 300}, sampling="uniform")
    plan = DenseState(kp.Dense(nugget=1e-12))
    state = zero_state(problem.residuals, blocks, plan)
    lengths = jnp.asarray(kp.LevenbergMarquardt().lengths)

    def step(at):
        return take_step(
            problem.residuals,
            problem.kernels,
            blocks,
            at,
            plan,
            damping=jnp.zeros(()),
            lengths=lengths,
            sweeps=jnp.asarray(0),
            merit_scale=jnp.zeros_like(state.linear),
        )

    for _ in range(3):
        state = step(state).state
    return against_cholesky(lambda: step(state), matrix)


_COLD = """
import os, time
import jax
import kernelpde as kp
from kernelpde.gallery import elliptic
jax.config.update("jax_enable_x64", True)
example = elliptic(0.2)
def first_step(record):
    print(time.time(), flush=True)
    os._exit(0)
kp.solve(example.problem, example.points, sampling="uniform", callback=first_step)
"""


def cold_start(repeats: int = 5) -> float:
    """Seconds from the start of a process to the end of its first Gauss-Newton step."""
    times = []
    for _ in range(1 if SMALLEST else repeats):
        start = time.time()
        run = subprocess.run(
            [sys.executable, "-c", _COLD], capture_output=True, text=True, check=True
        )
        times.append(float(run.stdout) - start)
    return statistics.median(times)


def main() -> None:
    jax.config.update("jax_enable_x64", True)

    def user_written(x, y):
        return jnp.exp(-jnp.sum((x - y) ** 2) / (2 * 0.2**2))

    write(
        "speed",
        {
            "gram, Gaussian": gram_ratio(kp.Gaussian(0.2)),
            "gram, Matern-7/2": gram_ratio(kp.Matern(3.5, 0.3)),
            "gram, user-written": gram_ratio(kp.Function(user_written)),
            "Gauss-Newton step": step_ratio(),
            "cold start to the first Gauss-Newton step, seconds": cold_start(),
        },
    )


if __name__ == "__main__":
    main()
