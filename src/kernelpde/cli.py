"""The command line: arguments in, one function call, text or JSON out."""

import inspect
import json
import sys
import time
from typing import Annotated, Any

try:
    import typer
except ImportError:  # pragma: no cover
    sys.exit("The kernelpde command needs the extra 'cli': pip install 'kernelpde[cli]'.")

import jax
import numpy as np

from kernelpde.bilevel import HeldOut, LearningRecord, data_conditions, learn, paper_adam
from kernelpde.errors import KernelPDEError
from kernelpde.gallery import EXAMPLES
from kernelpde.inference import posterior
from kernelpde.linalg import Dense
from kernelpde.problem import load_kernels, save_kernels
from kernelpde.solve import GaussNewton, LevenbergMarquardt, Record, solve

_FRESH = 10_000
"""What is added to the seed for the points of the final solve."""

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
    learning: Annotated[bool, typer.Option("--learn", help="Learn the kernel first.")] = False,
    start: Annotated[
        float | None, typer.Option("--from", help="Lengthscale to begin learning with.")
    ] = None,
    optimizer: Annotated[
        str, typer.Option(help="default, or adam for the published algorithm.")
    ] = "default",
    seed: Annotated[int, typer.Option(help="Of the random points.")] = 0,
    points: Annotated[
        list[str] | None, typer.Option(help="CONDITION=COUNT; may be repeated.")
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
    kernels: Annotated[
        str | None, typer.Option(help="File of hyperparameters to begin with.")
    ] = None,
    save: Annotated[
        str | None, typer.Option("--save-kernels", help="Where to keep the hyperparameters.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Solve a gallery problem with a given or a learned kernel, and compare with its reference.

    Points are those of the final solve, which are drawn anew after learning.
    """
    compiling = _compilation_clock()
    started = time.perf_counter()
    _one_of("problem", name, tuple(EXAMPLES))
    _one_of("method", method, ("damped", "plain"))
    _one_of("optimizer", optimizer, ("default", "adam"))
    begin = start if start is not None else lengthscale
    factory = EXAMPLES[name]
    settings: dict[str, Any] = {} if begin is None else {"lengthscale": begin}
    if "seed" in inspect.signature(factory).parameters:
        settings["seed"] = seed
    example = factory(**settings)
    problem = example.problem if kernels is None else load_kernels(kernels, example.problem)
    counts = {**example.points, **_counts(points or [])}
    sampling = example.sampling if sampling is None else sampling
    with_data = bool(data_conditions(problem))
    solver = Dense(
        nugget=example.nugget if nugget is None else nugget,
        refinement=0 if with_data else refinement,
    )
    quiet = as_json or not sys.stderr.isatty()
    learned = None
    if learning:
        published = optimizer == "adam"
        only_equation = {name: 0.0 for name in counts if name != "equation"}
        learned = learn(
            problem,
            {
                name: count * example.training.get(name, 1) // example.points.get(name, 1)
                for name, count in counts.items()
            },
            validation=HeldOut(batch=200, weights=only_equation) if published else None,
            optimizer=paper_adam() if published else None,
            starts=not published,
            method=GaussNewton() if published else LevenbergMarquardt(),
            tolerance=0.0 if published else 1e-3,
            solver=Dense(nugget=max(1e-10, solver.nugget), refinement=0),
            seed=seed,
            sampling=sampling,
            final=None if with_data else counts,
            final_seed=seed + _FRESH,
            final_solver=None if with_data else solver,
            throw=False,
            callback=None if quiet else _show_learning,
        )
        assert learned.solution is not None
        solution = learned.solution
    else:
        solution = solve(
            problem,
            counts,
            seed=seed,
            sampling=sampling,
            method=GaussNewton() if method == "plain" else LevenbergMarquardt(),
            solver=solver,
            max_steps=steps,
            throw=False,
            callback=None if quiet else _show,
        )
    if save is not None:
        save_kernels(save, solution.problem)
    errors = example.errors(solution)
    total = time.perf_counter() - started
    report = {
        "problem": name,
        "seed": seed,
        "points": counts,
        "hyperparameters": {
            field: {name: value.tolist() for name, value in values.items()}
            for field, values in solution.problem.hyperparameters.items()
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
    if learned is not None:
        report["learning"] = {
            "from": begin,
            "optimizer": optimizer,
            "factorisations": learned.factorisations,
            "steps": len(learned.history),
            "converged": learned.converged,
            "reason": learned.reason,
        }
    known = posterior(solution) if with_data and solution.converged else None
    if known is not None:
        report["chi_squared"] = known.chi_squared
        report["parameters"] = {
            field: {
                "mean": estimate.mean,
                "deviation": estimate.deviation,
                "interval": estimate.interval(),
                "truth": example.parameters.get(field),
            }
            for field, estimate in known.parameters.items()
        }
        report["deviations"] = {
            field: float(np.sqrt(np.mean(known[field].deviation(example.grid) ** 2)))
            for field in example.references
        }
    if as_json:
        typer.echo(json.dumps(report))
    else:
        typer.echo(repr(solution if learned is None else learned))
        for field, sizes in errors.items():
            known_to = "" if known is None else f"; known to {report['deviations'][field]:.2e} rms"
            typer.echo(
                f"  error of {field}: {sizes['l2']:.2e} rms ({sizes['relative']:.1%}), "
                f"{sizes['linf']:.2e} max{known_to}"
            )
        if known is not None:
            for field, estimate in known.parameters.items():
                typer.echo(f"  {field} = {estimate!r}; truth {example.parameters[field]:.5g}")
            for condition, value in known.chi_squared.items():
                typer.echo(f"  chi-squared of {condition}: {value:.2f} per datum")
        typer.echo(
            f"  {report['seconds']['compile']:.1f} s compiling, "
            f"{report['seconds']['run']:.1f} s running"
        )
    raise typer.Exit(0 if solution.converged else 1)


def _one_of(what: str, given: str, expected: tuple[str, ...]) -> None:
    if given not in expected:
        raise typer.BadParameter(f"Unknown {what} {given!r}; there are {', '.join(expected)}.")


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


def _show_learning(record: LearningRecord) -> None:
    if record.length is None:
        return
    values = "  ".join(
        f"{field}.{name} {value:.4g}"
        for field, found in record.hyperparameters.items()
        for name, value in found.items()
        if isinstance(value, float)
    )
    typer.echo(
        f"step {record.step}: {record.factorisations} factorisations  loss {record.loss:.2e}  "
        f"{values}  change {record.change:.1e}",
        err=True,
    )


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
