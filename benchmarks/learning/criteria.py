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
from kernelpde.gallery import Example, burgers, darcy, elliptic, gray_scott
from kernelpde.learning import (
    LearningOptions,
    LearningTask,
    data_conditions,
    init,
    loss_and_state,
    outer_residual,
)
from kernelpde.learning._inverse import _with_large_state_variance
from kernelpde.learning._outer import GaussianPrior
from kernelpde.learning._run import LearningRun, final_solve
from kernelpde.learning._starts import lengthscale_mask, theta_reference
from kernelpde.learning._state import LearningState
from kernelpde.learning._step import build_outer_problem, update_linearization


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


def task_of(name: str, example: Example, seed: int) -> LearningTask:
    """What searches lower: plain residuals held out, or with data what the default lowers."""
    problem = example.problem
    blocks = problem.collocate(example.training, seed=seed, sampling=example.sampling)
    data = data_conditions(problem)
    options = LearningOptions(
        kp.LeaveOneOutPredictive() if data else kp.HeldOut(),
        None,
        kp.LevenbergMarquardt(),
        kp.Automatic(nugget=1e-10, refinement_sweeps=0),
        seed,
        example.sampling,
    )
    method = kp.learning.Bilevel(final=final_of(name, example, seed))
    run = LearningRun(problem.with_field_scales(blocks), blocks, options, method, None, 0, None)
    run = _with_large_state_variance(run) or run
    return LearningTask.of(
        run.problem, run.point_sets, run.options, kp.learning.LevenbergMarquardt()
    )


def bounds_of(task: LearningTask) -> tuple[np.ndarray, np.ndarray]:
    """Lengthscales from a thirtieth of the domain to all of it; with data two deviations around
    what is expected before seeing them."""
    if isinstance(task.regularizer, GaussianPrior):
        center, spread = np.asarray(task.regularizer.center), np.asarray(task.regularizer.sigma)
        return center - 2 * spread, center + 2 * spread
    lengths, theta = lengthscale_mask(task.theta_map), task.theta_map.vector
    extent = theta_reference(task.theta_map, task.extents)
    low, high = (np.where(lengths, np.log(f) + extent, theta) for f in (1 / 30, 1.0))
    return low, high


class Search:
    """Trials of θ, each with an inner solve to its end."""

    def __init__(self, task: LearningTask):
        self.task, self.begin = task, init(task)
        self.middle = task.prior(np.mean(bounds_of(task), axis=0))
        self.best: tuple[float, LearningState] = (np.inf, self.begin)
        self.factorizations = self.trials = 0

    def trial(self, theta: np.ndarray) -> float:
        """The loss at the inner solution."""
        state, value = replace(self.begin, theta=theta), np.inf
        kernels = self.task.prior(theta)
        for _ in range(SETTLING):
            outer, state = build_outer_problem(self.task, state, self.middle)
            loss, reached = loss_and_state(jnp.asarray(theta), outer.loss)
            self.factorizations += 1
            value = float(loss) if bool(reached.succeeded) else np.inf
            if not np.isfinite(value):
                break
            state, progress = update_linearization(
                self.task, state, outer, kernels, reached, np.ones(1)
            )
            if float(progress.change) < SETTLED:
                break
        self.trials += 1
        if value < self.best[0]:
            self.best = value, state
        return value if np.isfinite(value) else 1e6

    def solved(self, name: str, example: Example, seed: int) -> kp.LearningResult:
        state = replace(self.best[1], result=kp.learning.RESULTS.converged)
        return final_solve(self.task, state, final_of(name, example, seed), None, throw=False)


def proposals(kind: str, task: LearningTask, seed: int) -> Generator[np.ndarray, float, None]:
    """θ after θ; what is sent back is its loss."""
    low, high = bounds_of(task)
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
    task = task_of(name, example, seed)
    search, source = Search(task), proposals(kind, task, seed)
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
            learned = search.solved(name, example, seed)
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
        task = task_of("elliptic", EXAMPLES["elliptic"](seed), seed)
        search, theta = Search(task), np.log([line["u lengthscale"]])
        search.trial(theta)
        loss = build_outer_problem(task, search.best[1], search.middle)[0].loss
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
