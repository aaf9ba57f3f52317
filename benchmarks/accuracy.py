"""Errors of the elliptic problem over seeds: the table of the README.

    python benchmarks/accuracy.py

writes `results/accuracy.json`.
"""

import jax
import numpy as np
from _report import write

import kernelpde as kp
from kernelpde.gallery import elliptic

SEEDS = range(5)


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    example = elliptic(0.2)
    report = {}
    for sampling in ("uniform", "halton"):
        for refinement in (0, 2):
            errors = []
            for seed in SEEDS:
                solution = kp.solve(
                    example.problem,
                    example.points,
                    seed=seed,
                    sampling=sampling,
                    linear_solver=kp.Dense(nugget=1e-12, refinement=refinement),
                    max_steps=10,
                )
                errors.append(example.errors(solution)["u"])
            report[f"{sampling}, refinement {refinement}"] = {
                norm: {
                    "median": float(np.median([e[norm] for e in errors])),
                    "all": [e[norm] for e in errors],
                }
                for norm in ("l2", "linf")
            }
    write(
        "accuracy",
        {
            "problem": "elliptic, lengthscale 0.2, 1800 + 300 points, nugget 1e-12",
            "seeds": list(SEEDS),
            "errors": report,
        },
    )


if __name__ == "__main__":
    main()
