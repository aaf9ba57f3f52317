"""Data with outliers: Gaussian noise against Student's t.

    python -m benchmarks outliers [--seeds 0:10] [--families line,darcy,source]

Inverse problems of `calibration` with drawn truths, noise of 2%, and 5% of the data (at least
one) off by half to one and a half times the root mean square of the data. Each is learned four
times: clean and spoiled data, Gaussian noise and `StudentT` of the same scale. The relative error
of the unknown field and the share of it in its 95% interval. Seeds from 2000 were looked at while
this was built, those of the results were not.
"""

import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import kernelpde as kp
from benchmarks._report import parser, record, seeds
from benchmarks.inverse._families import FAMILIES, Inverse


def variants(case: Inverse, rng: np.random.Generator) -> Iterator[tuple[str, kp.Problem]]:
    """The problem with clean and with spoiled data, under both kinds of noise."""
    (data,) = [c for c in case.problem.conditions if c.name == "data"]
    clean, noise = np.array(data.data["y"]), float(data.noise_std)
    count = max(1, round(0.05 * len(clean)))
    which, size = rng.choice(len(clean), count, replace=False), np.sqrt(np.mean(clean**2))
    spoiled = clean.copy()
    spoiled[which] += rng.choice([-1, 1], count) * rng.uniform(0.5, 1.5, count) * size
    for name, values in (("clean", clean), ("spoiled", spoiled)):
        for kind, given in (("Gaussian", noise), ("Student", kp.StudentT(noise))):
            new = replace(data, data={"y": values}, noise=given)
            conditions = [new if c is data else c for c in case.problem.conditions]
            yield f"{name}, {kind}", case.problem.with_conditions(conditions)


def run(case: Inverse, problem: kp.Problem) -> dict[str, Any]:
    """One problem, learned."""
    assert case.field is not None
    assert case.places is not None
    assert case.truth is not None
    started = time.process_time()
    learned = kp.learn(problem, case.points, throw=False)
    found: Any = learned.solution[case.field]
    apart = np.asarray(found(case.places)) - case.truth
    figures: dict[str, Any] = {
        "result": learned.solution.result.name,
        "error": np.sqrt(np.mean(apart**2) / np.mean(case.truth**2)),
    }
    if learned.solution.converged:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posterior = kp.posterior(learned)
        view: Any = posterior[case.field]
        low, high = map(np.asarray, view.interval(case.places))
        figures["covered"] = np.mean((low <= case.truth) & (case.truth <= high))
        figures["warned"] = bool(posterior.warnings)
    return {**figures, "CPU seconds": time.process_time() - started}


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("--seeds", type=seeds, default="0:10")
    command.add_argument("--families", default="line,darcy,source")
    options = command.parse_args(arguments)
    for family in options.families.split(","):
        for seed in options.seeds:
            case = FAMILIES[family](np.random.default_rng([seed, 5]), True)
            for data, problem in variants(case, np.random.default_rng([seed, 99])):
                line = {"case": f"{family}: {data}", "seed": seed, "family": family, "data": data}
                record("outliers", line | run(case, problem))
