"""The same problem with several libraries: printed results and CPU time.

    python -m benchmarks side-by-side [--python LIBRARY=INTERPRETER ...] [--only LIBRARY]

Runs the scripts of `side_by_side/`, which `docs/coming-from.md` shows, each in a process of its own
on one core, first with an empty cache and then again; FEniCSx may need an interpreter of its own,
such as that of a Linux distribution.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks._report import parser, record

SCRIPTS = Path(__file__).parent / "side_by_side"
PACKAGES = {
    "kernelpde": "kernelpde",
    "deepxde": "deepxde",
    "scikit_fem": "scikit-fem",
    "fenicsx": "fenics-dolfinx",
    "gpytorch": "gpytorch",
}
_VERSION = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"


def measured(script: Path, interpreter: str, package: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as cache:
        printed, first = _run(script, interpreter, cache)
        _, again = _run(script, interpreter, cache)
    version = subprocess.run(
        [interpreter, "-c", _VERSION, package], capture_output=True, text=True, check=True
    )
    return {
        "printed": printed,
        "CPU seconds": first,
        "CPU seconds again": again,
        "version": version.stdout.strip(),
    }


def _run(script: Path, interpreter: str, cache: str) -> tuple[str, float]:
    """The last line that a script prints, and the seconds it takes."""
    settings = {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "DDE_BACKEND": "pytorch",
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = subprocess.run(
        ["taskset", "--cpu-list", "0", interpreter, script.name],
        cwd=SCRIPTS,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if found.returncode:
        raise SystemExit(f"{script.name} with {interpreter}:\n{found.stderr}")
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return found.stdout.strip().splitlines()[-1], seconds


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("--python", action="append", default=[])
    command.add_argument("--only", action="append", default=[])
    options = command.parse_args(arguments)
    interpreters = dict(choice.split("=", 1) for choice in options.python)
    for script in sorted(SCRIPTS.glob("*.py")):
        problem, library = script.stem.split("_", 1)
        if not options.only or library in options.only:
            interpreter = interpreters.get(library, sys.executable)
            line = {"case": f"{problem}, {library}", "problem": problem, "library": library}
            record("side-by-side", line | measured(script, interpreter, PACKAGES[library]))
