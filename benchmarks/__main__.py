"""Run a benchmark by its name.

    python -m benchmarks                            # list the names
    python -m benchmarks NAME [OPTION ...]          # add its runs to results/NAME.jsonl
    python -m benchmarks NAME --smallest [OPTION ...]

With `--smallest` an eighth of the points, one seed, one repetition and two steps of learning: a
test that the benchmark runs. Its lines are printed and not stored. Processes that a benchmark
starts have their full size.
"""

import ast
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

SHARE, LEAST = 8, 12
"""Under `--smallest`: the share of points that remains, and the least number of them."""


def benchmarks() -> dict[str, Path]:
    """Return the files of all benchmarks by name."""
    files = sorted(Path(__file__).parent.glob("*/[!_]*.py"))
    return {path.stem.replace("_", "-"): path for path in files}


def summary(path: Path) -> str:
    """Return the first line of a file's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]


def listing() -> str:
    """Describe every benchmark in one line, grouped by folder."""
    lines, folder = [], ""
    for name, path in benchmarks().items():
        if path.parent.name != folder:
            folder = path.parent.name
            lines.append(f"{folder}/")
        lines.append(f"  {name:14} {summary(path)}")
    return "\n".join(lines)


def make_small() -> None:
    """Reduce whatever this process solves and learns from here on."""
    import kernelpde as kp
    from benchmarks import _report
    from kernelpde.problem import _problem

    _report.SMALLEST = True
    collocated, learn, solve = _problem.draw_point_set, kp.learn, kp.solve

    def fewer_points(condition: Any, dimension: int, points: Any, *others: Any) -> Any:
        counts = {
            name: max(min(count, LEAST), count // SHARE) if isinstance(count, int) else count
            for name, count in points.items()
        }
        return collocated(condition, dimension, counts, *others)

    def short_learn(*arguments: Any, **options: Any) -> Any:
        return learn(*arguments, **{**options, "max_steps": 2, "throw": False})

    def silent_solve(*arguments: Any, **options: Any) -> Any:
        return solve(*arguments, **{**options, "throw": False})

    _problem.draw_point_set, kp.learn, kp.solve = fewer_points, short_learn, silent_solve


def main() -> None:
    name, *options = sys.argv[1:] or [""]
    path = benchmarks().get(name)
    if path is None:
        print(listing())
        sys.exit(f"\nThere is no benchmark {name!r}." if name else 0)
    import jax

    jax.config.update("jax_enable_x64", True)
    if "--smallest" in options:
        options.remove("--smallest")
        make_small()
    import_module(f"benchmarks.{path.parent.name}.{path.stem}").main(options)


if __name__ == "__main__":
    main()
