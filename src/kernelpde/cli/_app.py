"""The commands: arguments in, one function call, text or JSON out.

Exit codes: 0 if all is well, 1 if a computation ended without converging, 2 if something given
cannot be used, 130 if interrupted.
"""

import dataclasses
import json
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import jax
import typer

from kernelpde.archive import replacing, versions
from kernelpde.checking import one_of
from kernelpde.cli._bench import measured, show_times
from kernelpde.cli._doctor import diagnosis
from kernelpde.cli._facts import show_examples, show_facts
from kernelpde.cli._job import REPORT, RUN, SOLUTION, Job, Outcome, carried_out, job_of
from kernelpde.cli._windows import marched
from kernelpde.errors import InputError, KernelPDEError, SolveError
from kernelpde.export import FORMATS, export
from kernelpde.gallery import EXAMPLES, Example, groups
from kernelpde.gauss_newton import Solution, load_solution, solution_notes
from kernelpde.inference import posterior
from kernelpde.kernels import gibbs_in
from kernelpde.learning import data_conditions, read_notes
from kernelpde.reproduce import PARTS, reproduce

app = typer.Typer(
    help="Nonlinear PDEs with Gaussian processes that learn their own kernel.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Out = Annotated[Path | None, typer.Option(help="Directory for results; made if need be.")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers: points, data, weights.")]
Source = Annotated[
    str, typer.Argument(metavar="NAME|FILE.py", help="A gallery problem, or a file with yours.")
]
Results = Annotated[
    Path, typer.Argument(metavar="DIR|FILE", help="What --out was, or a file in it.")
]
At = Annotated[list[str] | None, typer.Option(help="COORDINATE=VALUE to hold; may be repeated.")]


def _show_version(asked: bool) -> bool:
    if asked:
        typer.echo(f"kernelpde {versions()['kernelpde']}")
        raise typer.Exit
    return asked


@app.callback()
def _root(
    verbose: Annotated[bool, typer.Option("--verbose", help="Log every step.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Nonlinear PDEs with Gaussian processes that learn their own kernel."""
    del version
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    # Which solver a large problem gets, and how long a step takes, is said in any case.
    logging.getLogger("kernelpde" if verbose else "kernelpde.linear_solvers").setLevel(logging.INFO)


@app.command()
def examples(
    group: Annotated[str | None, typer.Option(help="Only those of a group.")] = None,
    as_json: Json = False,
) -> None:
    """List the gallery."""
    by_group = groups()
    if group is not None:
        one_of("examples", "--group", group, tuple(by_group))
        by_group = {group: by_group[group]}
    found = {name: EXAMPLES[name]() for names in by_group.values() for name in names}
    if as_json:
        facts = {
            name: {"summary": e.summary, "points": dict(e.points), "training": dict(e.training)}
            for name, e in found.items()
        }
        typer.echo(json.dumps(facts))
        return
    show_examples(by_group, found)
    typer.echo("\nkernelpde run NAME solves one; kernelpde learn NAME learns its kernel first.")


@app.command()
def run(
    source: Source,
    learning: Annotated[bool, typer.Option("--learn", help="Learn the kernel first.")] = False,
    lengthscale: Annotated[float | None, typer.Option(help="Of the kernel.")] = None,
    start: Annotated[
        float | None, typer.Option("--from", help="Lengthscale to begin learning with.")
    ] = None,
    optimizer: Annotated[
        str, typer.Option(help="default, or adam for the published algorithm.")
    ] = "default",
    seed: Seed = 0,
    points: Annotated[
        list[str] | None, typer.Option(help="CONDITION=COUNT; may be repeated.")
    ] = None,
    accuracy: Annotated[
        float | None, typer.Option(help="Relative error; points and kernel are chosen for it.")
    ] = None,
    sampling: Annotated[
        str | None,
        typer.Option(help="uniform, as in the paper, sobol, halton, poisson, grid."),
    ] = None,
    nugget: Annotated[
        float | None, typer.Option(help="Relative to the diagonal; 1e-12, with data 1e-10.")
    ] = None,
    refinement: Annotated[int, typer.Option(help="Sweeps of iterative refinement.")] = 2,
    method: Annotated[str, typer.Option(help="damped or plain Gauss-Newton.")] = "damped",
    steps: Annotated[int, typer.Option(help="Largest number of Gauss-Newton steps.")] = 50,
    max_steps: Annotated[
        int | None, typer.Option(help="Largest number of steps of learning.")
    ] = None,
    kernels: Annotated[
        str | None, typer.Option(help="File of hyperparameters to begin with.")
    ] = None,
    save: Annotated[
        str | None, typer.Option("--save-kernels", help="Where to keep the hyperparameters.")
    ] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Solve a problem with a given or a learned kernel, and compare with its reference.

    Points are those of the final solve, which are drawn anew after learning. With --out the
    solution, a report and pictures are kept, and a learning run can be resumed.
    """
    job = Job(
        source=source,
        learning=learning,
        lengthscale=lengthscale if start is None else start,
        optimizer=optimizer,
        seed=seed,
        points=_pairs(points, int, "CONDITION=COUNT", "boundary=300"),
        sampling=sampling,
        nugget=nugget,
        refinement=refinement,
        method=method,
        steps=steps,
        max_steps=max_steps,
        kernels=kernels,
        accuracy=accuracy,
    )
    _carry_out(job, out, as_json, save)


@app.command()
def learn(
    source: Source,
    start: Annotated[
        float | None, typer.Option("--from", help="Lengthscale to begin with.")
    ] = None,
    optimizer: Annotated[
        str, typer.Option(help="default, or adam for the published algorithm.")
    ] = "default",
    seed: Seed = 0,
    points: Annotated[
        list[str] | None, typer.Option(help="CONDITION=COUNT; may be repeated.")
    ] = None,
    max_steps: Annotated[int | None, typer.Option(help="Largest number of steps.")] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Learn the kernel of a problem while solving it.

    With --out the state is kept after every step: the same command, or `kernelpde resume`, goes on
    from there after an interruption, to the same result bit for bit.
    """
    job = Job(
        source=source,
        learning=True,
        lengthscale=start,
        optimizer=optimizer,
        seed=seed,
        points=_pairs(points, int, "CONDITION=COUNT", "boundary=300"),
        max_steps=max_steps,
    )
    _carry_out(job, out, as_json)


@app.command()
def resume(
    results: Results,
    max_steps: Annotated[
        int | None, typer.Option(help="Another limit, for a run that ended at its own.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Go on with a learning run that was stopped."""
    file = results / RUN if results.is_dir() else results
    job = job_of(read_notes(file), file)
    if max_steps is not None:
        job = dataclasses.replace(job, max_steps=max_steps)
    _carry_out(job, file.parent, as_json)


@app.command()
def plot(
    results: Results,
    at: At = None,
    out: Out = None,
    resolution: Annotated[int | None, typer.Option(help="Points along each coordinate.")] = None,
    as_json: Json = False,
) -> None:
    """Draw a solution that was kept: fields, errors, deviations, residuals, lengthscales."""
    example, solution, file = _kept(results)
    held = _pairs(at, float, "COORDINATE=VALUE", "z=0.5")
    written = _draw(example, solution, out or file.parent, held, resolution)
    typer.echo(json.dumps([str(p) for p in written]) if as_json else "\n".join(map(str, written)))


@app.command(name="export")
def write_export(
    results: Results,
    target: Annotated[Path, typer.Argument(help=f"Ends in {', '.join(FORMATS)}.")],
    at: At = None,
    resolution: Annotated[int | None, typer.Option(help="Points along each coordinate.")] = None,
    as_json: Json = False,
) -> None:
    """Write a solution that was kept for another program."""
    _, solution, _ = _kept(results)
    held = _pairs(at, float, "COORDINATE=VALUE", "z=0.5")
    path = export(solution, target, resolution=resolution, at=held or None)
    typer.echo(json.dumps({"written": str(path)}) if as_json else f"{path}")


@app.command()
def doctor(
    rows: Annotated[int | None, typer.Option(help="Number of conditions times points.")] = None,
    as_json: Json = False,
) -> None:
    """Say what this machine has, and what a problem of some size would take."""
    facts = diagnosis(rows)
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        show_facts(facts)
    raise typer.Exit(1 if facts.get("estimate", {}).get("fits") is False else 0)


@app.command()
def bench(
    rows: Annotated[int, typer.Option(help="Size of the system.")] = 1200,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Time a solve and a learning step here, in units of one LAPACK Cholesky."""
    facts = measured(rows, seed)
    if as_json:
        typer.echo(json.dumps(facts))
        return
    show_times(facts, rows)


@app.command(name="reproduce")
def run_reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help=f"Of {', '.join(PARTS)}.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Minutes, with fewer points.")] = False,
    out: Annotated[Path, typer.Option(help="Directory for results and report.")] = Path("results"),
    as_json: Json = False,
) -> None:
    """Compute the tables of the paper and write them beside the published figures.

    What is in the directory already is not computed again.
    """
    written = reproduce(
        names or (), quick=quick, out=out, say=lambda text: typer.echo(text, err=True)
    )
    typer.echo(json.dumps([str(p) for p in written]) if as_json else "\n".join(map(str, written)))


def _carry_out(job: Job, out: Path | None, as_json: bool, save: str | None = None) -> None:
    example = job.example()
    if example.windows > 1:
        marched(job, example, out, as_json, save)
    _finish(carried_out(job, out=out, quiet=as_json, save=save), out, as_json)


def _pairs(entries: list[str] | None, kind: type, form: str, such_as: str) -> dict[str, Any]:
    found = {}
    for entry in entries or []:
        name, _, value = entry.partition("=")
        try:
            found[name] = kind(value)
        except ValueError as error:
            raise InputError(f"Expected {form}, such as {such_as}; got {entry}.") from error
    return found


def _kept(results: Path) -> tuple[Example, Solution, Path]:
    file = results / SOLUTION if results.is_dir() else results
    example = job_of(solution_notes(file), file).example()
    return example, load_solution(file, example.problem), file


def _draw(
    example: Example,
    solution: Solution,
    out: Path,
    at: Mapping[str, float],
    resolution: int | None = None,
) -> list[Path]:
    import matplotlib as mpl

    mpl.use("Agg")
    noisy = bool(data_conditions(solution.problem))
    references, held = example.references, at or None
    figures = {"solution": solution.plot(references=references, at=held, resolution=resolution)}
    if noisy and solution.converged:
        figures["posterior"] = posterior(solution).plot(references=references, at=held)
    if gibbs_in(solution.kernels):
        figures["lengthscales"] = solution.plot_lengthscales(at=held)
    figures["iteration"] = solution.history.plot()
    written = []
    for name, figure in figures.items():
        written.append(out / f"{name}.png")
        with replacing(written[-1]) as beside:
            figure.savefig(beside)
    return written


def _finish(outcome: Outcome, out: Path | None, as_json: bool) -> None:
    """Say what came of it, draw it, and leave with the exit code that belongs to it."""
    report, solution, learned = outcome.report, outcome.solution, outcome.learned
    if as_json:
        typer.echo(json.dumps(report))
    else:
        typer.echo(repr(solution if learned is None else learned))
        for field, sizes in report["errors"].items():
            deviation = report.get("deviations", {}).get(field)
            known_to = "" if deviation is None else f"; known to {deviation:.2e} rms"
            typer.echo(
                f"  error of {field}: {sizes['l2']:.2e} rms ({sizes['relative']:.2g} relative), "
                f"{sizes['linf']:.2e} max{known_to}"
            )
        if outcome.known is not None:
            for field, estimate in outcome.known.parameters.items():
                truth = outcome.example.parameters.get(field)
                typer.echo(
                    f"  {field} = {estimate!r}" + ("" if truth is None else f"; truth {truth:.5g}")
                )
            for condition, value in outcome.known.chi_squared.items():
                typer.echo(f"  chi-squared of {condition}: {value:.2f} per datum")
        seconds = report["seconds"]
        typer.echo(f"  {seconds['compile']:.1f} s compiling, {seconds['run']:.1f} s running")
    if out is not None:
        written = _draw(outcome.example, solution, out, {})
        if learned is not None:
            written.append(out / "learning.png")
            with replacing(written[-1]) as beside:
                learned.plot().savefig(beside)
        if not as_json:
            names = ", ".join(path.name for path in written)
            typer.echo(f"  in {out}: {names}, {SOLUTION}, {REPORT}")
    raise typer.Exit(0 if solution.converged else 1)


def main() -> None:
    """The `kernelpde` command."""
    jax.config.update("jax_enable_x64", True)
    try:
        app()
    except InputError as error:
        typer.echo(f"kernelpde: {error}", err=True)
        sys.exit(2)
    except SolveError as error:
        typer.echo(f"kernelpde: {error}", err=True)
        sys.exit(1)
    except KernelPDEError as error:
        typer.echo(f"kernelpde: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("kernelpde: interrupted; with --out, the same command goes on.", err=True)
        sys.exit(130)
