"""Saved runs: report and plots of a finished job, and commands on its directory."""

import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from kernelpde.bilevel import read_checkpoint_metadata
from kernelpde.cli._job import (
    JOB,
    REPORT,
    RUN,
    SOLUTION,
    Job,
    JobResult,
    run_job,
    run_windows,
    write_json,
)
from kernelpde.cli._live import ProgressDisplay, show_progress
from kernelpde.errors import FileError, InputError
from kernelpde.evolve import Evolution
from kernelpde.gallery import Example
from kernelpde.inference import posterior
from kernelpde.io import atomic_write
from kernelpde.kernels import find_gibbs
from kernelpde.learning import data_conditions
from kernelpde.problem import save_kernels
from kernelpde.solution import Solution, load_solution, solution_notes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run_and_report(job: Job, out: Path | None, as_json: bool, save: str | None = None) -> NoReturn:
    """Run a job, write its results to a directory, print them, and exit with its exit code.

    `as_json` prints only JSON, and `save` is a file for the hyperparameters.
    """
    example = job.example()
    job = job.with_default_learning(example)
    written: list[Path] = []
    quiet = as_json or not sys.stderr.isatty()
    with _report_interrupt(out), show_progress(example.name, quiet) as display:
        if out is not None and example.num_windows > 1:
            write_json(out / JOB, job.metadata()["job"])
        result = run_job(job, example, display, out)
        if save is not None:
            save_kernels(save, result.solution.problem)
        if out is not None:
            write_json(out / REPORT, result.report)
            display.set_status("plotting")
            figures = _plot(example, result.solution)
            if result.learned is not None:
                figures["learning"] = result.learned.plot()
            written = [
                _save_figure(figure, out / f"{name}.png") for name, figure in figures.items()
            ]
            written.append(out / REPORT)
            if example.num_windows == 1:
                written.append(out / SOLUTION)
    if as_json:
        typer.echo(json.dumps(result.report))
    else:
        _print_summary(result)
        if written:
            typer.echo(f"  in {out}: {', '.join(path.name for path in written)}")
    raise typer.Exit(0 if result.report["converged"] else 1)


@contextmanager
def _report_interrupt(out: Path | None) -> Iterator[None]:
    """Print how to resume when the run is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        advice = f"To continue: kernelpde resume {out}"
        if out is None:
            advice = "Nothing was saved. Use --out DIR to make runs resumable."
        typer.echo(f"kernelpde: interrupted. {advice}", err=True)
        raise typer.Exit(130) from None


def _plot(
    example: Example,
    solution: Solution | Evolution,
    at: Mapping[str, float] | None = None,
    resolution: int | None = None,
) -> dict[str, "Figure"]:
    """Return all plots of a solution by name."""
    import matplotlib as mpl

    mpl.use("Agg")
    references, fixed = example.references, at or None
    figures = {"solution": solution.plot(references=references, at=fixed, resolution=resolution)}
    if isinstance(solution, Solution):
        if data_conditions(solution.problem) and solution.converged:
            figures["posterior"] = posterior(solution).plot(references=references, at=fixed)
        if find_gibbs(solution.kernels):
            figures["lengthscales"] = solution.plot_lengthscales(at=fixed)
        if fixed is None:
            figures["iteration"] = solution.history.plot()
    return figures


def _save_figure(figure: "Figure", path: Path) -> Path:
    with atomic_write(path) as temporary:
        figure.savefig(temporary)
    return path


def _unused_path(out: Path, name: str, suffix: str) -> Path:
    path, count = out / f"{name}{suffix}", 1
    while path.exists():
        count += 1
        path = out / f"{name}-{count}{suffix}"
    return path


def resume_job(results: Path, max_steps: int | None, as_json: bool) -> NoReturn:
    """Continue the run in a directory."""
    directory, file = _split(results, RUN)
    if (directory / JOB).exists():
        job = _read_job(directory / JOB)
    else:
        job = Job.from_metadata(read_checkpoint_metadata(file), file)
    if max_steps is not None:
        job = dataclasses.replace(job, max_steps=max_steps)
    run_and_report(job, directory, as_json)


def plot_saved(
    results: Path, out: Path | None, at: Mapping[str, float], resolution: int | None, animate: bool
) -> list[Path]:
    """Plot the saved solution of a directory, under unused file names."""
    example, solution, directory = load_saved(results)
    out = out or directory
    written = [
        _save_figure(figure, _unused_path(out, name, ".png"))
        for name, figure in _plot(example, solution, at, resolution).items()
    ]
    if animate:
        references = example.references
        animation = solution.animate(references=references, at=at or None, resolution=resolution)
        written.append(animation.save(_unused_path(out, "animation", ".gif")))
    return written


def _split(results: Path, name: str) -> tuple[Path, Path]:
    """Return the directory of results and the file; `results` is either of them."""
    return (results, results / name) if results.is_dir() else (results.parent, results)


def load_saved(results: Path) -> tuple[Example, Solution | Evolution, Path]:
    """Load a saved solution; print a warning if it has not converged."""
    directory, file = _split(results, SOLUTION)
    if (directory / JOB).exists():
        job = _read_job(directory / JOB)
        example = job.example()
        stored = len(list(directory.glob("window-*.kpde")))
        if stored < example.num_windows:
            raise InputError(
                f"{directory}: {stored} of {example.num_windows} time windows are stored. Run "
                f"kernelpde resume {directory} first."
            )
        solution = run_windows(job, example, ProgressDisplay(example.name), directory).solution
    else:
        example = Job.from_metadata(solution_notes(file), file).example()
        solution = load_solution(file, example.problem)
    if not solution.converged:
        typer.echo(f"This solution has not converged. {solution.message}", err=True)
    return example, solution, directory


def _read_job(path: Path) -> Job:
    try:
        settings = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: cannot be read ({error}).") from error
    return Job.from_metadata({"job": settings}, path)


def _print_summary(result: JobResult) -> None:
    report = result.report
    typer.echo(repr(result.learned or result.solution))
    for field, error in report["errors"].items():
        std = report.get("std", {}).get(field)
        deviation = "" if std is None else f"; standard deviation {std:.2e} rms"
        size = f"{error['l2']:.2e} rms ({error['relative']:.2g} relative), {error['linf']:.2e} max"
        typer.echo(f"  error of {field}: {size}{deviation}")
    if result.posterior is not None:
        for name, estimate in result.posterior.parameters.items():
            truth = result.example.parameters.get(name)
            typer.echo(f"  {name} = {estimate!r}{'' if truth is None else f'; truth {truth:.5g}'}")
        for condition, value in result.posterior.chi_squared.items():
            typer.echo(f"  chi-squared of {condition}: {value:.2f} per datum")
    if result.example.num_windows == 1:
        seconds = report["seconds"]
        typer.echo(f"  {seconds['compile']:.1f} s compiling, {seconds['run']:.1f} s running")
