"""Data of which some are grossly wrong: Gaussian noise against Student's t.

    python benchmarks/outliers.py [--seeds 0:10] [--families line,darcy,source]

Inverse problems of `calibration.py` with drawn truths, noise of 2%, and 5% of the data (at least
one) off by half to one and a half times the root mean square of the data. Each is learned four
times: clean and spoiled data, Gaussian noise and `StudentT` of the same scale. The relative error
of the unknown field and the share of it in its 95% interval. Seeds from 2000 were looked at while
this was built, those of the results were not.
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import calibration
import jax
import numpy as np
from _report import write
from calibration import Inverse

import kernelpde as kp

jax.config.update("jax_enable_x64", True)


def variants(case: Inverse, rng: np.random.Generator) -> Iterator[tuple[str, kp.Problem]]:
    """The problem with clean and with spoiled data, under both kinds of noise."""
    (data,) = [c for c in case.problem.conditions if c.name == "data"]
    clean, noise = np.array(data.data["y"]), float(data.noise_level)
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
    record: dict[str, Any] = {
        "result": learned.solution.result.name,
        "error": float(np.sqrt(np.mean(apart**2) / np.mean(case.truth**2))),
    }
    if learned.solution.converged:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posterior = kp.posterior(learned)
        view: Any = posterior[case.field]
        low, high = map(np.asarray, view.interval(case.places))
        record["covered"] = float(np.mean((low <= case.truth) & (case.truth <= high)))
        record["doubts"] = bool(posterior.doubts)
    return {**record, "CPU seconds": time.process_time() - started}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:10")
    parser.add_argument("--families", default="line,darcy,source")
    asked = parser.parse_args()
    first, last = map(int, asked.seeds.split(":"))
    report: dict[str, Any] = {"summary": {}, "runs": {}}
    for family in asked.families.split(","):
        rows = []
        for seed in range(first, last):
            case = calibration.FAMILIES[family](np.random.default_rng([seed, 5]), True)
            rng = np.random.default_rng([seed, 99])
            rows.append({name: run(case, problem) for name, problem in variants(case, rng)})
            errors = {name: round(one["error"], 3) for name, one in rows[-1].items()}
            print(family, seed, errors, flush=True)
        report["runs"][family] = rows
        summary: dict[str, Any] = {}
        for name in rows[0]:
            covered = [row[name]["covered"] for row in rows if "covered" in row[name]]
            ratios = [row[name]["error"] / row["clean, Gaussian"]["error"] for row in rows]
            summary[name] = {
                "converged": len(covered),
                "median error": float(np.median([row[name]["error"] for row in rows])),
                "median of error over that of clean data": float(np.median(ratios)),
                "largest": float(np.max(ratios)),
                "in the 95% interval": float(np.mean(covered)) if covered else None,
                "doubted": sum(row[name].get("doubts", False) for row in rows),
            }
        report["summary"][family] = {"problems": len(rows), **summary}
        write("inverse-outliers", report, quiet=True)
    print(report["summary"])


if __name__ == "__main__":
    main()
