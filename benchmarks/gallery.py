"""The pages of the gallery at full size: errors, CPU time and pictures.

    python benchmarks/gallery.py [NAME ...] [--seeds 0:3]

For each page `kp.learn(problem, points)` without options, or `kp.march(problem, windows, points)`
where the page says how many windows. Relative errors of all fields at 1500
points inside, the median over seeds; CPU seconds with everything compiled, and in units of one
Cholesky factorization of the final matrix on the same core. Pictures are those of the first seed.

    taskset -c 0 env OPENBLAS_NUM_THREADS=1 python benchmarks/gallery.py

writes `results/gallery.json` and `docs/figures/gallery/NAME.png`, page by page; with
`--pictures` the pictures alone, and what the solutions print; with `--printed` only the latter.
"""

import argparse
import json
import time
from typing import Any

import jax
import matplotlib
import numpy as np
import scipy.linalg
from _report import RESULTS, write
from matplotlib import pyplot as plt

import kernelpde as kp
from kernelpde.gallery import EXAMPLES, Example, headings

matplotlib.use("Agg")
jax.config.update("jax_enable_x64", True)

FIGURES = RESULTS.parent / "docs" / "figures" / "gallery"


def cholesky_seconds(rows: int) -> float:
    """CPU seconds of one factorization, the best of three."""
    matrix = np.eye(rows) + 0.1
    times = []
    for _ in range(3):
        begin = time.process_time()
        scipy.linalg.cholesky(matrix, lower=True, check_finite=False)
        times.append(time.process_time() - begin)
    return max(min(times), 1e-6)


def once(example: Example, seed: int) -> tuple[dict[str, Any], kp.Solution | kp.Evolution]:
    begin = time.process_time()
    if example.windows > 1:
        evolution = kp.march(
            example.problem, example.windows, example.points, seed=seed, throw=False
        )
        results = sorted({solution.result.name for solution in evolution.solutions})
        return {
            "seed": seed,
            "errors": relative(example, evolution),
            "result": ", ".join(results),
            "converged": evolution.converged,
            "cpu": time.process_time() - begin,
            "factorizations": sum(solution.steps for solution in evolution.solutions),
        }, evolution
    learned = kp.learn(
        example.problem, example.points, seed=seed, sampling=example.sampling, throw=False
    )
    return {
        "seed": seed,
        "errors": relative(example, learned.solution),
        "result": learned.solution.result.name,
        "converged": learned.solution.converged,
        "cpu": time.process_time() - begin,
        "factorizations": learned.factorizations,
    }, learned.solution


def relative(example: Example, found: kp.Solution | kp.Evolution) -> dict[str, float]:
    return {name: size["relative"] for name, size in example.errors(found).items()}


def draw(example: Example, found: kp.Solution | kp.Evolution) -> None:
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure = found.plot(references=example.references)
    figure.savefig(FIGURES / f"{example.name}.png", dpi=80, bbox_inches="tight")
    plt.close(figure)


def measured(name: str, seeds: range) -> dict[str, Any]:
    example = EXAMPLES[name]()
    begin = time.process_time()
    first, found = once(example, seeds[0])
    cold = time.process_time() - begin
    last = found.solutions[-1] if isinstance(found, kp.Evolution) else found
    rows = last.problem.row_count(last.blocks)
    draw(example, found)
    # The first seed again: what it took before was mostly the compiler's time.
    runs = [once(example, seed)[0] for seed in seeds]
    summary: dict[str, Any] = {
        "rows": rows,
        "errors": {
            field: float(np.median([run["errors"][field] for run in runs]))
            for field in first["errors"]
        },
        "converged": all(run["converged"] for run in runs),
        "cpu": float(np.median([run["cpu"] for run in runs])),
        "cpu with compilation": cold,
        "printed": str(found),
        "runs": runs,
    }
    if example.windows > 1:
        summary["windows"] = example.windows
    summary["choleskys"] = summary["cpu"] / cholesky_seconds(rows)
    return summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", default="0:3")
    parser.add_argument("--pictures", action="store_true")
    parser.add_argument("--printed", action="store_true")
    given = parser.parse_args()
    seeds = range(*map(int, given.seeds.split(":")))
    file = RESULTS / "gallery.json"
    pages = json.loads(file.read_text())["pages"] if file.exists() else {}
    for name in given.names or headings():
        if given.pictures or given.printed:
            example = EXAMPLES[name]()
            found = once(example, seeds[0])[1]
            pages[name]["printed"] = str(found)
            if given.pictures:
                draw(example, found)
        else:
            pages[name] = measured(name, seeds)
        write("gallery", {"pages": dict(sorted(pages.items()))}, quiet=True)
        errors = ", ".join(f"{k} {v:.1e}" for k, v in pages[name]["errors"].items())
        print(f"{name}: {errors}; {pages[name]['cpu']:.1f} s", flush=True)


if __name__ == "__main__":
    main()
