"""Results of benchmarks: one line per run in `results/NAME.jsonl`.

A line is a JSON object: the benchmark, the case and seed, the figures of the run, and where they
come from (commit, versions, command, date). Medians and other summaries are computed by the reader.
"""

import argparse
import datetime
import functools
import importlib.metadata
import json
import math
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS, DOCS = ROOT / "results", ROOT / "docs"
SMALLEST = False
"""True under `--smallest`: one seed and one repetition, lines are printed and not stored."""

Line = dict[str, Any]

_DIGITS = 8
_PACKAGES = ("kernelpde", "jax", "numpy", "scipy")


def record(name: str, line: Line) -> None:
    """Print one run and store it, in place of the stored line of the same case and seed.

    **Arguments:**

    - `name`: the benchmark.
    - `line`: `case`, `seed` if there is one, and the figures.
    """
    complete = {"name": name, **_rounded(line), **_provenance()}
    print(json.dumps(complete, ensure_ascii=False), flush=True)
    if not SMALLEST:
        path = RESULTS / f"{name}.jsonl"
        lines = load(name) if path.exists() else []
        store(name, _replaced(lines, complete))


def store(name: str, lines: Iterable[Line]) -> None:
    """Write all lines of a benchmark."""
    RESULTS.mkdir(exist_ok=True)
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (RESULTS / f"{name}.jsonl").write_text(text)


def load(name: str, **fields: Any) -> list[Line]:
    """Return the lines of a benchmark whose fields have the given values."""
    path = RESULTS / f"{name}.jsonl"
    if not path.exists():
        raise FileNotFoundError(f"{path.name}: not measured; run python -m benchmarks {name}.")
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    return [line for line in lines if all(line.get(k) == v for k, v in fields.items())]


def column(lines: Iterable[Line], key: str) -> list[Any]:
    """Return the values of one field, of the lines that have it."""
    return [line[key] for line in lines if line.get(key) is not None]


def by_case(lines: Iterable[Line], key: str = "case") -> dict[str, list[Line]]:
    """Group lines by a field, in the order of their first occurrence."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(line[key], []).append(line)
    return groups


def flat_errors(errors: dict[str, dict[str, float]]) -> dict[str, float]:
    """Errors by field and norm as figures "FIELD NORM"."""
    return {
        f"{field} {norm}": value for field, sizes in errors.items() for norm, value in sizes.items()
    }


def parser(about: str | None) -> argparse.ArgumentParser:
    """Return a parser of options whose help is the docstring of a benchmark."""
    return argparse.ArgumentParser(
        prog="python -m benchmarks NAME",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def seeds(text: str) -> Sequence[int]:
    """Parse the option `--seeds FIRST:STOP`."""
    first, stop = map(int, text.split(":"))
    return range(first, min(stop, first + 1) if SMALLEST else stop)


def repeats(count: int) -> int:
    """Return how often to repeat a measurement."""
    return 1 if SMALLEST else count


def _replaced(lines: list[Line], new: Line) -> list[Line]:
    def identity(line: Line) -> tuple[Any, Any]:
        return line["case"], line.get("seed")

    indices = [i for i, line in enumerate(lines) if identity(line) == identity(new)]
    if not indices:
        return [*lines, new]
    return [
        new if i == indices[0] else line for i, line in enumerate(lines) if i not in indices[1:]
    ]


def _rounded(value: Any) -> Any:
    """Convert to JSON types, floating-point numbers to a few significant digits."""
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    if hasattr(value, "tolist"):
        return _rounded(value.tolist())
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value


@functools.cache
def _provenance() -> Line:
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude", "*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return {
        "commit": described.stdout.strip() or None,
        "versions": {
            "python": platform.python_version(),
            **{package: importlib.metadata.version(package) for package in _PACKAGES},
        },
        "command": f"python -m benchmarks {shlex.join(sys.argv[1:])}",
        "date": datetime.date.today().isoformat(),
    }
