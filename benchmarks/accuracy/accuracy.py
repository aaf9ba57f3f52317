"""Errors of the paper's elliptic problem with a fixed kernel: a table of the README.

Lengthscale 0.2, 1800 + 300 points, nugget 1e-12.
"""

import kernelpde as kp
from benchmarks._report import parser, record, seeds
from kernelpde.gallery import elliptic


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("--seeds", type=seeds, default="0:5")
    example = elliptic(0.2)
    for seed in command.parse_args(arguments).seeds:
        for sampling in ("uniform", "halton"):
            for refinement in (0, 2):
                solution = kp.solve(
                    example.problem,
                    example.points,
                    seed=seed,
                    sampling=sampling,
                    linear_solver=kp.Dense(nugget=1e-12, refinement_sweeps=refinement),
                    max_steps=10,
                )
                errors = example.errors(solution)["u"]
                case = f"{sampling}, refinement {refinement}"
                record(
                    "accuracy",
                    {"case": case, "seed": seed, "l2": errors["l2"], "linf": errors["linf"]},
                )
