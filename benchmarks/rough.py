"""Kernels whose lengthscale is learned as a function of place: accuracy over seeds 0-4, and cost.

    python benchmarks/rough.py burgers|eikonal|layer [bumps|network|coarse]
    python benchmarks/rough.py adam|speed|cores|cold

writes `results/rough-NAME.json`. Each seed has its own points, and its own weights of a network.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _report
import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.linalg
from _losses import published_loss
from _report import against_cholesky, measure, seconds, write

import kernelpde as kp
from kernelpde.compiling import compiled
from kernelpde.functionals import gram_of_blocks
from kernelpde.gallery import EXAMPLES, Example, burgers
from kernelpde.learning import Parameters
from kernelpde.learning._evaluation import damped_direction, loss_and_gradient


def learning_nugget(example: Example) -> float:
    return max(example.nugget, 1e-10)


def learned(
    example: Example, seed: int, validation: Any = None, max_steps: int | None = None, **settings
) -> dict[str, Any]:
    """Learn with the example's training points, solve with its points: errors and cost."""
    start = time.perf_counter()
    found = kp.learn(
        example.problem,
        example.training,
        method=kp.learning.Bilevel(
            final=kp.learning.FinalSolve(
                example.points, linear_solver=kp.Dense(nugget=example.nugget)
            ),
            **settings,
        ),
        validation=validation,
        max_steps=max_steps,
        seed=seed,
        sampling=example.sampling,
        linear_solver=kp.Dense(nugget=learning_nugget(example), refinement=0),
        throw=False,
    )
    took = time.perf_counter() - start
    parameters = Parameters.of(found.kernels).vector.size
    return {
        "seed": seed,
        "parameters": parameters,
        "errors": example.errors(found.solution),
        "factorizations": found.factorizations,
        "steps": len(found.history),
        "seconds": took,
        "stopped": found.result.name,
        "final": found.solution.result.name,
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def unlearned(example: Example, seed: int) -> dict[str, Any]:
    """The same points with the kernel as it begins."""
    solution = kp.solve(
        example.problem,
        example.points,
        seed=seed,
        sampling=example.sampling,
        linear_solver=kp.Dense(nugget=example.nugget),
        throw=False,
    )
    return {"seed": seed, "errors": example.errors(solution), "final": solution.result.name}


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {
        f"median_{norm}": float(np.median([run["errors"]["u"][norm] for run in runs]))
        for norm in ("l2", "linf")
    }
    found["worst_l2"] = max(run["errors"]["u"]["l2"] for run in runs)
    if "seconds" in runs[0]:
        found["median_seconds"] = float(np.median([run["seconds"] for run in runs]))
    return found


COARSE = (2, 12)
"""A grid of bumps with 50 hyperparameters, two lengthscales each."""


def accuracy(name: str, kernel: str) -> None:
    def example(seed: int) -> Example:
        if kernel == "coarse":
            return EXAMPLES[name](shape=COARSE, seed=seed)
        return EXAMPLES[name](kernel=kernel, seed=seed)

    measure(
        f"rough-{name}-{kernel}",
        {
            "learned": lambda seed: learned(example(seed), seed),
            "unlearned": lambda seed: unlearned(example(seed), seed),
        },
        summary,
    )


def published_adam() -> None:
    """Burgers as published: Adam, rate 1e-3, 20 x 50 steps, batches of 200 interior points."""

    def one(seed: int) -> dict[str, Any]:
        return learned(
            burgers(kernel="network", seed=seed),
            seed,
            optimizer=kp.Optax(optax.adam(1e-3), steps=50),
            validation=kp.HeldOut(batch=200, weights={"ends": 0.0, "initial": 0.0}),
            solver=kp.GaussNewton(),
            multistart=False,
            tolerance=0.0,
            max_steps=20,
        )

    measure("rough-adam", {"learned": one}, summary, range(2))


def speed() -> None:
    """A Gram matrix, a step by gradient, a step by conjugate gradients; compilation of each."""
    example = burgers(kernel="network")
    loss, matrix = published_loss(example, example.training)
    theta = jnp.asarray(loss.parameters.vector)
    kernels = loss.parameters.kernels(theta)
    assembled = compiled(gram_of_blocks)
    cases: dict[str, Callable[[], Any]] = {
        "gram": lambda: assembled(kernels, loss.rows.batches),
        "gradient step": lambda: loss_and_gradient(theta, loss)[:2],
        "conjugate gradient step": lambda: damped_direction(theta, loss, jnp.asarray(1e-2), 12),
    }
    report = {}
    for name, function in cases.items():
        first = seconds(function)
        report[name] = {"first_call_seconds": first, **against_cholesky(function, matrix, 9)}
    write("rough-speed", {"cases": report})


CORES = """
import jax
jax.config.update("jax_enable_x64", True)
import sys
sys.path.insert(0, %r)
from _losses import published_loss
from _report import seconds
from kernelpde.gallery import burgers
from kernelpde.learning._evaluation import loss_and_gradient
example = burgers(kernel="network")
loss, _ = published_loss(example, example.training)
step = lambda: loss_and_gradient(loss.parameters.vector, loss)[:2]
step()
print(min(seconds(step) for _ in range(9)))
"""


def cores(repeats: int = 3) -> None:
    """Wall time of the step by gradient on one core over that on all, each in its own process."""
    runs = []
    available = sorted(os.sched_getaffinity(0))
    script = CORES % str(Path(__file__).parent)
    for _ in range(1 if _report.SMALLEST else repeats):
        took = []
        for used in (available[:1], available):
            threads = {"OPENBLAS_NUM_THREADS": str(len(used))}
            printed = subprocess.run(
                ["taskset", "-c", ",".join(map(str, used)), sys.executable, "-c", script],
                env=os.environ | threads,
                capture_output=True,
                text=True,
                check=True,
            )
            took.append(float(printed.stdout))
        runs.append({"one": took[0], "all": took[1], "ratio": took[0] / took[1]})
    ratio = float(np.median([run["ratio"] for run in runs]))
    write("rough-cores", {"cores": len(available), "ratio": ratio, "runs": runs})


COLD = """
import time; start = time.perf_counter()
import jax; jax.config.update("jax_enable_x64", True)
import kernelpde as kp
from kernelpde.gallery import burgers
example = burgers()
found = kp.learn(example.problem, example.training, seed=0, sampling=example.sampling, max_steps=%d,
    method=kp.learning.Bilevel(final=kp.learning.FinalSolve(example.points)), throw=False)
print(time.perf_counter() - start, example.errors(found.solution)["u"]["l2"])
"""


def cold(steps: tuple[int, ...] = (12, 16)) -> None:
    """Burgers from a cold process to the published accuracy, compilation included."""
    rng = np.random.default_rng(0).random((2100, 2100))
    matrix = rng @ rng.T + 2100 * np.eye(2100)
    factor = float(np.median([seconds(lambda: scipy.linalg.cholesky(matrix)) for _ in range(9)]))
    runs = []
    for most in steps:
        printed = subprocess.run(
            [sys.executable, "-c", COLD % most], capture_output=True, text=True, check=True
        )
        took, error = map(float, printed.stdout.split())
        runs.append({"steps": most, "seconds": took, "l2": error, "choleskys": took / factor})
        write("rough-cold", {"cholesky_seconds": factor, "runs": runs})


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    name, *others = sys.argv[1:]
    commands = {"adam": published_adam, "speed": speed, "cores": cores, "cold": cold}
    if name in commands:
        commands[name]()
    else:
        accuracy(name, *(others or ["bumps"]))
