"""The commands: arguments in, one function call, text or JSON out.

Exit codes: 0 if all is well, 1 if a computation ended without converging, 2 if something given
cannot be used, 130 if interrupted. Commands import what they need themselves: `--help` does not
wait for JAX.
"""

import json
import logging
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelpde import __version__
from kernelpde.errors import InputError

app = typer.Typer(
    help="Nonlinear PDEs with Gaussian processes that learn their own kernel.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, also for errors.")]
Out = Annotated[Path | None, typer.Option(help="Directory for the results; created if missing.")]
Seed = Annotated[int, typer.Option(help="Random seed for points, data and weights.")]
Source = Annotated[
    str, typer.Argument(metavar="NAME|FILE.py", help="A problem of the gallery, or a Python file.")
]
Results = Annotated[
    Path, typer.Argument(metavar="DIR|FILE", help="The directory of --out, or a file in it.")
]
At = Annotated[list[str] | None, typer.Option(help="COORDINATE=VALUE of a slice; may be repeated.")]
Points = Annotated[
    list[str] | None, typer.Option(help="Number of points, CONDITION=COUNT; may be repeated.")
]
Lengthscale = Annotated[
    float | None, typer.Option(help="Lengthscale of the kernel; learning starts there.")
]
Optimizer = Annotated[str, typer.Option(help="default, or adam for the published algorithm.")]
Resolution = Annotated[int | None, typer.Option(help="Points along each coordinate.")]
MaxSteps = Annotated[
    int | None,
    typer.Option(
        help="Maximum number of learning steps, or of Gauss-Newton steps with --no-learn."
    ),
]


def _show_version(asked: bool) -> bool:
    if asked:
        typer.echo(f"kernelpde {__version__}")
        raise typer.Exit
    return asked


@app.callback()
def _root(
    verbose: Annotated[bool, typer.Option("--verbose", help="Log every step.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Nonlinear PDEs with Gaussian processes that learn their own kernel."""
    del version
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    # Which solver a large problem gets, and how long a step takes, is said in any case.
    logging.getLogger("kernelpde" if verbose else "kernelpde.linear_solvers").setLevel(logging.INFO)


@app.command()
def solve(
    source: Source,
    learn: Annotated[
        bool | None,
        typer.Option(
            "--learn/--no-learn",
            help="Learn the kernel first. Default: yes, unless --accuracy is given or time is "
            "split into windows.",
            show_default=False,
        ),
    ] = None,
    accuracy: Annotated[
        float | None,
        typer.Option(help="Relative error to reach; points and kernel are chosen for it."),
    ] = None,
    points: Points = None,
    seed: Seed = 0,
    out: Out = None,
    lengthscale: Lengthscale = None,
    kernels: Annotated[
        str | None, typer.Option(help="File of hyperparameters to start from.")
    ] = None,
    save_kernels: Annotated[
        str | None, typer.Option(help="File to save the hyperparameters to.")
    ] = None,
    optimizer: Optimizer = "default",
    max_steps: MaxSteps = None,
    sampling: Annotated[
        str | None,
        typer.Option(help="Points: halton, sobol, poisson, grid, or uniform (the paper)."),
    ] = None,
    method: Annotated[str, typer.Option(help="Gauss-Newton: damped or plain.")] = "damped",
    nugget: Annotated[
        float | None,
        typer.Option(help="Relative to the diagonal. Default: 1e-12, with data 1e-10."),
    ] = None,
    refinement: Annotated[int, typer.Option(help="Sweeps of iterative refinement.")] = 2,
    as_json: Json = False,
) -> None:
    """Learn the kernel, solve the problem, and compare with its reference if it has one.

    With --out, the solution, a report and pictures are saved, and so is the state after every
    learning step or time window: after an interruption the same command, or `kernelpde resume`,
    continues from there.
    """
    from kernelpde.cli._results import finished

    finished(
        {
            "source": source,
            "learning": learn,
            "lengthscale": lengthscale,
            "optimizer": optimizer,
            "seed": seed,
            "points": _pairs(points, int, "CONDITION=COUNT", "boundary=300"),
            "sampling": sampling,
            "nugget": nugget,
            "refinement": refinement,
            "method": method,
            "max_steps": max_steps,
            "kernels": kernels,
            "accuracy": accuracy,
        },
        out,
        as_json,
        save_kernels,
    )


@app.command()
def resume(
    results: Results,
    max_steps: Annotated[
        int | None, typer.Option(help="A new limit, for a run that reached its own.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Continue an interrupted run. The result is the same as without the interruption."""
    from kernelpde.cli._results import resumed

    resumed(results, max_steps, as_json)


@app.command()
def plot(
    results: Results,
    at: At = None,
    out: Out = None,
    resolution: Resolution = None,
    animate: Annotated[bool, typer.Option("--animate", help="Also write a GIF over time.")] = False,
    as_json: Json = False,
) -> None:
    """Plot a saved solution: fields, errors, standard deviations, residuals, lengthscales.

    Existing pictures are kept: new ones get a number.
    """
    from kernelpde.cli._results import plotted

    held = _pairs(at, float, "COORDINATE=VALUE", "z=0.5")
    written = plotted(results, out, held, resolution, animate)
    typer.echo(json.dumps([str(p) for p in written]) if as_json else "\n".join(map(str, written)))


@app.command(name="export")
def write_export(
    results: Results,
    target: Annotated[Path, typer.Argument(help="File name, ending in .npz, .csv, .nc or .vtu.")],
    at: At = None,
    resolution: Resolution = None,
    as_json: Json = False,
) -> None:
    """Export a saved solution for another program."""
    from kernelpde.cli._results import exported

    path = exported(results, target, _pairs(at, float, "COORDINATE=VALUE", "z=0.5"), resolution)
    typer.echo(json.dumps({"written": str(path)}) if as_json else f"{path}")


@app.command()
def examples(
    group: Annotated[str | None, typer.Option(help="Only this group.")] = None,
    as_json: Json = False,
) -> None:
    """List the problems of the gallery."""
    from kernelpde.cli._facts import listed_examples

    listed_examples(group, as_json)


@app.command()
def doctor(
    rows: Annotated[
        int | None, typer.Option(help="Size of the system: residuals times points.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Report devices, precision and versions; with --rows, the memory and time of a size."""
    from kernelpde.cli._doctor import diagnosis
    from kernelpde.cli._facts import show_facts

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
    """Time a solve and a learning step on this machine, relative to one LAPACK Cholesky."""
    from kernelpde.cli._bench import measured, show_times

    facts = measured(rows, seed)
    if as_json:
        typer.echo(json.dumps(facts))
        return
    show_times(facts, rows)


@app.command(name="reproduce")
def run_reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="One or more of sensitivity, elliptic, elliptic-additive, schrodinger, "
            "gray-scott, eikonal, burgers, darcy.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer points: minutes instead of hours.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Directory for results and report.")] = Path("results"),
    as_json: Json = False,
) -> None:
    """Compute the tables of the paper and write them beside the published figures.

    Results that are in the directory already are not computed again.
    """
    from kernelpde.reproduce import reproduce

    written = reproduce(
        names or (), quick=quick, out=out, say=lambda text: typer.echo(text, err=True)
    )
    typer.echo(json.dumps([str(p) for p in written]) if as_json else "\n".join(map(str, written)))


def _pairs(entries: list[str] | None, kind: type, form: str, such_as: str) -> dict[str, Any]:
    found = {}
    for entry in entries or []:
        name, _, value = entry.partition("=")
        try:
            found[name] = kind(value)
        except ValueError as error:
            raise InputError(f"Expected {form}, such as {such_as}; got {entry}.") from error
    return found
