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
from kernelpde.gauss_newton import GaussNewton, LevenbergMarquardt, Solution
from kernelpde.linear_solvers import Automatic
from kernelpde.problem import save_kernels


def marched(
    job: Job, example: Example, out: Path | None, as_json: bool, save: str | None = None
) -> None:
    """Solve the windows one after another, say what came of it, draw it, and leave."""
    other = {"accuracy": None, "optimizer": "default", "steps": 50}
    given = [f"--{name}" for name, usual in other.items() if getattr(job, name) != usual]
    if given:
        raise InputError(
            f"{example.name} goes through {example.windows} windows of time, by march, which has "
            f"no {' or '.join(given)}: leave it out, or call kernelpde.solve."
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
        solver=GaussNewton() if job.method == "plain" else LevenbergMarquardt(),
        linear_solver=Automatic(
            nugget=example.nugget if job.nugget is None else job.nugget, refinement=job.refinement
        ),
        seed=job.seed,
        sampling=job.sampling or example.sampling,
        throw=False,
        callback=progress,
    )
    if save is not None:
        save_kernels(save, evolution.problem)
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
            typer.echo(
                f"  error of {field}: {sizes['l2']:.2e} rms, {sizes['relative']:.2g} relative"
            )
    if out is not None:
        import matplotlib as mpl

        mpl.use("Agg")
        out.mkdir(parents=True, exist_ok=True)
        with replacing(out / REPORT) as beside:
            beside.write_text(json.dumps(report, indent=2) + "\n")
        with replacing(out / "solution.png") as beside:
            evolution.plot(references=example.references).savefig(beside)
        if not as_json:
            typer.echo(f"  in {out}: solution.png, {REPORT}")
    raise typer.Exit(0 if evolution.converged else 1)
