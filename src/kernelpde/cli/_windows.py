"""Examples that go window by window in time."""

from pathlib import Path
from typing import Any

from kernelpde.cli._job import Job
from kernelpde.cli._live import LiveLine
from kernelpde.errors import InputError
from kernelpde.evolve import Evolution, march
from kernelpde.gallery import Example
from kernelpde.gauss_newton import GaussNewton, LevenbergMarquardt, Solution
from kernelpde.linear_solvers import Automatic


def marched(job: Job, example: Example, line: LiveLine, out: Path | None) -> Evolution:
    """Solve the windows one after another; those in `out` are read."""
    other = {"accuracy": None, "optimizer": "default"}
    given = [f"--{name}" for name, usual in other.items() if getattr(job, name) != usual]
    if job.max_steps is not None and not job.learning:
        given.append("--max-steps")
    if given:
        raise InputError(
            f"{example.name} goes through {example.windows} windows of time, by march, which has "
            f"no {' or '.join(given)}: leave it out, or call kernelpde.solve."
        )

    def progress(number: int, solution: Solution) -> None:
        line.phase(f"window {number + 1} of {example.windows}: {solution.result.name}")

    return march(
        example.problem,
        example.windows,
        {**example.points, **job.points},
        learning={"max_steps": job.max_steps} if job.learning else None,
        solver=GaussNewton() if job.method == "plain" else LevenbergMarquardt(),
        linear_solver=Automatic(
            nugget=example.nugget if job.nugget is None else job.nugget, refinement=job.refinement
        ),
        seed=job.seed,
        sampling=job.sampling or example.sampling,
        throw=False,
        callback=progress,
        checkpoint=out,
    )


def windows_report(job: Job, example: Example, evolution: Evolution) -> dict[str, Any]:
    return {
        "problem": job.source,
        "seed": job.seed,
        "windows": example.windows,
        "errors": example.errors(evolution),
        "converged": evolution.converged,
        "reasons": [solution.reason for solution in evolution.solutions],
        "seconds": list(evolution.seconds),
    }
