"""How long a picture takes once the numbers are there.

    python benchmarks/pictures.py [NAME ...]

Problems of the gallery are solved with the kernels that they begin with. Then `plot`, which
evaluates solution, error and residual on a grid, and `savefig`, which draws them, in CPU seconds
of this process: the first time, with what evaluating compiles and nothing on disk, and again.
The report is `results/pictures.json`.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["KERNELPDE_CACHE"] = "off"

import jax
import matplotlib
import matplotlib.pyplot as plt
from _report import write

import kernelpde as kp
from kernelpde.gallery import EXAMPLES

matplotlib.use("Agg")
jax.config.update("jax_enable_x64", True)

NAMES = (
    "pendulum elliptic poisson-flower stokes burgers schrodinger gray-scott poisson-ball".split()
)


def measured(name: str) -> dict[str, Any]:
    example = EXAMPLES[name]()
    solution = kp.solve(
        example.problem, example.points, sampling=example.sampling, max_steps=8, throw=False
    )

    def draw() -> tuple[float, float]:
        with tempfile.TemporaryDirectory() as place:
            begin = time.process_time()
            figure = solution.plot(references=example.references)
            evaluated = time.process_time()
            figure.savefig(Path(place) / "picture.png")
            plt.close(figure)
            return evaluated - begin, time.process_time() - evaluated

    (first, _), (again, drawing) = draw(), draw()
    rows = solution.problem.row_count(solution.blocks)
    return {
        "rows": rows,
        "seconds to evaluate, with compilation": first,
        "seconds to evaluate": again,
        "seconds to draw": drawing,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    cases = {}
    for name in parser.parse_args().names:
        cases[name] = measured(name)
        print(name, cases[name])
    write("pictures", {"cases": cases}, quiet=True)


if __name__ == "__main__":
    main()
