"""The command line: arguments in, one function call, text or JSON out."""

import json
import sys
import time
from typing import Annotated

try:
    import typer
except ImportError:  # pragma: no cover
    sys.exit("The kernelpde command needs the extra 'cli': pip install 'kernelpde[cli]'.")

import jax
import numpy as np

from kernelpde.errors import KernelPDEError
from kernelpde.gallery import EXAMPLES
from kernelpde.kernels import hyperparameters
from kernelpde.linalg import Dense
from kernelpde.solve import GaussNewton, LevenbergMarquardt, Record, solve

app = typer.Typer(
    help="Nonlinear PDEs with Gaussian processes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _root() -> None:
    """Nonlinear PDEs with Gaussian processes."""


@app.command()
def run(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(EXAMPLES)}.")],
    lengthscale: Annotated[float | None, typer.Option(help="Of the kernel.")] = None,
    seed: Annotated[int, typer.Option(help="Of the random points.")] = 0,
    points: Annotated[
        list[str] | None, typer.Option(help="CONDITION=COUNT; may be repeated.")
    ] = None,
    sampling: Annotated[
        str, typer.Option(help="uniform, as in the paper; sobol, halton, poisson, grid.")
    ] = ("uniform"),
    nugget: Annotated[float, typer.Option(help="Relative to the diagonal.")] = 1e-12,
    refinement: Annotated[int, typer.Option(help="Sweeps of iterative refinement.")] = 2,
    method: Annotated[str, typer.Option(help="damped or plain Gauss-Newton.")] = "damped",
    steps: Annotated[int, typer.Option(help="Largest number of Gauss-Newton steps.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Solve a gallery problem with a given kernel, and compare with its reference."""
    compiling = _compilation_clock()
    started = time.perf_counter()
    if name not in EXAMPLES:
        raise typer.BadParameter(f"Unknown problem {name!r}; there are {', '.join(EXAMPLES)}.")
    if method not in ("damped", "plain"):
        raise typer.BadParameter(f"Unknown method {method!r}; expected damped or plain.")
    example = EXAMPLES[name](**({} if lengthscale is None else {"lengthscale": lengthscale}))
    counts = {**example.points, **_counts(points or [])}
    solution = solve(
        example.problem,
        counts,
        seed=seed,
        sampling=sampling,
        method=GaussNewton() if method == "plain" else LevenbergMarquardt(),
        solver=Dense(nugget=nugget, refinement=refinement),
        max_steps=steps,
        throw=False,
        callback=None if as_json or not sys.stderr.isatty() else _show,
    )
    errors = example.errors(solution)
    total = time.perf_counter() - started
    report = {
        "problem": name,
        "seed": seed,
        "points": counts,
        "hyperparameters": {
            field.name: {k: v.tolist() for k, v in hyperparameters(field.kernel).items()}
            for field in example.problem.fields
        },
        "errors": errors,
        "residuals": solution.residuals,
        "nugget": solution.nugget,
        "condition": solution.condition,
        "iterations": solution.steps,
        "converged": solution.converged,
        "reason": solution.reason,
        "seconds": {"compile": compiling(), "run": total - compiling()},
    }
    if as_json:
        typer.echo(json.dumps(report))
    else:
        typer.echo(repr(solution))
        for field, sizes in errors.items():
            typer.echo(f"  error of {field}: {sizes['l2']:.2e} rms, {sizes['linf']:.2e} max")
        typer.echo(
            f"  {report['seconds']['compile']:.1f} s compiling, "
            f"{report['seconds']['run']:.1f} s running"
        )
    raise typer.Exit(0 if solution.converged else 1)


def _counts(entries: list[str]) -> dict[str, int]:
    counts = {}
    for entry in entries:
        name, _, count = entry.partition("=")
        if not count.isdigit():
            raise typer.BadParameter(
                f"Expected CONDITION=COUNT, such as boundary=300; got {entry}."
            )
        counts[name] = int(count)
    return counts


def _show(record: Record) -> None:
    sizes = "  ".join(f"{name} {size:.2e}" for name, size in record.residuals.items())
    how = (
        ""
        if record.length == 1 and not record.damping
        else (f"  length {record.length:.3g} damping {record.damping:.0e}")
    )
    typer.echo(f"step {record.step}: residuals {sizes}  change {record.change:.1e}{how}", err=True)


def _compilation_clock():
    """Start counting the seconds that JAX spends tracing and compiling; returns the count."""
    seconds = []

    def listen(event: str, duration_secs: float, **metadata: str | int) -> None:
        del metadata
        if event.startswith("/jax/core/compile/"):
            seconds.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    return lambda: float(np.sum(seconds))


def main() -> None:
    """The `kernelpde` command."""
    jax.config.update("jax_enable_x64", True)
    try:
        app()
    except KernelPDEError as error:
        sys.exit(f"kernelpde: {error}")
