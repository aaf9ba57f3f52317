"""One method on one problem: error, CPU seconds cold and warm, on one core.

    pip install -r benchmarks/peers/requirements.txt
    python benchmarks/peers/run.py METHOD PROBLEM [--setting S] [--seeds 0:3] [--at-most 900]

Every setting and seed is run by a process of its own, without a compilation cache; "cold" is its
first solve, imports left out, "warm" its second; "cholesky" is one LAPACK factorization of 2100
rows, afterwards. Errors are relative, root mean square, at the points of the gallery. Adds to
`results/peers.json`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE.parent.parent / "results" / "peers.json"
METHODS = {
    "kernelpde": "_kernelpde",
    "gauss-newton network": "_network",
    "kansa": "_kansa",
    "fastlsq": "_fastlsq",
    "deepxde": "_deepxde",
    "finite elements": "_finite_elements",
    "classical": "_classical",
}


def gaps(module: Any, example: Any, found: Any) -> dict[str, float]:
    """Relative errors of all fields at the points of the gallery."""
    import numpy as np

    errors = {}
    for field, reference in example.references.items():
        where = example.places.get(field, example.grid)
        truth = np.asarray(reference(where))
        values = np.asarray(module.values(example, found, field, where))
        errors[field] = float(np.linalg.norm(values - truth) / np.linalg.norm(truth))
    return errors


def one(method: str, problem: str, setting: str, seed: int) -> dict[str, object]:
    """In this process."""
    import jax

    jax.config.update("jax_enable_x64", True)
    from kernelpde.gallery import EXAMPLES

    if problem not in EXAMPLES:
        sys.exit(f"There is no problem {problem!r}; `kernelpde examples` lists them.")
    example, module = EXAMPLES[problem](), import_module(METHODS[method])
    times, errors = [], {}
    for _ in range(2 if getattr(module, "COMPILES", True) else 1):
        begin = time.process_time()
        found = module.solved(example, setting, seed)
        if hasattr(module, "errors"):
            errors = module.errors(example, found)
        else:
            errors = gaps(module, example, found)
        times.append(time.process_time() - begin)
    return {
        "method": method,
        "problem": problem,
        "setting": setting,
        "seed": seed,
        "error": max(errors.values()),
        "errors": errors,
        "cold": times[0],
        "warm": times[-1],
        "cholesky": cholesky(),
    }


def cholesky(rows: int = 2100) -> float:
    """CPU seconds of one factorization, the median of seven."""
    import numpy as np
    import scipy.linalg

    matrix = 0.1 * np.ones((rows, rows)) + np.eye(rows)
    times = []
    for _ in range(7):
        begin = time.process_time()
        scipy.linalg.cholesky(matrix, lower=True, check_finite=False)
        times.append(time.process_time() - begin)
    return statistics.median(times)


def apart(method: str, problem: str, setting: str, seed: int, at_most: float) -> dict[str, object]:
    """In a process of its own, on one core."""
    core = os.environ.get("PEERS_CORE", "0")
    command = [sys.executable, __file__, method, problem, "--setting", setting, "--alone"]
    environment = os.environ | {
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "KERNELPDE_CACHE": "off",
        "DDE_BACKEND": "pytorch",
    }
    where = {"method": method, "problem": problem, "setting": setting, "seed": seed}
    try:
        done = subprocess.run(
            ["taskset", "-c", core, *command, "--seeds", f"{seed}:{seed + 1}"],
            env=environment,
            timeout=at_most,
            capture_output=True,
            text=True,
        )
    except subprocess.TimeoutExpired:
        return where | {"failed": f"did not end within {at_most:g} s"}
    if done.returncode:
        return where | {"failed": done.stderr.strip().splitlines()[-1][:200]}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method", choices=list(METHODS))
    parser.add_argument("problem")
    parser.add_argument("--setting")
    parser.add_argument("--seeds", default="0:1")
    parser.add_argument("--at-most", type=float, default=900.0)
    parser.add_argument("--alone", action="store_true")
    given = parser.parse_args()
    seeds = range(*map(int, given.seeds.split(":")))
    if given.alone:
        print(json.dumps(one(given.method, given.problem, given.setting, seeds[0])))
        return
    settings = [given.setting] if given.setting else import_module(METHODS[given.method]).SETTINGS
    if isinstance(settings, dict):
        settings = settings[given.problem]
    for setting in settings:
        for seed in seeds:
            run = apart(given.method, given.problem, setting, seed, given.at_most)
            keep(run)
            found = (
                run.get("failed") or f"{run['error']:.1e}, {run['cold']:.1f} s, {run['warm']:.1f} s"
            )
            print(f"{given.method}, {given.problem}, {setting}, seed {seed}: {found}", flush=True)


def keep(run: dict[str, object]) -> None:
    """Put a run among the others, in place of an earlier one of the same kind."""
    runs = json.loads(RESULTS.read_text())["runs"] if RESULTS.exists() else []
    names = ("problem", "method", "setting", "seed")
    kept = [r for r in runs if any(r[n] != run[n] for n in names)]
    ordered = sorted([*kept, run], key=lambda r: [str(r[n]) for n in names])
    sys.path.insert(0, str(HERE.parent))
    from _report import environment

    RESULTS.write_text(json.dumps({"runs": ordered, "environment": environment()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
