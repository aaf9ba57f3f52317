"""Examples that go window by window in time."""

import json
import sys
from pathlib import Path

import typer

from kernelpde.archive import replacing
from kernelpde.cli._job import REPORT, Job
from kernelpde.errors import InputError
from kernelpde.evolve import march
from kernelpde.gallery import Example
from kernelpde.gauss_newton import Solution
from kernelpde.linear_solvers import Automatic


def marched(job: Job, example: Example, out: Path | None, as_json: bool) -> None:
    """Solve the windows one after another, say what came of it, draw it, and leave."""
    if job.accuracy is not None or job.optimizer != "default":
        raise InputError(
            f"{example.name} goes through {example.windows} windows of time: there is no "
            "--accuracy or --optimizer."
        )

    def progress(number: int, solution: Solution) -> None:
        if sys.stderr.isatty() and not as_json:
            text = f"window {number + 1} of {example.windows}: {solution.result.name}"
            typer.echo(text, err=True)

    evolution = march(
        example.problem,
        example.windows,
        {**example.points, **job.points},
        learning={"max_steps": job.max_steps} if job.learning else None,
        linear_solver=Automatic(nugget=job.nugget or example.nugget, refinement=job.refinement),
        seed=job.seed,
        sampling=job.sampling or example.sampling,
        throw=False,
        callback=progress,
    )
    errors = example.errors(evolution)
    report = {
        "problem": job.source,
        "seed": job.seed,
        "windows": example.windows,
        "errors": errors,
        "converged": evolution.converged,
        "reasons": [solution.reason for solution in evolution.solutions],
        "seconds": list(evolution.seconds),
    }
    if as_json:
        typer.echo(json.dumps(report))
    else:
        typer.echo(repr(evolution))
        for field, sizes in errors.items():
            typer.echo(f"  error of {field}: {sizes['l2']:.2e} rms, {sizes['relative']:.2g} rel.")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        with replacing(out / REPORT) as beside:
            beside.write_text(json.dumps(report, indent=2) + "\n")
        with replacing(out / "solution.png") as beside:
            evolution.plot(references=example.references).savefig(beside)
        if not as_json:
            typer.echo(f"  in {out}: solution.png, {REPORT}")
    raise typer.Exit(0 if evolution.converged else 1)
