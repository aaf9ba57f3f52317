"""Any benchmark at its smallest size, to see that it runs and what it reports.

    python benchmarks/smallest.py DIRECTORY SCRIPT [ARGUMENT ...]

An eighth of the points, one seed, two steps of learning; reports and pictures are written to the
directory and not to the repository. Processes of the script's own are as large as ever, and one of
each.
"""

import runpy
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SHARE, LEAST = 8, 12


def make_small(results: Path) -> None:
    """For everything that this process imports from now on."""
    sys.path.insert(0, str(HERE))
    import jax

    jax.config.update("jax_enable_x64", True)
    import _report

    import kernelpde as kp
    from kernelpde.problem import _problem

    _report.RESULTS, _report.SMALLEST = results, True
    drawn = _problem.collocated

    def fewer(condition: Any, dimension: int, points: Any, *others: Any) -> Any:
        counts = {
            name: max(min(number, LEAST), number // SHARE) if isinstance(number, int) else number
            for name, number in points.items()
        }
        return drawn(condition, dimension, counts, *others)

    _problem.collocated = fewer
    learn, solve = kp.learn, kp.solve
    kp.solve = lambda *arguments, **settings: solve(*arguments, **{**settings, "throw": False})

    def shortly(*arguments: Any, **settings: Any) -> Any:
        return learn(*arguments, **{**settings, "max_steps": 2, "throw": False})

    kp.learn = shortly


def main() -> None:
    directory, script, *arguments = sys.argv[1:]
    make_small(Path(directory) / "results")
    sys.argv = [script, *arguments]
    runpy.run_path(str(HERE / script), run_name="__main__")


if __name__ == "__main__":
    main()
