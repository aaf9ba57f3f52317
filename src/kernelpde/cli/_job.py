"""One run of `kernelpde solve`: its settings, the computation, and its report."""

import dataclasses
import json
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from kernelpde.adaptive import solve
from kernelpde.checking import check_choice
from kernelpde.cli._live import ProgressDisplay
from kernelpde.cli._source import load_example
from kernelpde.errors import InputError
from kernelpde.evolve import Evolution, march
from kernelpde.gallery import Example
from kernelpde.inference import Posterior, posterior
from kernelpde.io import Attributes, atomic_write, versions
from kernelpde.learning import (
    Bilevel,
    CheckpointFile,
    FinalSolve,
    HeldOut,
    LearningResult,
    data_conditions,
    learn,
    paper_adam,
)
from kernelpde.linear_solvers import LEARNING_NUGGET, MAX_DENSE_ROWS, Automatic
from kernelpde.nonlinear import MAX_STEPS, GaussNewton, LevenbergMarquardt
from kernelpde.problem import load_kernels
from kernelpde.progress import Callback, JSONLines, Logging, combine
from kernelpde.solution import Solution, save_solution

JOB, RUN, SOLUTION, REPORT = "job.json", "run.kpde", "solution.kpde", "report.json"
"""Files in the directory of `--out`: settings of windowed runs, state of learning, solution,
report."""

_SOLUTION_FACTS = (
    "residuals test_residuals nugget condition_number num_steps converged message".split()
)
"""Attributes of solutions in reports."""

_FINAL_SEED_OFFSET = 10_000
"""Offset of the seed for the final solve, which uses new points."""


@dataclasses.dataclass(frozen=True)
class Job:
    """Settings of a run, the options of `kernelpde solve`. They are stored in its files."""

    source: str
    learn: bool | None = None
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
        if self.accuracy is not None and (self.learn or self.points):
            raise InputError(
                "--accuracy selects points and kernel: omit --learn and --points, or --accuracy."
            )
        check_choice("solve", "--method", self.method, ("damped", "plain"))
        check_choice("solve", "--optimizer", self.optimizer, ("default", "adam"))

    @staticmethod
    def from_metadata(metadata: Attributes, path: str | Path) -> "Job":
        """Return the job stored in the metadata of a file."""
        try:
            return Job(**metadata["job"])
        except (KeyError, TypeError) as error:
            raise InputError(
                f"{path}: was not written by the kernelpde command. Read it with kernelpde.learn "
                "or kernelpde.load_solution."
            ) from error

    def metadata(self) -> Attributes:
        """Return the settings as stored in files."""
        return {"job": dataclasses.asdict(self)}

    def example(self) -> Example:
        """Load the problem with its initial kernels."""
        example = load_example(self.source, self.lengthscale, self.seed)
        if self.kernels is None:
            return example
        return dataclasses.replace(example, problem=load_kernels(self.kernels, example.problem))

    def with_default_learning(self, example: Example) -> "Job":
        """Replace `learn=None` by the default of the problem."""
        default = self.accuracy is None and example.num_windows == 1
        return dataclasses.replace(self, learn=default if self.learn is None else self.learn)

    def settings(self, example: Example) -> Attributes:
        """Return the arguments that `solve` and `march` share."""
        has_data = bool(data_conditions(example.problem))
        return {
            "seed": self.seed,
            "sampling": example.sampling if self.sampling is None else self.sampling,
            "solver": GaussNewton() if self.method == "plain" else LevenbergMarquardt(),
            "linear_solver": Automatic(
                nugget=example.nugget if self.nugget is None else self.nugget,
                refinement_sweeps=0 if has_data else self.refinement,
            ),
            "throw": False,
        }


@dataclasses.dataclass(frozen=True)
class JobResult:
    """Solution of the problem of a job, or of all its time windows, and its report.

    `learned` is `None` without learning, and `posterior` without data or convergence.
    """

    example: Example
    solution: Solution | Evolution
    report: Attributes
    learned: LearningResult | None = None
    posterior: Posterior | None = None


def run_job(
    job: Job, example: Example, display: ProgressDisplay, out: Path | None = None
) -> JobResult:
    """Solve or learn; `out` is the directory for checkpoint, records and solution."""
    if example.num_windows > 1:
        return run_windows(job, example, display, out)
    start_time = time.perf_counter()
    counts = {**example.points, **job.points}
    has_data = bool(data_conditions(example.problem))
    records = [] if out is None else [JSONLines(out / "records.jsonl")]
    callback = combine(Logging(), display, *records)
    default_steps = (80 if has_data else 30) if job.learn else MAX_STEPS
    display.max_steps = job.max_steps or default_steps
    learned = None
    if job.learn:
        learned = _run_learn(job, example, counts, callback, out)
        solution = learned.solution
    else:
        solution = solve(
            example.problem,
            None if job.accuracy is not None else counts,
            accuracy=job.accuracy,
            max_steps=job.max_steps or MAX_STEPS,
            callback=callback,
            **job.settings(example),
        )
    display.set_status("estimating the error")
    report = _report(job, example, solution, counts)
    if learned is not None:
        report["learning"] = {
            "from": job.lengthscale,
            "optimizer": job.optimizer,
            "factorizations": learned.factorizations,
            "steps": len(learned.history),
            "converged": learned.converged,
            "message": learned.message,
        }
    uncertainty = posterior(solution) if has_data and solution.converged else None
    if uncertainty is not None:
        report |= _summarize_posterior(uncertainty, example)
    seconds = time.perf_counter() - start_time - display.compilation
    report["seconds"] = {"compile": display.compilation, "run": seconds}
    if out is not None:
        display.set_status("writing")
        save_solution(out / SOLUTION, solution, job.metadata())
    return JobResult(example, solution, report, learned, uncertainty)


def run_windows(
    job: Job, example: Example, display: ProgressDisplay, out: Path | None = None
) -> JobResult:
    """Solve in successive time windows; windows stored in `out` are loaded."""
    is_set = {
        "--accuracy": job.accuracy is not None,
        "--optimizer": job.optimizer != "default",
        "--max-steps": job.max_steps is not None and not job.learn,
    }
    options = " and ".join(name for name in is_set if is_set[name])
    if options:
        raise InputError(
            f"{example.name} is solved in {example.num_windows} time windows, which do not support "
            f"{options}. Omit the option, or call kernelpde.solve."
        )

    def show_window(index: int, solution: Solution) -> None:
        display.set_status(f"window {index + 1} of {example.num_windows}: {solution.result.name}")

    evolution = march(
        example.problem,
        example.num_windows,
        {**example.points, **job.points},
        learning={"max_steps": job.max_steps} if job.learn else None,
        callback=show_window,
        checkpoint=out,
        **job.settings(example),
    )
    report = {
        "problem": job.source,
        "seed": job.seed,
        "windows": example.num_windows,
        "errors": example.errors(evolution),
        "converged": evolution.converged,
        "messages": [solution.message for solution in evolution.solutions],
        "seconds": list(evolution.seconds),
    }
    return JobResult(example, evolution, report)


def write_json(path: Path, content: Attributes) -> None:
    """Write a JSON file atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n")


def _run_learn(
    job: Job, example: Example, counts: Mapping[str, int], callback: Callback, out: Path | None
) -> LearningResult:
    settings = job.settings(example)
    linear_solver, seed = settings["linear_solver"], job.seed + _FINAL_SEED_OFFSET
    has_data = bool(data_conditions(example.problem))
    final = FinalSolve(None, seed, None) if has_data else FinalSolve(counts, seed, linear_solver)
    method, validation = Bilevel(solver=LevenbergMarquardt(), final=final), None
    if job.optimizer == "adam":
        adam, solver = paper_adam(), GaussNewton()
        method = Bilevel(adam, solver=solver, tolerance=0.0, multistart=False, final=final)
        only_equation = {name: 0.0 for name in counts if name != "equation"}
        validation = HeldOut(batch_size=200, weights=only_equation)
    training = {
        name: count * example.training.get(name, 1) // max(example.points.get(name, 1), 1)
        for name, count in counts.items()
    }
    nugget = max(LEARNING_NUGGET, linear_solver.nugget)
    return learn(
        example.problem,
        training,
        validation=validation,
        method=method,
        linear_solver=Automatic(nugget=nugget, refinement_sweeps=0),
        seed=job.seed,
        sampling=settings["sampling"],
        max_steps=job.max_steps,
        throw=False,
        callback=callback,
        checkpoint=None if out is None else CheckpointFile(out / RUN, job.metadata()),
    )


def _report(
    job: Job, example: Example, solution: Solution, counts: Mapping[str, int]
) -> Attributes:
    problem, point_sets = solution.problem, solution.point_sets
    if job.accuracy is not None:
        counts = problem.row_counts(point_sets)
    # An estimate costs as much as the solve.
    is_small = problem.at_points(point_sets).num_rows <= MAX_DENSE_ROWS
    estimates = solution.error_estimate if is_small else {}
    return {
        "problem": job.source,
        "seed": job.seed,
        "points": counts,
        "hyperparameters": {
            field: {name: value.tolist() for name, value in values.items()}
            for field, values in problem.hyperparameters.items()
        },
        "errors": example.errors(solution),
        "estimated_errors": {field: error._asdict() for field, error in estimates.items()},
        **{name: getattr(solution, name) for name in _SOLUTION_FACTS},
        "linear_solver": solution.linear_solver_message,
        "versions": versions(),
    }


def _summarize_posterior(posterior: Posterior, example: Example) -> Attributes:
    parameters = {
        name: {
            "mean": estimate.mean,
            "std": estimate.std,
            "interval": estimate.interval(),
            "truth": example.parameters.get(name),
        }
        for name, estimate in posterior.parameters.items()
    }
    return {
        "chi_squared": posterior.chi_squared,
        "parameters": parameters,
        "std": {
            field: float(np.sqrt(np.mean(posterior[field].std(example.grid) ** 2)))
            for field in example.references
        },
    }
