"""One run of the command: solve or learn, look at the result, keep it."""

import dataclasses
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kernelpde.adaptive import solve
from kernelpde.archive import replacing, versions
from kernelpde.cli._live import LiveLine
from kernelpde.cli._source import example_of
from kernelpde.errors import InputError
from kernelpde.gallery import Example
from kernelpde.gauss_newton import GaussNewton, LevenbergMarquardt, Solution, save_solution
from kernelpde.inference import Posterior, posterior
from kernelpde.learning import (
    Bilevel,
    FinalSolve,
    HeldOut,
    Learned,
    RunFile,
    data_conditions,
    learn,
    paper_adam,
)
from kernelpde.linear_solvers import Automatic
from kernelpde.problem import load_kernels, save_kernels
from kernelpde.progress import Callback, JSONLines, Logging, together

JOB, RUN, SOLUTION, REPORT = "job.json", "run.kpde", "solution.kpde", "report.json"
"""Names in a directory of results: what was asked for, the state of learning, what was found."""

_JUDGED = 10_000
"""With more rows errors are not estimated unless asked for: that takes as long as the solve."""

_STEPS = 50
"""Largest number of Gauss-Newton steps unless told otherwise."""

_FRESH = 10_000
"""What is added to the seed for the points of the final solve."""


@dataclasses.dataclass(frozen=True)
class Job:
    """What the command was asked to do; kept in the files it writes.

    **Attributes:**

    - `source`: a gallery name or a Python file.
    - `learning`: whether to learn the kernel first.
    - `lengthscale`: of the kernel; learning begins with it.
    - `optimizer`: "default" or "adam".
    - `seed`, `points`, `sampling`: of the points.
    - `nugget`, `refinement`, `method`: of the solve.
    - `max_steps`: of learning, or else of the solve.
    - `kernels`: a file of hyperparameters to begin with.
    - `accuracy`: a relative error for which points and kernel are chosen.
    """

    source: str
    learning: bool = False
    lengthscale: float | None = None
    optimizer: str = "default"
    seed: int = 0
    points: Mapping[str, int] = dataclasses.field(default_factory=dict)
    sampling: str | None = None
    nugget: float | None = None
    refinement: int = 2
    method: str = "damped"
    max_steps: int | None = None
    kernels: str | None = None
    accuracy: float | None = None

    def __post_init__(self):
        if self.accuracy is not None and (self.learning or self.points):
            raise InputError(
                "--accuracy chooses points and kernel: leave out --learn and --points."
            )
        for what, given, known in (
            ("method", self.method, ("damped", "plain")),
            ("optimizer", self.optimizer, ("default", "adam")),
        ):
            if given not in known:
                raise InputError(f"Unknown {what} {given!r}; there are {', '.join(known)}.")

    def example(self) -> Example:
        """The problem, with the kernels to begin with."""
        example = example_of(self.source, self.lengthscale, self.seed)
        if self.kernels is None:
            return example
        return dataclasses.replace(example, problem=load_kernels(self.kernels, example.problem))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of a job."""

    job: Job
    example: Example
    solution: Solution
    learned: Learned | None
    known: Posterior | None
    report: dict[str, Any]


def job_of(notes: Mapping[str, Any], path: str | Path) -> Job:
    """The job that a file was written by."""
    try:
        return Job(**notes["job"])
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: was not written by the command; use kernelpde.learn.") from error


def carried_out(
    job: Job, example: Example, line: LiveLine, out: Path | None = None, save: str | None = None
) -> Outcome:
    """Solve or learn.

    **Arguments:**

    - `job`: what to do.
    - `example`: its problem.
    - `line`: is told how it goes.
    - `out`: a directory for the state of the run, its records, the solution and the report.
    - `save`: a file for the hyperparameters.
    """
    started = time.perf_counter()
    counts = {**example.points, **job.points}
    data = bool(data_conditions(example.problem))
    callbacks: list[Callback] = [Logging(), line]
    if out is not None:
        callbacks.append(JSONLines(out / "records.jsonl"))
    callback = together(*callbacks)
    line.most = job.max_steps or ((80 if data else 30) if job.learning else _STEPS)
    learned = None
    if job.learning:
        learned = _learned(job, example, counts, data, callback, out)
        solution = learned.solution
    else:
        solution = _solved(job, example, counts, data, callback)
    line.phase("estimating the error")
    few = solution.problem.row_count(solution.blocks) <= _JUDGED
    estimated = solution.error_estimate if few else {}
    if job.accuracy is not None:
        pairs = zip(solution.problem.conditions, solution.blocks, strict=True)
        counts = {condition.name: block.count for condition, block in pairs}
    known = posterior(solution) if data and solution.converged else None
    errors = example.errors(solution)
    total = time.perf_counter() - started
    report = {
        "problem": job.source,
        "seed": job.seed,
        "points": counts,
        "hyperparameters": {
            field: {name: value.tolist() for name, value in values.items()}
            for field, values in solution.problem.hyperparameters.items()
        },
        "errors": errors,
        "estimated errors": {field: error._asdict() for field, error in estimated.items()},
        "residuals": solution.residuals,
        "between": solution.between,
        "nugget": solution.nugget,
        "condition": solution.condition,
        "iterations": solution.steps,
        "converged": solution.converged,
        "reason": solution.reason,
        "solver": solution.linear_solver,
        "seconds": {"compile": line.compilation, "run": total - line.compilation},
        "versions": versions(),
    }
    if learned is not None:
        report["learning"] = {
            "from": job.lengthscale,
            "optimizer": job.optimizer,
            "factorizations": learned.factorizations,
            "steps": len(learned.history),
            "converged": learned.converged,
            "reason": learned.reason,
        }
    if known is not None:
        report |= _known(known, example)
    line.phase("writing")
    if save is not None:
        save_kernels(save, solution.problem)
    if out is not None:
        save_solution(out / SOLUTION, solution, {"job": dataclasses.asdict(job)})
        keep(out / REPORT, report)
    return Outcome(job, example, solution, learned, known, report)


def keep(path: Path, facts: Mapping[str, Any]) -> None:
    """Write facts as JSON, whole or not at all."""
    with replacing(path) as beside:
        beside.write_text(json.dumps(facts, indent=2) + "\n")


def _solver(job: Job, example: Example, data: bool) -> Automatic:
    return Automatic(
        nugget=example.nugget if job.nugget is None else job.nugget,
        refinement=0 if data else job.refinement,
    )


def _learned(
    job: Job,
    example: Example,
    counts: Mapping[str, int],
    data: bool,
    callback: Callback,
    out: Path | None,
) -> Learned:
    published = job.optimizer == "adam"
    only_equation = {name: 0.0 for name in counts if name != "equation"}
    linear_solver = _solver(job, example, data)
    return learn(
        example.problem,
        {
            name: count * example.training.get(name, 1) // max(example.points.get(name, 1), 1)
            for name, count in counts.items()
        },
        validation=HeldOut(batch=200, weights=only_equation) if published else None,
        method=Bilevel(
            optimizer=paper_adam() if published else None,
            solver=GaussNewton() if published else LevenbergMarquardt(),
            tolerance=0.0 if published else 1e-3,
            multistart=not published,
            final=FinalSolve(
                None if data else counts, job.seed + _FRESH, None if data else linear_solver
            ),
        ),
        linear_solver=Automatic(nugget=max(1e-10, linear_solver.nugget), refinement=0),
        seed=job.seed,
        sampling=example.sampling if job.sampling is None else job.sampling,
        max_steps=job.max_steps,
        throw=False,
        callback=callback,
        checkpoint=None if out is None else RunFile(out / RUN, {"job": dataclasses.asdict(job)}),
    )


def _solved(
    job: Job, example: Example, counts: Mapping[str, int], data: bool, callback: Callback
) -> Solution:
    return solve(
        example.problem,
        None if job.accuracy is not None else counts,
        accuracy=job.accuracy,
        seed=job.seed,
        sampling=example.sampling if job.sampling is None else job.sampling,
        solver=GaussNewton() if job.method == "plain" else LevenbergMarquardt(),
        linear_solver=_solver(job, example, data),
        max_steps=job.max_steps or _STEPS,
        throw=False,
        callback=callback,
    )


def _known(known: Posterior, example: Example) -> dict[str, Any]:
    return {
        "chi_squared": known.chi_squared,
        "parameters": {
            field: {
                "mean": estimate.mean,
                "std": estimate.std,
                "interval": estimate.interval(),
                "truth": example.parameters.get(field),
            }
            for field, estimate in known.parameters.items()
        },
        "std": {
            field: float(np.sqrt(np.mean(known[field].std(example.grid) ** 2)))
            for field in example.references
        },
    }
