"""Draw the figures of the pages on the method and the measurements.

    python -m benchmarks figures [learning|inverse|rough|scaling|peers ...]

`scaling`, `peers` and the rank histograms of `inverse` only read results.
"""

from dataclasses import replace
from typing import Any

import jax
import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.colors import LogNorm
from scipy.special import ndtr
from scipy.stats import binom

import kernelpde as kp
from benchmarks._report import DOCS, column, load, parser
from benchmarks.inverse.laws import conductivity, reaction
from benchmarks.pages._peers import picture, problems
from benchmarks.pages._scaling import NAMES, case, solves
from kernelpde.bilevel import EvaluationLog, init, linearize, make_evaluate
from kernelpde.bilevel import step as take_step
from kernelpde.gallery import Example, burgers, darcy, eikonal, elliptic
from kernelpde.learning import Setup, build_collocation, build_task, starts_at_zero

FIGURES = DOCS / "figures"
STARTS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 3.0)
TRAINING = {"equation": 900, "boundary": 300}
STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "figure.dpi": 150,
}


def paths() -> None:
    """The lengthscale after every factorization, from seven starts."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    colors = mpl.colormaps["viridis"](np.linspace(0, 0.92, len(STARTS)))
    titles = {True: "default: starts compared first", False: "begin as given (multistart=False)"}
    for axis, (compare, title) in zip(axes, titles.items(), strict=True):
        for start, color in zip(STARTS, colors, strict=True):
            learned = kp.learn(
                elliptic(start).problem,
                TRAINING,
                method=kp.learning.Bilevel(
                    multistart=compare,
                    final=kp.learning.FinalSolve({"equation": 100, "boundary": 40}),
                ),
                sampling="uniform",
                throw=False,
            )
            steps = [
                (r.factorizations, r.hyperparameters["u"]["lengthscale"]) for r in learned.history
            ]
            made, lengthscales = zip((0, start), *steps, strict=True)
            axis.plot(made, lengthscales, "o-", ms=3, lw=1.4, color=color, label=f"{start:g}")
        axis.axhspan(0.1, 0.2, color="0.5", alpha=0.15, lw=0)
        axis.set(title=title, xlabel="factorizations", yscale="log")
    axes[0].set_ylabel("lengthscale")
    axes[1].legend(title="from", fontsize=8, title_fontsize=8, loc="lower right")
    figure.savefig(FIGURES / "learning-paths.png")
    plt.close(figure)


def landscape() -> None:
    """The outer loss over the lengthscale, at each Gauss-Newton step, and the error beside it."""
    problem = elliptic(1.0).problem
    blocks = problem.collocate(TRAINING, sampling="uniform")
    solver = kp.Dense(nugget=1e-10, refinement_sweeps=0)
    setup = Setup(problem, blocks, kp.HeldOut(), kp.learning.Bilevel(), solver, sampling="uniform")
    inner = build_collocation(setup)
    task = replace(build_task(setup, inner), starts=starts_at_zero(inner, inner.theta))
    lengthscales = np.geomspace(0.04, 1.5, 60)
    state = take_step(task, init(task))
    figure, (axis, beside) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for step, color in enumerate(mpl.colormaps["viridis"](np.linspace(0, 0.92, 5))):
        objective, state = linearize(task, np.log([0.2]), state)
        evaluate = make_evaluate(EvaluationLog.of(task, state), objective)
        values = [evaluate(np.log([at])).loss for at in lengthscales]
        axis.loglog(lengthscales, np.sqrt(values), color=color, lw=1.5, label=f"{step}")
        best = float(np.exp(state.theta[0]))
        if step:
            axis.plot(best, np.interp(best, lengthscales, np.sqrt(values)), "o", color=color, ms=5)
        state = take_step(task, state)
    axis.legend(title="Gauss-Newton step", fontsize=8, title_fontsize=8)
    axis.set(xlabel="lengthscale", ylabel="root of the outer loss", title="outer loss")
    errors = []
    for at in lengthscales[::2]:
        example = elliptic(float(at))
        solution = kp.solve(example.problem, TRAINING, sampling="uniform", throw=False)
        errors.append(example.errors(solution)["u"]["l2"])
    beside.loglog(lengthscales[::2], errors, "o-", ms=3, lw=1.2, color="#c2552d")
    beside.set(xlabel="lengthscale", ylabel="rms error of u", title="error of the solution")
    figure.savefig(FIGURES / "learning-landscape.png")
    plt.close(figure)


def inversion() -> None:
    """Truth, mean, standard deviation and error of both fields of the Darcy problem."""
    example = darcy(seed=1)
    learned = kp.learn(example.problem, example.training, seed=1, sampling="uniform")
    posterior = kp.posterior(learned)
    side = int(np.sqrt(len(example.grid)))
    data = np.asarray(learned.solution.point_sets[2].points)
    figure, rows = plt.subplots(2, 4, figsize=(11, 5.2), layout="constrained")
    titles = ("truth", "posterior mean", "posterior std", "error, absolute")
    for row, (field, label) in zip(rows, {"a": "a", "u": "u"}.items(), strict=True):
        truth = example.references[field](example.grid)
        mean = np.asarray(posterior[field].mean(example.grid))
        deviation = np.asarray(posterior[field].std(example.grid))
        error = np.abs(mean - truth)
        low, high = min(truth.min(), mean.min()), max(truth.max(), mean.max())
        spread = max(deviation.max(), error.max())
        panels = (
            (truth, (low, high), "viridis"),
            (mean, (low, high), "viridis"),
            (deviation, (0, spread), "magma"),
            (error, (0, spread), "magma"),
        )
        for axis, title, (values, limits, colors) in zip(row, titles, panels, strict=True):
            shown = axis.imshow(
                values.reshape(side, side).T,
                origin="lower",
                extent=(0, 1, 0, 1),
                vmin=limits[0],
                vmax=limits[1],
                cmap=colors,
            )
            figure.colorbar(shown, ax=axis, shrink=0.75, format="%.3g")
            axis.set(title=f"{label}: {title}", xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
            axis.title.set_fontsize(9)
            axis.grid(False)
        row[2].plot(data[:, 0], data[:, 1], ".", ms=3, color="white", alpha=0.8)
    figure.savefig(FIGURES / "inverse-darcy.png")
    plt.close(figure)


def unknown_laws() -> None:
    """A conductivity and a reaction with their bands, and where the equations ask for them."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.3), layout="constrained")
    cases = ((conductivity, "conductivity k(u)"), (reaction, "reaction R(u)"))
    for axis, (family, title) in zip(axes, cases, strict=True):
        problem, points, truth = family(np.random.default_rng([0, 77]))
        (law,) = problem.laws
        learned = kp.learn(problem, points)
        found: Any = kp.posterior(learned)[law.name]
        asked = np.asarray(learned.solution.law_arguments[law.name])
        at = np.linspace(asked.min(), asked.max(), 200)
        low, high = map(np.asarray, found.interval(at))
        axis.fill_between(at, low, high, color="#3b6fb5", alpha=0.25, lw=0, label="95%")
        axis.plot(at, np.asarray(found.mean(at)), color="#3b6fb5", lw=1.6, label="posterior mean")
        axis.plot(at, truth(at), "--", color="#c2552d", lw=1.4, label="truth")
        bottom = axis.get_ylim()[0]
        axis.plot(asked, np.full(asked.shape, bottom), "|", color="0.4", ms=7, label="asked for")
        axis.set(title=title, xlabel="u")
        axis.legend(fontsize=8)
    figure.savefig(FIGURES / "inverse-laws.png")
    plt.close(figure)


def calibration() -> None:
    """Rank histograms of the truth under the posterior, and what chance allows."""
    runs = load("inverse", case="coverage", converged=True)
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.9), layout="constrained")
    for axis, name in zip(axes, ("a", "load"), strict=True):
        ranks = ndtr(np.hstack(column(runs, f"{name} in deviations")))
        counts = np.histogram(ranks, bins=10, range=(0, 1))[0]
        expected, chance = counts.sum() / 10, binom(counts.sum(), 0.1)
        axis.axhspan(*chance.ppf([0.025, 0.975]), color="0.5", alpha=0.25, lw=0)
        axis.axhline(expected, color="0.3", lw=1)
        axis.bar(np.arange(10) + 0.5, counts, width=0.9, color="#3b6fb5")
        coverage = np.mean(column(runs, f"{name} in its 95% interval"))
        title = f"{'the ' if name == 'load' else ''}{name}: {coverage:.1%} within 95% intervals"
        axis.set(title=title, xticks=(0, 5, 10))
        axis.set_xticklabels(["0", "0.5", "1"])
        axis.set(xlabel="rank of the truth in its posterior", ylabel="cases")
    figure.savefig(FIGURES / "inverse-calibration.png")
    plt.close(figure)


def rough(example: Example, extent: tuple[float, float, float, float]) -> None:
    """Learned lengthscales, solution and error, one coordinate to the right and the other up."""
    learned = kp.learn(
        example.problem,
        example.training,
        method=kp.learning.Bilevel(
            final=kp.learning.FinalSolve(
                example.points, linear_solver=kp.Dense(nugget=example.nugget)
            )
        ),
        sampling=example.sampling,
        linear_solver=kp.Dense(nugget=max(example.nugget, 1e-10), refinement_sweeps=0),
        throw=False,
    )
    side = int(np.sqrt(len(example.grid)))
    kernels: Any = learned.kernels
    lengths = np.asarray(jax.vmap(kernels[0].lengthscale)(example.grid))
    values = np.asarray(learned.solution["u"](example.grid))
    error = np.abs(values - example.references["u"](example.grid))
    names = example.problem.frame.coordinates
    titles = (
        [f"lengthscale in {name}" for name in names] if lengths.shape[1] > 1 else ["lengthscale"]
    )
    signed = -values.min() > 0.1 * values.max()
    decades = LogNorm(error.max() * 1e-4, error.max(), clip=True)
    panels = [(lengths[:, i], title, "viridis", None) for i, title in enumerate(titles)]
    panels += [(values, "solution", "RdBu_r" if signed else "viridis", None)]
    panels += [(error, "error, absolute", "magma", decades)]
    figure, axes = plt.subplots(
        1, len(panels), figsize=(3.1 * len(panels), 2.9), layout="constrained"
    )
    for axis, (numbers, title, colors, norm) in zip(axes, panels, strict=True):
        shown = axis.imshow(
            numbers.reshape(side, side).T,
            origin="lower",
            extent=extent,
            aspect="auto",
            cmap=colors,
            norm=norm,
            interpolation="nearest",
        )
        figure.colorbar(shown, ax=axis, shrink=0.85, format=None if norm else "%.2g")
        axis.set(title=title, xlabel=names[0], ylabel=names[1])
        axis.grid(False)
    figure.savefig(FIGURES / f"rough-{example.name}.png")
    plt.close(figure)


def shock() -> None:
    rough(burgers(), (0, 1, -1, 1))


def kink() -> None:
    rough(eikonal(), (0, 1, 0, 1))


COLORS = {"dense": "0.45", "low rank": "#1f6f8b", "sparse": "#c2552d"}


def scaling() -> None:
    """Time, memory and error over the number of rows, and the gain of a second process."""
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained")
    shown = {
        "seconds": "whole solve, s",
        "gigabytes": "peak memory, GB",
        "l2": "rms error of u",
    }
    for axis, (key, title) in zip(axes, shown.items(), strict=False):
        for solver, label in NAMES.items():
            lines = solves(solver)
            style: Any = {"ms": 4, "lw": 1.5, "color": COLORS[solver], "label": label}
            axis.loglog(column(lines, "rows"), column(lines, key), "o-", **style)
        axis.set(title=title, xlabel="rows")
    axes[0].legend(fontsize=8)
    axis = axes[-1]
    for solver in ("low rank", "sparse"):
        seconds = [case(f"processes: {solver}, {count}")["seconds"] for count in (1, 2)]
        gains = [1.0, seconds[0] / seconds[1]]
        axis.plot([1, 2], gains, "o-", ms=4, lw=1.5, color=COLORS[solver], label=solver)
    axis.plot([1, 2], [1, 2], ":", color="0.5", label="ideal")
    axis.set(title="learning step, speed-up", xlabel="processes of one core", xticks=[1, 2])
    axis.legend(fontsize=8)
    figure.savefig(FIGURES / "scaling.png")
    plt.close(figure)


def peers() -> None:
    """Errors of several methods over their CPU time."""
    directory = FIGURES / "peers"
    directory.mkdir(exist_ok=True)
    for problem, cases in problems().items():
        picture(problem, cases, directory)


GROUPS = {
    "learning": (paths, landscape),
    "inverse": (inversion, unknown_laws, calibration),
    "rough": (shock, kink),
    "scaling": (scaling,),
    "peers": (peers,),
}


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("groups", nargs="*", metavar="GROUP")
    FIGURES.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        for group in command.parse_args(arguments).groups or GROUPS:
            for draw in GROUPS[group]:
                draw()
