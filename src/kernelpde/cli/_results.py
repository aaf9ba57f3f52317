"""Saved runs: report and plots of a finished job, and commands on its directory."""

import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import numpy as np
import typer

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
from kernelpde.learning import data_conditions, read_checkpoint_metadata
from kernelpde.problem import save_kernels
from kernelpde.solution import Solution, load_solution, solution_notes

FORMATS = (".nc", ".csv", ".npz", ".vtu")
"""File suffixes that `kernelpde export` writes."""


def run_and_report(job: Job, out: Path | None, as_json: bool, save: str | None = None) -> NoReturn:
    """Run a job, write and print its results, and exit with its exit code.

    **Arguments:**

    - `job`: settings.
    - `out`: directory for all results.
    - `as_json`: print only JSON.
    - `save`: file for the hyperparameters.
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
            written = _write_plots(example, result.solution, out)
            if result.learned is not None:
                written.append(out / "learning.png")
                with atomic_write(written[-1]) as temporary:
                    result.learned.plot().savefig(temporary)
            written.append(out / REPORT)
            if isinstance(result.solution, Solution):
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
        advice = (
            "Nothing was saved. Use --out DIR to make runs resumable."
            if out is None
            else f"To continue: kernelpde resume {out}"
        )
        typer.echo(f"kernelpde: interrupted. {advice}", err=True)
        raise typer.Exit(130) from None


def _write_plots(
    example: Example,
    solution: Solution | Evolution,
    out: Path,
    *,
    at: Mapping[str, float] | None = None,
    resolution: int | None = None,
    animate: bool = False,
    keep_existing: bool = False,
) -> list[Path]:
    """Write all plots of a solution; with `keep_existing`, under unused file names."""
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
    written = []
    for name, figure in figures.items():
        written.append(_unused_path(out, name, ".png") if keep_existing else out / f"{name}.png")
        with atomic_write(written[-1]) as temporary:
            figure.savefig(temporary)
    if animate:
        animation = solution.animate(references=references, at=fixed, resolution=resolution)
        written.append(animation.save(_unused_path(out, "animation", ".gif")))
    return written


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
    results: Path,
    out: Path | None,
    at: Mapping[str, float],
    resolution: int | None,
    animate: bool,
) -> list[Path]:
    """Plot the saved solution of a directory."""
    example, solution, directory = _load_saved(results)
    return _write_plots(
        example,
        solution,
        out or directory,
        at=at,
        resolution=resolution,
        animate=animate,
        keep_existing=True,
    )


def export_saved(
    results: Path, target: Path, at: Mapping[str, float], resolution: int | None
) -> Path:
    """Write the saved fields of a directory to a file."""
    _, solution, _ = _load_saved(results)
    return write_fields(solution, target, at, resolution)


def write_fields(
    solution: Solution | Evolution,
    target: Path,
    at: Mapping[str, float],
    resolution: int | None,
) -> Path:
    """Write the fields of a solution on a grid, in the format of the file's suffix."""
    if target.suffix not in FORMATS:
        raise InputError(f"export: the name must end in {', '.join(FORMATS)}; got {target.name!r}.")
    fixed = dict(at) or None
    with atomic_write(target) as path:
        if target.suffix == ".vtu":
            solution.to_pyvista(resolution=resolution, at=fixed).save(path)
            return target
        dataset = solution.to_xarray(resolution=resolution, at=fixed)
        if target.suffix == ".nc":
            dataset.to_netcdf(path, engine="scipy")
        elif target.suffix == ".npz":
            arrays = {str(name): v.values for name, v in dataset.variables.items()}
            np.savez(path, allow_pickle=False, **arrays)
        else:
            frame = dataset.to_dataframe().dropna().reset_index()
            frame[[*dataset.coords, *dataset]].to_csv(path, index=False)
    return target


def _split(results: Path, name: str) -> tuple[Path, Path]:
    """Return the directory of results and the file; `results` is either of them."""
    return (results, results / name) if results.is_dir() else (results.parent, results)


def _load_saved(results: Path) -> tuple[Example, Solution | Evolution, Path]:
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
        is_single = isinstance(solution, Solution)
        message = solution.message if is_single else "Some time windows have not converged."
        typer.echo(f"This solution has not converged. {message}", err=True)
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
        typer.echo(
            f"  error of {field}: {error['l2']:.2e} rms ({error['relative']:.2g} relative), "
            f"{error['linf']:.2e} max{deviation}"
        )
    if result.posterior is not None:
        for name, estimate in result.posterior.parameters.items():
            truth = result.example.parameters.get(name)
            typer.echo(f"  {name} = {estimate!r}{'' if truth is None else f'; truth {truth:.5g}'}")
        for condition, value in result.posterior.chi_squared.items():
            typer.echo(f"  chi-squared of {condition}: {value:.2f} per datum")
    if isinstance(result.solution, Solution):
        seconds = report["seconds"]
        typer.echo(f"  {seconds['compile']:.1f} s compiling, {seconds['run']:.1f} s running")
