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

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object; errors too.")]
Out = Annotated[Path | None, typer.Option(help="Directory for results; made if need be.")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers: points, data, weights.")]
Source = Annotated[
    str, typer.Argument(metavar="NAME|FILE.py", help="A gallery problem, or a file with yours.")
]
Results = Annotated[
    Path, typer.Argument(metavar="DIR|FILE", help="What --out was, or a file in it.")
]
At = Annotated[list[str] | None, typer.Option(help="COORDINATE=VALUE to hold; may be repeated.")]
Points = Annotated[list[str] | None, typer.Option(help="CONDITION=COUNT; may be repeated.")]
Lengthscale = Annotated[float | None, typer.Option(help="Of the kernel; learning begins with it.")]
Optimizer = Annotated[str, typer.Option(help="default, or adam for the published algorithm.")]
Resolution = Annotated[int | None, typer.Option(help="Points along each coordinate.")]
MaxSteps = Annotated[
    int | None,
    typer.Option(help="Largest number of steps: of learning, or of Gauss-Newton with --no-learn."),
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
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which.")
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
            help="Learn the kernel first: yes, unless --accuracy is given or time is in windows.",
            show_default=False,
        ),
    ] = None,
    accuracy: Annotated[
        float | None, typer.Option(help="Relative error; points and kernel are chosen for it.")
    ] = None,
    points: Points = None,
    seed: Seed = 0,
    out: Out = None,
    lengthscale: Lengthscale = None,
    kernels: Annotated[
        str | None, typer.Option(help="File of hyperparameters to begin with.")
    ] = None,
    save_kernels: Annotated[
        str | None, typer.Option(help="File to keep the hyperparameters in.")
    ] = None,
    optimizer: Optimizer = "default",
    max_steps: MaxSteps = None,
    sampling: Annotated[
        str | None, typer.Option(help="uniform, as in the paper, sobol, halton, poisson, grid.")
    ] = None,
    method: Annotated[str, typer.Option(help="damped or plain Gauss-Newton.")] = "damped",
    nugget: Annotated[
        float | None, typer.Option(help="Relative to the diagonal; 1e-12, with data 1e-10.")
    ] = None,
    refinement: Annotated[int, typer.Option(help="Sweeps of iterative refinement.")] = 2,
    as_json: Json = False,
) -> None:
    """Solve a problem, its kernel learned, and compare with its reference if it has one.

    With --out the solution, a report and pictures are kept, and the state after every step of
    learning or window of time: the same command, or `kernelpde resume`, goes on after an
    interruption.
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
        int | None, typer.Option(help="Another limit, for a run that ended at its own.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Continue a run that was stopped: the result is the same as without the stop."""
    from kernelpde.cli._results import resumed

    resumed(results, max_steps, as_json)


@app.command()
def plot(
    results: Results,
    at: At = None,
    out: Out = None,
    resolution: Resolution = None,
    animate: Annotated[
        bool, typer.Option("--animate", help="Also a GIF over time, of one field or several.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Plot a saved solution: fields, errors, standard deviations, residuals, lengthscales.

    Pictures that are there already stay: new ones get a number.
    """
    from kernelpde.cli._results import plotted

    held = _pairs(at, float, "COORDINATE=VALUE", "z=0.5")
    written = plotted(results, out, held, resolution, animate)
    typer.echo(json.dumps([str(p) for p in written]) if as_json else "\n".join(map(str, written)))


@app.command(name="export")
def write_export(
    results: Results,
    target: Annotated[Path, typer.Argument(help="Ends in .npz, .csv, .nc, .vtu.")],
    at: At = None,
    resolution: Resolution = None,
    as_json: Json = False,
) -> None:
    """Write a saved solution for another program."""
    from kernelpde.cli._results import exported

    path = exported(results, target, _pairs(at, float, "COORDINATE=VALUE", "z=0.5"), resolution)
    typer.echo(json.dumps({"written": str(path)}) if as_json else f"{path}")


@app.command()
def examples(
    group: Annotated[str | None, typer.Option(help="Only those of a group.")] = None,
    as_json: Json = False,
) -> None:
    """List the gallery."""
    from kernelpde.cli._facts import listed_examples

    listed_examples(group, as_json)


@app.command()
def doctor(
    rows: Annotated[int | None, typer.Option(help="Number of conditions times points.")] = None,
    as_json: Json = False,
) -> None:
    """Report what this machine has, and what a problem of some size would take."""
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
    """Time a solve and a learning step here, in units of one LAPACK Cholesky factorization."""
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
            help="Of sensitivity, elliptic, elliptic-additive, schrodinger, gray-scott, eikonal, "
            "burgers, darcy.",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Minutes, with fewer points.")] = False,
    out: Annotated[Path, typer.Option(help="Directory for results and report.")] = Path("results"),
    as_json: Json = False,
) -> None:
    """Compute the tables of the paper and write them beside the published figures.

    What is in the directory already is not computed again.
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
