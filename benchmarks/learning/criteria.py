"""Criteria for hyperparameters: held-out residuals, folds, evidence, kernel flows, searches.

    python -m benchmarks criteria [PROBLEM ...] [--seeds 0:10] [--only PLAN]
    python -m benchmarks criteria --shares

For each of elliptic, burgers, gray-scott and darcy all criteria learn at the same training points
and are judged by the error of one solve at the same final points, which are others. Random search
and tree-structured Parzen search (optuna, in this file alone) lower plain held-out residuals (with
data their density) after a converged inner solve for each trial; they end with as many
factorizations as learning by that criterion took on that seed, with as much CPU time, and with four
times as many factorizations. CPU seconds are warm: a seed that is not counted compiles everything
first. Run it on one core:

    taskset -c 0 env OPENBLAS_NUM_THREADS=1 python -m benchmarks criteria

`--shares`: how much of the plain loss the ten largest residuals are, at the stored results.
"""

# optuna is installed separately.
# pyright: reportMissingImports=false

import time
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import optuna

import kernelpde as kp
from benchmarks._report import load, parser, record, seeds
from kernelpde.bilevel import (
    GaussianPrior,
    State,
    Task,
    init,
    linearize,
    loss_and_solution,
    outer_residual,
)
from kernelpde.gallery import Example, burgers, darcy, elliptic, gray_scott
from kernelpde.learning import (
    Collocation,
    Phase,
    Setup,
    build_collocation,
    build_task,
    data_conditions,
    final_solve,
    with_state_priors,
)
from kernelpde.learning._starts import lengthscale_mask, theta_reference


def half(example: Example) -> Example:
    """With half of the points, for the sake of time."""
    return replace(
        example,
        points={name: count // 2 for name, count in example.points.items()},
        training={name: count // 2 for name, count in example.training.items()},
    )


EXAMPLES: dict[str, Callable[[int], Example]] = {
    "elliptic": lambda _: elliptic(1.0),
    "burgers": lambda _: burgers(kernel="matern"),
    "gray-scott": lambda _: half(gray_scott()),
    "darcy": lambda seed: darcy(seed=seed),
}
JUDGED = {"darcy": "a"}
"""The field whose error counts, and it is relative; rms of u elsewhere."""

PLANS: dict[str, dict[str, Any]] = {
    "default": {},
    "held out, plain": {"validation": kp.HeldOut()},
    "plain, at the nugget of the solve": {
        "validation": kp.HeldOut(),
        "linear_solver": kp.Automatic(),
    },
    "leave-one-out": {"validation": kp.KFold()},
    "evidence": {"validation": kp.learning.Evidence()},
    "kernel flow": {"validation": kp.learning.KernelFlow()},
}
FORWARD = ("held out, plain", "plain, at the nugget of the solve")
"""Not with data, whose density is the default."""

SEARCHED = dict.fromkeys(EXAMPLES, "held out, plain") | {"darcy": "default"}
"""With as many factorizations as which a search is compared."""

SETTLED, SETTLING = 1e-3, 15
"""An inner solve of a trial ends with a relative change below the first, or after so many steps."""

WARM_UP = 1000
"""A seed that compiles and is not counted."""


def error_of(name: str, example: Example, solution: kp.Solution) -> float:
    errors = example.errors(solution)
    return errors["a"]["relative"] if name in JUDGED else errors["u"]["l2"]


def final_of(name: str, example: Example, seed: int) -> kp.learning.FinalSolve:
    """The same points for all; with data those of training, which the data belong to."""
    if name in JUDGED:
        return kp.learning.FinalSolve()
    return kp.learning.FinalSolve(example.points, seed=seed + 500)


def by_plan(name: str, plan: dict[str, Any], seed: int) -> dict[str, Any]:
    """One run of `learn`."""
    example, begin = EXAMPLES[name](seed), time.process_time()
    learned = kp.learn(
        example.problem,
        example.training,
        **plan,
        method=kp.learning.Bilevel(final=final_of(name, example, seed)),
        seed=seed,
        sampling=example.sampling,
        throw=False,
    )
    return {
        "error": error_of(name, example, learned.solution),
        "factorizations": learned.factorizations,
        "CPU seconds": time.process_time() - begin,
        "learned": learned.converged,
        "solved": learned.solution.converged,
        **{
            f"{field} {key}": value
            for field, values in learned.problem.hyperparameters.items()
            for key, value in values.items()
        },
    }


def setup_of(name: str, example: Example, seed: int) -> Setup:
    """What searches lower: plain residuals held out, or with data what the default lowers."""
    problem = example.problem
    blocks = problem.collocate(example.training, seed=seed, sampling=example.sampling)
    data = data_conditions(problem)
    return with_state_priors(
        Setup(
            problem.with_field_scales(blocks),
            blocks,
            kp.LeaveOneOutPredictive() if data else kp.HeldOut(),
            kp.learning.Bilevel(final=final_of(name, example, seed)),
            kp.Automatic(nugget=1e-10, refinement_sweeps=0),
            seed,
            example.sampling,
        )
    )


def bounds_of(task: Task, inner: Collocation) -> tuple[np.ndarray, np.ndarray]:
    """Lengthscales from a thirtieth of the domain to all of it; with data two deviations around
    what is expected before seeing them."""
    if isinstance(task.regularizer, GaussianPrior):
        center, spread = np.asarray(task.regularizer.center), np.asarray(task.regularizer.sigma)
        return center - 2 * spread, center + 2 * spread
    theta_map, theta = inner.theta_map, task.theta
    lengths, extent = lengthscale_mask(theta_map), theta_reference(theta_map, inner.extents)
    low, high = (np.where(lengths, np.log(f) + extent, theta) for f in (1 / 30, 1.0))
    return low, high


class Search:
    """Trials of θ, each with an inner solve to its end."""

    def __init__(self, setup: Setup):
        self.setup, self.inner = setup, build_collocation(setup)
        self.task = build_task(setup, self.inner)
        self.begin = init(self.task)
        self.middle = np.mean(bounds_of(self.task, self.inner), axis=0)
        self.best: tuple[float, State] = (np.inf, self.begin)
        self.factorizations = self.trials = 0

    def trial(self, theta: np.ndarray) -> float:
        """The loss at the inner solution."""
        state, value, inner = replace(self.begin, theta=theta), np.inf, self.inner
        for _ in range(SETTLING):
            objective, state = linearize(self.task, self.middle, state)
            loss, reached = loss_and_solution(jnp.asarray(theta), objective)
            self.factorizations += 1
            linearized = objective.linearized
            value = float(loss) if bool(linearized.is_usable(reached)) else np.inf
            if not np.isfinite(value):
                break
            progress = inner.update(theta, linearized, reached, state.inner, np.ones(1))
            state = replace(state, inner=progress.state)
            if progress.change < SETTLED:
                break
        self.trials += 1
        if value < self.best[0]:
            self.best = value, state
        return value if np.isfinite(value) else 1e6

    def solved(self) -> kp.LearningResult:
        state = replace(self.best[1], result=kp.RESULTS.converged)
        return final_solve(self.setup, Phase(self.inner, state, (), ()), throw=False)


def proposals(kind: str, search: Search, seed: int) -> Generator[np.ndarray, float, None]:
    """θ after θ; what is sent back is its loss."""
    low, high = bounds_of(search.task, search.inner)
    free = high > low + 1e-9
    if kind == "random search":
        rng = np.random.default_rng([seed, 3])
        while True:
            yield np.where(free, low + (high - low) * rng.random(len(low)), low)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    while True:
        trial = study.ask()
        theta = [
            trial.suggest_float(str(i), a, b) if f else a
            for i, (a, b, f) in enumerate(zip(low, high, free, strict=True))
        ]
        loss = yield np.asarray(theta)
        study.tell(trial, loss)


def by_search(name: str, kind: str, seed: int, of_default: dict[str, Any]) -> dict[str, Any]:
    """One search, looked at when each budget is used up."""
    example, begin = EXAMPLES[name](seed), time.process_time()
    search = Search(setup_of(name, example, seed))
    source = proposals(kind, search, seed)
    theta, runs, aside = next(source), {}, 0.0
    budgets = {
        "equal factorizations": lambda _: search.factorizations >= of_default["factorizations"],
        "equal CPU time": lambda spent: spent >= of_default["CPU seconds"],
        "four times the factorizations": (
            lambda _: search.factorizations >= 4 * of_default["factorizations"]
        ),
    }
    while len(runs) < len(budgets):
        loss = search.trial(theta)
        theta = source.send(loss)
        for budget, used_up in budgets.items():
            spent = time.process_time() - begin - aside
            if budget in runs or not used_up(spent):
                continue
            pause = time.process_time()
            learned = search.solved()
            last = time.process_time() - pause
            aside += last
            runs[budget] = {
                "error": error_of(name, example, learned.solution),
                "factorizations": search.factorizations,
                "CPU seconds": spent + last,
                "trials": search.trials,
                "learned": True,
                "solved": learned.solution.converged,
            }
    return runs


def compare(name: str, seed: int, only: str | None) -> dict[str, dict[str, Any]]:
    """All criteria on one problem, or one plan."""
    done = {}
    for case, plan in PLANS.items():
        if only in (None, case) and not (name in JUDGED and case in FORWARD):
            done[case] = by_plan(name, plan, seed)
    for kind in ("random search", "Parzen search") if only is None else ():
        for budget, runs in by_search(name, kind, seed, done[SEARCHED[name]]).items():
            done[f"{kind}, {budget}"] = runs
    return done


def shares() -> None:
    """Record how much of the plain loss the ten largest of 1200 residuals are, at its minimum."""
    for line in load("criteria", case="elliptic: held out, plain"):
        seed = line["seed"]
        search = Search(setup_of("elliptic", EXAMPLES["elliptic"](seed), seed))
        theta = np.log([line["u lengthscale"]])
        search.trial(theta)
        loss, _ = linearize(search.task, search.middle, search.best[1])
        squares = np.sort(np.asarray(outer_residual(jnp.asarray(theta), loss)[0]) ** 2)
        record(
            "criteria",
            {
                "case": "share of the ten largest residuals",
                "seed": seed,
                "rows": len(squares),
                "share": squares[-10:].sum() / squares.sum(),
            },
        )


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("problems", nargs="*", help=f"of {', '.join(EXAMPLES)}")
    command.add_argument("--seeds", type=seeds, default="0:10")
    command.add_argument("--only", choices=list(PLANS))
    command.add_argument("--shares", action="store_true")
    options = command.parse_args(arguments)
    if options.shares:
        return shares()
    for name in options.problems or EXAMPLES:
        compare(name, WARM_UP, options.only)
        for seed in options.seeds:
            for criterion, figures in compare(name, seed, options.only).items():
                line = {"case": f"{name}: {criterion}", "seed": seed, "problem": name}
                record("criteria", line | {"criterion": criterion} | figures)
    return None
