"""Commands and their options.

Exit codes: 0 for success, 1 if a computation did not converge, 2 for invalid input, 130 if
interrupted. Each command imports its modules itself, so that `--help` does not import JAX.
"""

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from typer import Argument, Option

from kernelpde import __version__
from kernelpde.errors import InputError

_Content = TypeVar("_Content")
_Number = TypeVar("_Number", int, float)

app = typer.Typer(
    help="Nonlinear PDEs with Gaussian processes that learn their own kernel.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, Option("--json", help="Print one JSON object, also for errors.")]
Out = Annotated[Path | None, Option(help="Directory for the results; created if missing.")]
Seed = Annotated[int, Option(help="Random seed for points, data and weights.")]
Source = Annotated[
    str, Argument(metavar="NAME|FILE.py", help="Name of a gallery problem, or a Python file.")
]
Results = Annotated[Path, Argument(metavar="DIR|FILE", help="Directory of --out, or a file in it.")]
At = Annotated[list[str] | None, Option(help="COORDINATE=VALUE of a slice; may be repeated.")]
Points = Annotated[
    list[str] | None, Option(help="Number of points, CONDITION=COUNT; may be repeated.")
]
Learn = Annotated[
    bool | None,
    Option(
        "--learn/--no-learn",
        help="Learn the kernel hyperparameters before solving. Default: on, except with --accuracy "
        "or time windows.",
        show_default=False,
    ),
]
Rows = Annotated[int | None, Option(help="Number of rows: residuals times points.")]
Resolution = Annotated[int | None, Option(help="Points along each coordinate.")]


def _show_version(is_set: bool) -> bool:
    if is_set:
        typer.echo(f"kernelpde {__version__}")
        raise typer.Exit
    return is_set


@app.callback()
def _root(
    verbose: Annotated[bool, Option("--verbose", help="Log every step.")] = False,
    version: Annotated[
        bool,
        Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Nonlinear PDEs with Gaussian processes that learn their own kernel."""
    del version
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    # The choice of the linear solver for a large problem is always logged.
    logging.getLogger("kernelpde" if verbose else "kernelpde.linear_solvers").setLevel(logging.INFO)


@app.command()
def solve(
    source: Source,
    learn: Learn = None,
    accuracy: Annotated[
        float | None, Option(help="Target relative error. Selects points and kernel automatically.")
    ] = None,
    points: Points = None,
    seed: Seed = 0,
    out: Out = None,
    lengthscale: Annotated[
        float | None, Option(help="Lengthscale of the kernel, the initial one of learning.")
    ] = None,
    kernels: Annotated[str | None, Option(help="File of initial hyperparameters.")] = None,
    save_kernels: Annotated[str | None, Option(help="File for the final hyperparameters.")] = None,
    optimizer: Annotated[str, Option(help="default, or adam (the paper).")] = "default",
    max_steps: Annotated[
        int | None,
        Option(help="Maximum number of learning steps, or of solver steps with --no-learn."),
    ] = None,
    sampling: Annotated[
        str | None, Option(help="Points: halton, sobol, poisson, grid, or uniform (the paper).")
    ] = None,
    method: Annotated[str, Option(help="Gauss-Newton: damped or plain.")] = "damped",
    nugget: Annotated[
        float | None, Option(help="Relative nugget. Default: 1e-12, with data 1e-10.")
    ] = None,
    refinement: Annotated[int, Option(help="Sweeps of iterative refinement.")] = 2,
    as_json: Json = False,
) -> None:
    """Learn the kernel, solve the problem, and compare with its reference if there is one.

    With --out, the solution, a report and plots are saved. The state is saved after every learning
    step or time window: after an interruption, the same command or `kernelpde resume` continues.
    """
    from kernelpde.cli._job import Job
    from kernelpde.cli._results import run_and_report

    job = Job(
        source=source,
        learn=learn,
        lengthscale=lengthscale,
        optimizer=optimizer,
        seed=seed,
        points=_parse_pairs(points, int, "CONDITION=COUNT", "boundary=300"),
        sampling=sampling,
        nugget=nugget,
        refinement=refinement,
        method=method,
        max_steps=max_steps,
        kernels=kernels,
        accuracy=accuracy,
    )
    run_and_report(job, out, as_json, save_kernels)


@app.command()
def resume(
    results: Results,
    max_steps: Annotated[
        int | None, Option(help="New maximum number of steps, to extend a finished run.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Continue an interrupted run. The result is the same as without the interruption."""
    from kernelpde.cli._results import resume_job

    resume_job(results, max_steps, as_json)


@app.command()
def plot(
    results: Results,
    at: At = None,
    out: Out = None,
    resolution: Resolution = None,
    animate: Annotated[bool, Option("--animate", help="Also write a GIF over time.")] = False,
    as_json: Json = False,
) -> None:
    """Plot a saved solution: fields, errors, standard deviations, residuals, lengthscales.

    Existing plots are kept: new files get a number.
    """
    from kernelpde.cli._results import plot_saved

    fixed = _parse_slice(at)
    written = plot_saved(results, out, at=fixed, resolution=resolution, animate=animate)
    _print_paths(written, as_json)


@app.command(name="export")
def write_export(
    results: Results,
    target: Annotated[Path, Argument(help="File name, ending in .npz, .csv, .nc or .vtu.")],
    at: At = None,
    resolution: Resolution = None,
    as_json: Json = False,
) -> None:
    """Export a saved solution for other programs."""
    from kernelpde.cli._results import load_saved
    from kernelpde.io import write_fields

    _, solution, _ = load_saved(results)
    path = write_fields(solution, target, _parse_slice(at), resolution)
    _print_result({"written": str(path)}, lambda result: typer.echo(result["written"]), as_json)


@app.command()
def examples(
    group: Annotated[str | None, Option(help="Only this group.")] = None,
    as_json: Json = False,
) -> None:
    """List the problems of the gallery."""
    from kernelpde.cli._examples import list_examples, print_examples

    _print_result(list_examples(group), print_examples, as_json)


@app.command()
def doctor(rows: Rows = None, as_json: Json = False) -> None:
    """Report devices, precision and versions; with --rows, the memory and time of a system."""
    from kernelpde.cli._machine import diagnose, print_diagnosis

    facts = diagnose(rows)
    _print_result(facts, print_diagnosis, as_json)
    raise typer.Exit(1 if facts.get("estimate", {}).get("fits") is False else 0)


@app.command()
def bench(
    rows: Annotated[int, Option(help="Number of rows.")] = 1200,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Time a solve and a learning step on this machine, relative to one LAPACK Cholesky."""
    from kernelpde.cli._machine import print_benchmark, run_benchmark

    _print_result(run_benchmark(rows, seed), print_benchmark, as_json)


@app.command(name="reproduce")
def run_reproduce(
    names: Annotated[
        list[str] | None,
        Argument(
            metavar="[NAME]...",
            help="One or more of sensitivity, elliptic, elliptic-additive, schrodinger, "
            "gray-scott, eikonal, burgers, darcy.",
        ),
    ] = None,
    quick: Annotated[bool, Option("--quick", help="Fewer points: minutes, not hours.")] = False,
    out: Annotated[Path, Option(help="Directory for results and report.")] = Path("results"),
    as_json: Json = False,
) -> None:
    """Compute the tables of the paper and compare them with the published figures.

    Results that the directory already contains are not computed again.
    """
    from kernelpde.reproduce import reproduce

    def print_progress(text: str) -> None:
        typer.echo(text, err=True)

    _print_paths(reproduce(names or (), quick=quick, out=out, log=print_progress), as_json)


def _print_paths(paths: list[Path], as_json: bool) -> None:
    names = [str(path) for path in paths]
    _print_result(names, lambda names: typer.echo("\n".join(names)), as_json)


def _print_result(content: _Content, print_text: Callable[[_Content], None], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(content))
    else:
        print_text(content)


def _parse_slice(at: list[str] | None) -> dict[str, float]:
    return _parse_pairs(at, float, "COORDINATE=VALUE", "z=0.5")


def _parse_pairs(
    pairs: list[str] | None, kind: Callable[[str], _Number], form: str, example: str
) -> dict[str, _Number]:
    values: dict[str, _Number] = {}
    for pair in pairs or []:
        name, _, value = pair.partition("=")
        try:
            values[name] = kind(value)
        except ValueError as error:
            raise InputError(f"Expected {form}, such as {example}; got {pair}.") from error
    return values
