"""What a run leaves: text, JSON, files, pictures; and runs that are taken up again."""

import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import typer

from kernelpde.archive import replacing
from kernelpde.cli._job import JOB, REPORT, RUN, SOLUTION, Job, Outcome, carried_out, job_of, keep
from kernelpde.cli._live import LiveLine, live
from kernelpde.cli._windows import marched, windows_report
from kernelpde.errors import FileError, InputError
from kernelpde.evolve import Evolution
from kernelpde.exporting import export
from kernelpde.gallery import Example
from kernelpde.gauss_newton import Solution, load_solution, solution_notes
from kernelpde.inference import posterior
from kernelpde.kernels import gibbs_in
from kernelpde.learning import data_conditions, read_notes
from kernelpde.problem import save_kernels


def finished(
    given: Mapping[str, Any], out: Path | None, as_json: bool, save: str | None = None
) -> NoReturn:
    """Do what was asked, say what came of it, draw it, and leave with its exit code.

    **Arguments:**

    - `given`: a `Job`; `learning` may be `None` for what is usual.
    - `out`: a directory for everything that is kept.
    - `as_json`: whether to print JSON and nothing else.
    - `save`: a file for the hyperparameters.
    """
    asked: dict[str, Any] = dict(given) | {"learning": bool(given["learning"])}
    example = Job(**asked).example()
    windows = example.windows > 1
    if given["learning"] is None:
        asked["learning"] = given["accuracy"] is None and not windows
    job = Job(**asked)
    with _resumable(out), live(example.name, as_json or not sys.stderr.isatty()) as line:
        if windows:
            found, report, written = _windows(job, example, line, out, save)
        else:
            found = carried_out(job, example, line, out, save)
            report, written = found.report, _pictures(found, line, out)
    if as_json:
        typer.echo(json.dumps(report))
    else:
        _say(found, report)
        if out is not None:
            names = [path.name for path in written] + [REPORT] + [SOLUTION] * (not windows)
            typer.echo(f"  in {out}: {', '.join(names)}")
    raise typer.Exit(0 if report["converged"] else 1)


@contextmanager
def _resumable(out: Path | None) -> Iterator[None]:
    """Somebody who stops a run is told how it goes on."""
    try:
        yield
    except KeyboardInterrupt:
        how = (
            "nothing was kept; with --out DIR a run can be resumed"
            if out is None
            else f"continue with: kernelpde resume {out}"
        )
        typer.echo(f"kernelpde: interrupted; {how}.", err=True)
        raise typer.Exit(130) from None


def _windows(
    job: Job, example: Example, line: LiveLine, out: Path | None, save: str | None
) -> tuple[Evolution, dict[str, Any], list[Path]]:
    if out is not None:
        keep(out / JOB, dataclasses.asdict(job))
    evolution = marched(job, example, line, out)
    if save is not None:
        save_kernels(save, evolution.problem)
    report = windows_report(job, example, evolution)
    if out is None:
        return evolution, report, []
    line.phase("drawing")
    keep(out / REPORT, report)
    return evolution, report, _drawn(example, evolution, out, {})


def _pictures(outcome: Outcome, line: LiveLine, out: Path | None) -> list[Path]:
    if out is None:
        return []
    line.phase("drawing")
    written = _drawn(outcome.example, outcome.solution, out, {})
    if outcome.learned is not None:
        written.append(out / "learning.png")
        with replacing(written[-1]) as beside:
            outcome.learned.plot().savefig(beside)
    return written


def _drawn(
    example: Example,
    solution: Solution | Evolution,
    out: Path,
    at: Mapping[str, float],
    resolution: int | None = None,
    animate: bool = False,
    fresh: bool = False,
) -> list[Path]:
    """Draw everything there is of a solution; with `fresh`, beside pictures that are there."""
    import matplotlib as mpl

    mpl.use("Agg")
    references, held = example.references, at or None
    figures = {"solution": solution.plot(references=references, at=held, resolution=resolution)}
    if isinstance(solution, Solution):
        if data_conditions(solution.problem) and solution.converged:
            figures["posterior"] = posterior(solution).plot(references=references, at=held)
        if gibbs_in(solution.kernels):
            figures["lengthscales"] = solution.plot_lengthscales(at=held)
        if held is None:
            figures["iteration"] = solution.history.plot()
    written = []
    for name, figure in figures.items():
        written.append(_free(out, name, ".png") if fresh else out / f"{name}.png")
        with replacing(written[-1]) as beside:
            figure.savefig(beside)
    if animate:
        moving = solution.animate(references=references, at=held, resolution=resolution)
        written.append(moving.save(_free(out, "animation", ".gif")))
    return written


def _free(out: Path, name: str, ending: str) -> Path:
    """A file that is not there yet."""
    path, number = out / f"{name}{ending}", 1
    while path.exists():
        number += 1
        path = out / f"{name}-{number}{ending}"
    return path


def resumed(results: Path, max_steps: int | None, as_json: bool) -> NoReturn:
    """Go on with what is in a directory."""
    directory = results if results.is_dir() else results.parent
    if (directory / JOB).exists():
        job = _noted(directory / JOB)
    else:
        file = results / RUN if results.is_dir() else results
        job = job_of(read_notes(file), file)
    if max_steps is not None:
        job = dataclasses.replace(job, max_steps=max_steps)
    finished(dataclasses.asdict(job), directory, as_json)


def plotted(
    results: Path,
    out: Path | None,
    at: Mapping[str, float],
    resolution: int | None,
    animate: bool,
) -> list[Path]:
    """Draw what is in a directory."""
    example, solution, directory = _kept(results)
    _warn(solution)
    return _drawn(example, solution, out or directory, at, resolution, animate, fresh=True)


def exported(results: Path, target: Path, at: Mapping[str, float], resolution: int | None) -> Path:
    """Write what is in a directory to a file."""
    _, solution, _ = _kept(results)
    _warn(solution)
    return export(solution, target, resolution=resolution, at=dict(at) or None)


def _warn(found: Solution | Evolution) -> None:
    """Pictures and files do not say whether they can be trusted."""
    if not found.converged:
        why = found.reason if isinstance(found, Solution) else "Not all windows have converged."
        typer.echo(f"This solution has not converged. {why}", err=True)


def _kept(results: Path) -> tuple[Example, Solution | Evolution, Path]:
    directory = results if results.is_dir() else results.parent
    if (directory / JOB).exists():
        job = _noted(directory / JOB)
        example = job.example()
        there = len(list(directory.glob("window-*.kpde")))
        if there < example.windows:
            raise InputError(
                f"{directory}: {there} of {example.windows} windows are there; go on with "
                f"kernelpde resume {directory}."
            )
        return example, marched(job, example, LiveLine(example.name), directory), directory
    file = results / SOLUTION if results.is_dir() else results
    example = job_of(solution_notes(file), file).example()
    return example, load_solution(file, example.problem), directory


def _noted(path: Path) -> Job:
    try:
        facts = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: cannot be read ({error}).") from error
    return job_of({"job": facts}, path)


def _say(found: Outcome | Evolution, report: Mapping[str, Any]) -> None:
    """What came of it, for people."""
    whole = isinstance(found, Outcome)
    typer.echo(repr(found if not whole else found.learned or found.solution))
    for field, sizes in report["errors"].items():
        std = report.get("std", {}).get(field)
        known_to = "" if std is None else f"; standard deviation {std:.2e} rms"
        typer.echo(
            f"  error of {field}: {sizes['l2']:.2e} rms ({sizes['relative']:.2g} relative), "
            f"{sizes['linf']:.2e} max{known_to}"
        )
    if not whole:
        return
    if found.known is not None:
        for field, estimate in found.known.parameters.items():
            truth = found.example.parameters.get(field)
            typer.echo(
                f"  {field} = {estimate!r}" + ("" if truth is None else f"; truth {truth:.5g}")
            )
        for condition, value in found.known.chi_squared.items():
            typer.echo(f"  chi-squared of {condition}: {value:.2f} per datum")
    seconds = report["seconds"]
    typer.echo(f"  {seconds['compile']:.1f} s compiling, {seconds['run']:.1f} s running")
