"""What hyperparameters are chosen by: held-out residuals, folds, evidence, kernel flows, searches.

    python benchmarks/criteria.py [PROBLEM ...] [--seeds 0:10] [--only PLAN] [--page] [--shares]

For each of elliptic, burgers, gray-scott and darcy all criteria learn at the same training points
and are judged by the error of one solve at the same final points, which are others. Random search
and tree-structured Parzen search (optuna, in this file alone) lower plain held-out residuals (with
data their density) after a converged inner solve for each trial; they end with as many
factorizations as learning by that criterion took on that seed, with as much CPU time, and with four
times as many factorizations. CPU seconds are warm:
a seed that is not counted compiles everything first. Run it on one core:

    taskset -c 0 env OPENBLAS_NUM_THREADS=1 python benchmarks/criteria.py

writes `results/criteria-PROBLEM.json` after every run, beside the seeds it has; `--page` writes the
tables of `docs/criteria.md` from those files.
"""

# optuna is installed apart.
# pyright: reportMissingImports=false

import argparse
import json
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optuna
from _report import RESULTS, write

import kernelpde as kp
from kernelpde.gallery import Example, burgers, darcy, elliptic, gray_scott
from kernelpde.learning import data_conditions
from kernelpde.learning._evaluation import loss_and_state, outer_roots
from kernelpde.learning._from_data import _with_free_states
from kernelpde.learning._outer import Around
from kernelpde.learning._run import Run, finished
from kernelpde.learning._starts import lengthscales, relative_to
from kernelpde.learning._state import LearningState, init
from kernelpde.learning._step import moved_on, outer_loss_at
from kernelpde.learning._task import Options, Task

jax.config.update("jax_enable_x64", True)


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
        "seed": seed,
        "error": error_of(name, example, learned.solution),
        "factorizations": learned.factorizations,
        "cpu": time.process_time() - begin,
        "learned": learned.converged,
        "solved": learned.solution.converged,
        "theta": {
            field: {key: np.asarray(value).tolist() for key, value in values.items()}
            for field, values in learned.problem.hyperparameters.items()
        },
    }


def task_of(name: str, example: Example, seed: int) -> Task:
    """What searches lower: plain residuals held out, or with data what the default lowers."""
    problem = example.problem
    blocks = problem.collocate(example.training, seed=seed, sampling=example.sampling)
    data = data_conditions(problem)
    options = Options(
        kp.LeaveOneOutPredictive() if data else kp.HeldOut(),
        None,
        kp.LevenbergMarquardt(),
        kp.Automatic(nugget=1e-10, refinement=0),
        seed,
        example.sampling,
    )
    method = kp.learning.Bilevel(final=final_of(name, example, seed))
    run = Run(problem.balanced(blocks), blocks, options, method, None, 0, None)
    run = _with_free_states(run) or run
    return Task.of(run.problem, run.blocks, run.options, kp.learning.LevenbergMarquardt())


def bounds_of(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Lengthscales from a thirtieth of the domain to all of it; with data two deviations around
    what is expected before seeing them."""
    if isinstance(task.regularizer, Around):
        center, spread = np.asarray(task.regularizer.center), np.asarray(task.regularizer.sigma)
        return center - 2 * spread, center + 2 * spread
    lengths, theta = lengthscales(task.parameters), task.parameters.vector
    extent = relative_to(task.parameters, task.extents)
    low, high = (np.where(lengths, np.log(f) + extent, theta) for f in (1 / 30, 1.0))
    return low, high


class Search:
    """Trials of θ, each with an inner solve to its end."""

    def __init__(self, task: Task):
        self.task, self.begin = task, init(task)
        self.middle = task.kernels(np.mean(bounds_of(task), axis=0))
        self.best: tuple[float, LearningState] = (np.inf, self.begin)
        self.factorizations = self.trials = 0

    def trial(self, theta: np.ndarray) -> float:
        """The loss at the inner solution."""
        state, value = replace(self.begin, theta=theta), np.inf
        kernels = self.task.kernels(theta)
        for _ in range(SETTLING):
            outer, state = outer_loss_at(self.task, state, self.middle)
            found, reached = loss_and_state(jnp.asarray(theta), outer.loss)
            self.factorizations += 1
            value = float(found) if bool(reached.usable) else np.inf
            if not np.isfinite(value):
                break
            state, progress = moved_on(self.task, state, outer, kernels, reached, np.ones(1))
            if float(progress.change) < SETTLED:
                break
        self.trials += 1
        if value < self.best[0]:
            self.best = value, state
        return value if np.isfinite(value) else 1e6

    def solved(self, name: str, example: Example, seed: int) -> kp.Learned:
        state = replace(self.best[1], result=kp.learning.RESULTS.converged)
        return finished(self.task, state, final_of(name, example, seed), None, throw=False)


def proposals(kind: str, task: Task, seed: int) -> Generator[np.ndarray, float, None]:
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
    theta, found, aside = next(source), {}, 0.0
    budgets = {
        "equal factorizations": lambda _: search.factorizations >= of_default["factorizations"],
        "equal CPU time": lambda spent: spent >= of_default["cpu"],
        "four times the factorizations": (
            lambda _: search.factorizations >= 4 * of_default["factorizations"]
        ),
    }
    while len(found) < len(budgets):
        loss = search.trial(theta)
        theta = source.send(loss)
        for budget, used_up in budgets.items():
            spent = time.process_time() - begin - aside
            if budget in found or not used_up(spent):
                continue
            pause = time.process_time()
            learned = search.solved(name, example, seed)
            last = time.process_time() - pause
            aside += last
            found[budget] = {
                "seed": seed,
                "error": error_of(name, example, learned.solution),
                "factorizations": search.factorizations,
                "cpu": spent + last,
                "trials": search.trials,
                "learned": True,
                "solved": learned.solution.converged,
            }
    return found


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    errors = np.array([run["error"] for run in runs])
    return {
        "median error": float(np.median(errors)),
        "worst error": float(np.max(errors)),
        "median factorizations": float(np.median([run["factorizations"] for run in runs])),
        "median cpu": float(np.median([run["cpu"] for run in runs])),
        "without a solution": sum(not run["solved"] for run in runs),
        "runs": runs,
    }


def compare(name: str, seeds: range, only: str | None) -> None:
    """All criteria on one problem, or one plan; put to what the file has of others and seeds."""
    runs: dict[str, list[dict[str, Any]]] = {}
    file = RESULTS / f"criteria-{name}.json"
    cases = json.loads(file.read_text())["cases"] if file.exists() else {}
    for case, found in cases.items():
        again = only in (None, case)
        runs[case] = [run for run in found["runs"] if not (again and run["seed"] in seeds)]
    for seed in (WARM_UP, *seeds):
        done = {}
        for case, plan in PLANS.items():
            if only in (None, case) and not (name in JUDGED and case in FORWARD):
                done[case] = by_plan(name, plan, seed)
        for kind in ("random search", "Parzen search") if only is None else ():
            for budget, found in by_search(name, kind, seed, done[SEARCHED[name]]).items():
                done[f"{kind}, {budget}"] = found
        if seed == WARM_UP:
            continue
        for case, found in done.items():
            runs.setdefault(case, []).append(found)
        write(f"criteria-{name}", {"cases": {c: summary(r) for c, r in runs.items()}}, quiet=True)
        print(name, seed, {case: f"{found['error']:.2g}" for case, found in done.items()})


def shares() -> None:
    """How much of the plain loss the ten largest of 1200 residuals are, where it has ended."""
    found = []
    cases = json.loads((RESULTS / "criteria-elliptic.json").read_text())["cases"]
    for run in cases["held out, plain"]["runs"]:
        seed = run["seed"]
        task = task_of("elliptic", EXAMPLES["elliptic"](seed), seed)
        search, theta = Search(task), np.log([run["theta"]["u"]["lengthscale"]])
        search.trial(theta)
        loss = outer_loss_at(task, search.best[1], search.middle)[0].loss
        squares = np.sort(np.asarray(outer_roots(jnp.asarray(theta), loss)[0]) ** 2)
        found.append(
            {
                "seed": seed,
                "rows": len(squares),
                "share": float(squares[-10:].sum() / squares.sum()),
            }
        )
    write(
        "criteria-shares", {"median": float(np.median([f["share"] for f in found])), "runs": found}
    )


def page() -> None:
    """The tables of the page, from the result files."""
    target = Path(__file__).parent.parent / "docs" / "criteria.md"
    text = target.read_text()
    for name in EXAMPLES:
        if not (RESULTS / f"criteria-{name}.json").exists():
            continue
        cases = json.loads((RESULTS / f"criteria-{name}.json").read_text())["cases"]
        count = len(cases["default"]["runs"])
        best = min(case["median error"] for case in cases.values())
        lines = [
            f"| {name}, {count} seeds | median error | worst | factorizations | CPU s | unsolved |",
            "|---|---|---|---|---|---|",
        ]
        for case in sorted(cases, key=[*PLANS, *cases].index):
            found = cases[case]
            median = f"{found['median error']:.2g}"
            lines.append(
                f"| {case} | {f'**{median}**' if found['median error'] == best else median} "
                f"| {found['worst error']:.2g} | {found['median factorizations']:.0f} "
                f"| {found['median cpu']:.1f} | {found['without a solution']} |"
            )
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, rest = text.split(begin)
        after = rest.split(end)[1]
        text = before + begin + "\n" + "\n".join(lines) + "\n\n" + end + after
    target.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", help=f"of {list(EXAMPLES)}")
    parser.add_argument("--seeds", default="0:10")
    parser.add_argument("--only", choices=list(PLANS))
    parser.add_argument("--shares", action="store_true", help="of the largest residuals")
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    if given.page or given.shares:
        return page() if given.page else shares()
    for name in given.problems or EXAMPLES:
        compare(name, range(*map(int, given.seeds.split(":"))), given.only)
    return None


if __name__ == "__main__":
    main()
