"""The Schrodinger equation to t = 4 in 16 windows of time: error and cost of each.

With the kernels that are learned on the interval of the paper, for t up to 1.
"""

from itertools import pairwise

import numpy as np

import kernelpde as kp
from benchmarks._report import parser, record
from kernelpde.gallery import product_grid, schrodinger

WINDOWS, END = 16, 4.0
FRESH = 10_000
"""Offset of the seed of the final solve, so that its points differ from those of learning."""


def main(arguments: list[str]) -> None:
    parser(__doc__).parse_args(arguments)
    example = schrodinger(1.0)
    final = kp.learning.FinalSolve(example.points, seed=FRESH)
    learned = kp.learn(
        example.problem,
        example.training,
        method=kp.learning.Bilevel(final=final),
        sampling="halton",
        throw=False,
    )
    example = schrodinger(1.0, duration=END)
    problem = example.problem.with_kernels(learned.kernels)
    evolution = kp.march(problem, WINDOWS, {"equation": 1200, "initial": 256}, throw=False)
    grid = product_grid(np.linspace(0, END, 321), np.linspace(-5, 5, 128, endpoint=False))
    truth = example.references["h"](grid)
    values = np.asarray(evolution["h"](grid))
    for index, (start, stop) in enumerate(pairwise(evolution.times)):
        inside = (grid[:, 0] >= start) & (grid[:, 0] <= stop)
        gap = np.abs(values[inside]) - np.abs(truth[inside])
        solution = evolution.solutions[index]
        record(
            "windows",
            {
                "case": f"until t = {stop:g}",
                "l2 of abs(h)": np.sqrt(np.mean(gap**2)),
                "l2 of h": np.sqrt(np.mean(np.abs(values - truth)[inside] ** 2)),
                "steps": solution.num_steps,
                "result": solution.result.name,
                "seconds": evolution.seconds[index],
            },
        )
