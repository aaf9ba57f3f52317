"""Shares of credible intervals that contain the truth, hyperparameters learned.

    python -m benchmarks calibration [--families line,darcy] [--seeds 0:40]
    python -m benchmarks calibration --exact --seeds 0:120

The families of `_families.py`; of forty seeds thirty have truths drawn from a prior. For each
problem the share of points where a field lies in its pointwise 50, 80 and 95% interval, or that of
its numbers; and the probability that the posterior gives to less than the truth at one random
point, which is uniform over drawn truths if the posterior is calibrated. `best values` is the
posterior at the learned hyperparameters. Seeds from 1000 were used to choose how informative the
priors of states are, those of the results were not.

`--exact`: `rates` beside the posterior with an ODE solver for the same data.
"""

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

import kernelpde as kp
from benchmarks._report import parser, record, seeds
from benchmarks.inverse._families import FAMILIES, Inverse, exact_rates, rates

LEVELS = (0.5, 0.8, 0.95)
DRAWN = 30
"""Of forty seeds so many have truths that are drawn from a prior."""


def kind_of(seed: int) -> str:
    return "drawn" if seed % 40 < DRAWN else "others"


def scores(case: Inverse, posterior: Any) -> tuple[np.ndarray, list[np.ndarray]]:
    """Probabilities given to less than the truth, and whether intervals hold it."""
    if case.field is not None:
        view = posterior[case.field]
        inside = []
        for level in LEVELS:
            low, high = (np.asarray(end) for end in view.interval(case.places, level))
            inside.append((low <= case.truth) & (case.truth <= high))
        mean, deviation = (np.asarray(f(case.places)) for f in (view.mean, view.std))
        return stats.norm.cdf((case.truth - mean) / deviation), inside
    assert case.rates is not None
    estimates = {name: posterior.parameters[name] for name in case.rates}
    inside = [
        np.array(
            [
                e.interval(level)[0] <= case.rates[n] <= e.interval(level)[1]
                for n, e in estimates.items()
            ]
        )
        for level in LEVELS
    ]
    below = [
        stats.norm.cdf((e.parameter.offset(case.rates[n]) - e.offset) / e.offset_std)
        for n, e in estimates.items()
    ]
    return np.array(below), inside


def run(family: str, seed: int) -> dict[str, Any]:
    """Learn one problem and compare its posterior with the truth."""
    rng = np.random.default_rng([seed, sum(map(ord, family)), 21])
    case = FAMILIES[family](rng, kind_of(seed) == "drawn")
    line: dict[str, Any] = {"case": f"{family}, {kind_of(seed)}", "seed": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = time.process_time()
        learned = kp.learn(case.problem, case.points, seed=seed, throw=False)
        solution = learned.solution
        line |= {
            "learning": learned.result.name,
            "result": solution.result.name,
            "converged": solution.converged,
        }
        if solution.converged:
            posterior, best = kp.posterior(learned), kp.posterior(solution)
            line["CPU seconds"] = time.process_time() - begin
            below, inside = scores(case, posterior)
            _, inside_best = scores(case, best)
            line |= {
                "in 50, 80, 95%": [np.mean(contained) for contained in inside],
                "below": below[int(rng.integers(len(below)))],
                "best values: in 50, 80, 95%": [np.mean(contained) for contained in inside_best],
                "warned": bool(posterior.warnings),
            }
    return line


def beside_exact(numbers: Sequence[int]) -> None:
    """Record the coverage of rates beside that with an ODE solver, for the same data."""
    for kind in ("drawn", "others"):
        exact, lines = [], []
        for seed in (seed for seed in numbers if kind_of(seed) == kind):
            rng = np.random.default_rng([seed, sum(map(ord, "rates")), 21])
            truth = exact_rates(rates(rng, kind == "drawn"))
            exact.append(np.abs(truth) < stats.norm.ppf(0.975))
            lines.append(run("rates", seed))
        inside = [line["in 50, 80, 95%"][2] for line in lines if line["converged"]]
        record(
            "calibration",
            {
                "case": f"rates beside an ODE solver, {kind}",
                "seeds": f"{numbers[0]}:{numbers[-1] + 1}",
                "problems": len(lines),
                "converged": len(inside),
                "in 95%": np.mean(inside),
                "exact, in 95%": np.mean(exact),
            },
        )


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("--exact", action="store_true")
    command.add_argument("--families", default=",".join(FAMILIES))
    command.add_argument("--seeds", type=seeds, default="0:40")
    options = command.parse_args(arguments)
    if options.exact:
        beside_exact(options.seeds)
        return
    for family in options.families.split(","):
        for seed in options.seeds:
            record("calibration", run(family, seed))
