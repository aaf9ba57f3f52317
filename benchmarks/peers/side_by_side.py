"""The same problem with several libraries: what each prints, and the CPU seconds it takes.

    python benchmarks/peers/side_by_side.py [--python LIBRARY=INTERPRETER ...] [--only LIBRARY]

Runs the scripts of `side_by_side/`, which `docs/coming-from.md` shows, each in a process of its own
on one core, first with an empty cache and then again; FEniCSx may need an interpreter of its own,
such as that of a Linux distribution. The report is `results/side-by-side.json`; what is not run
again is kept.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from _report import RESULTS, write

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
        "XDG_CACHE_HOME": cache,
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--only", action="append", default=[])
    given = parser.parse_args()
    interpreters = dict(each.split("=", 1) for each in given.python)
    kept = RESULTS / "side-by-side.json"
    cases = json.loads(kept.read_text())["cases"] if kept.exists() else {}
    for script in sorted(SCRIPTS.glob("*.py")):
        problem, library = script.stem.split("_", 1)
        if not given.only or library in given.only:
            found = measured(script, interpreters.get(library, sys.executable), PACKAGES[library])
            cases.setdefault(problem, {})[library] = found
            print(problem, library, found)
    write("side-by-side", {"cases": cases}, quiet=True)


if __name__ == "__main__":
    main()
