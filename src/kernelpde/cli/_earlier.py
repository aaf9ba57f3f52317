"""The words of the first edition; they go with the next release."""

from typing import Annotated

import typer

from kernelpde.cli._app import (
    Json,
    Lengthscale,
    MaxSteps,
    Optimizer,
    Out,
    Points,
    Seed,
    Source,
    app,
    solve,
)

Start = Annotated[float | None, typer.Option("--from", help="Now --lengthscale.")]


@app.command(hidden=True)
def run(
    source: Source,
    learning: Annotated[bool, typer.Option("--learn", help="Learn the kernel first.")] = False,
    lengthscale: Lengthscale = None,
    start: Start = None,
    optimizer: Optimizer = "default",
    seed: Seed = 0,
    points: Points = None,
    accuracy: Annotated[float | None, typer.Option(help="Relative error.")] = None,
    sampling: Annotated[str | None, typer.Option(help="As for solve.")] = None,
    nugget: Annotated[float | None, typer.Option(help="As for solve.")] = None,
    refinement: Annotated[int, typer.Option(help="As for solve.")] = 2,
    method: Annotated[str, typer.Option(help="As for solve.")] = "damped",
    steps: Annotated[int, typer.Option(help="Now --max-steps.")] = 50,
    max_steps: MaxSteps = None,
    kernels: Annotated[str | None, typer.Option(help="As for solve.")] = None,
    save: Annotated[str | None, typer.Option("--save-kernels", help="As for solve.")] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Now `kernelpde solve --no-learn`, or without --no-learn to learn the kernel."""
    _say("run", "solve" if learning else "solve --no-learn")
    solve(
        source,
        learning,
        accuracy,
        points,
        seed,
        out,
        lengthscale if start is None else start,
        kernels,
        save,
        optimizer,
        max_steps if learning else steps,
        sampling,
        method,
        nugget,
        refinement,
        as_json,
    )


@app.command(hidden=True)
def learn(
    source: Source,
    start: Start = None,
    optimizer: Optimizer = "default",
    seed: Seed = 0,
    points: Points = None,
    max_steps: MaxSteps = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Now `kernelpde solve`."""
    _say("learn", "solve")
    solve(
        source,
        True,
        points=points,
        seed=seed,
        out=out,
        lengthscale=start,
        optimizer=optimizer,
        max_steps=max_steps,
        as_json=as_json,
    )


def _say(word: str, now: str) -> None:
    typer.echo(
        f"kernelpde {word} is now kernelpde {now}; the old word goes with the next release.",
        err=True,
    )
