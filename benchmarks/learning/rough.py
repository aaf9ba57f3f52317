"""Spatially varying lengthscales: accuracy and cost.

    python -m benchmarks rough burgers|eikonal|layer [bumps|network|coarse] [--seeds 0:5]
    python -m benchmarks rough adam|cold

Each seed has its own points, and its own weights of a network. `adam`: Burgers as published, rate
1e-3, 20 x 50 steps, batches of 200 interior points. `cold`: Burgers from a new process to the
published accuracy, imports and compilation included.
"""

import resource
import time
from typing import Any

import optax

import kernelpde as kp
from benchmarks._report import parser, record, seeds
from benchmarks._timing import in_process
from kernelpde.gallery import EXAMPLES, Example, burgers
from kernelpde.learning import ThetaMap

COARSE = (2, 12)
"""A grid of bumps with 50 hyperparameters, two lengthscales each."""


def learned(
    example: Example, seed: int, validation: Any = None, max_steps: int | None = None, **settings
) -> dict[str, Any]:
    """Learn with the example's training points, solve with its points: errors and cost."""
    start = time.perf_counter()
    final = kp.learning.FinalSolve(example.points, linear_solver=kp.Dense(nugget=example.nugget))
    result = kp.learn(
        example.problem,
        example.training,
        method=kp.learning.Bilevel(final=final, **settings),
        validation=validation,
        max_steps=max_steps,
        seed=seed,
        sampling=example.sampling,
        linear_solver=kp.Dense(nugget=max(example.nugget, 1e-10), refinement_sweeps=0),
        throw=False,
    )
    return {
        "parameters": ThetaMap.of(result.problem.prior).vector.size,
        **example.errors(result.solution)["u"],
        "factorizations": result.factorizations,
        "steps": len(result.history),
        "seconds": time.perf_counter() - start,
        "stopped": result.result.name,
        "result": result.solution.result.name,
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def unlearned(example: Example, seed: int) -> dict[str, Any]:
    """The same points with the initial kernel."""
    solution = kp.solve(
        example.problem,
        example.points,
        seed=seed,
        sampling=example.sampling,
        linear_solver=kp.Dense(nugget=example.nugget),
        throw=False,
    )
    return {**example.errors(solution)["u"], "result": solution.result.name}


def example_of(name: str, kernel: str, seed: int) -> Example:
    if kernel == "coarse":
        return EXAMPLES[name](shape=COARSE, seed=seed)
    return EXAMPLES[name](kernel=kernel, seed=seed)


def published_adam(seed: int) -> dict[str, Any]:
    return learned(
        burgers(kernel="network", seed=seed),
        seed,
        optimizer=kp.Optax(optax.adam(1e-3), max_steps=50),
        validation=kp.HeldOut(batch_size=200, weights={"ends": 0.0, "initial": 0.0}),
        solver=kp.GaussNewton(),
        multistart=False,
        tolerance=0.0,
        max_steps=20,
    )


COLD = """
import json, time; start = time.perf_counter()
import jax; jax.config.update("jax_enable_x64", True)
import kernelpde as kp
from kernelpde.gallery import burgers
example = burgers()
learned = kp.learn(example.problem, example.training, sampling=example.sampling, max_steps=%d,
    method=kp.learning.Bilevel(final=kp.learning.FinalSolve(example.points)), throw=False)
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "l2": example.errors(learned.solution)["u"]["l2"]}))
"""


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("name", choices=("burgers", "eikonal", "layer", "adam", "cold"))
    command.add_argument("kernel", nargs="?", default="bumps")
    command.add_argument("--seeds", type=seeds, default="0:5")
    options = command.parse_args(arguments)
    if options.name == "cold":
        for steps in (12, 16):
            case = f"burgers, bumps, new process, {steps} steps"
            record("rough", {"case": case, "seed": 0, **in_process(["-c", COLD % steps])})
        return
    for seed in options.seeds:
        if options.name == "adam":
            cases = {"burgers, network, Adam as published": published_adam(seed)}
        else:
            example = example_of(options.name, options.kernel, seed)
            start = f"{options.name}, {options.kernel}"
            cases = {
                f"{start}, learned": learned(example, seed),
                f"{start}, unlearned": unlearned(example, seed),
            }
        for case, figures in cases.items():
            record("rough", {"case": case, "seed": seed, **figures})
