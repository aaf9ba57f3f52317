"""Error and CPU time of another method on a problem of the gallery.

    pip install -r benchmarks/peers/requirements.txt
    python -m benchmarks peers METHOD PROBLEM [--setting S] [--seeds 0:3] [--at-most 900]

Every setting and seed is run by a process of its own, without a compilation cache; "cold" is its
first solve, imports left out, "warm" its second; "cholesky" is one LAPACK factorization of 2100
rows, afterwards. Errors are relative, root mean square, at the points of the gallery.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks._report import parser, record, seeds
from benchmarks._timing import cholesky, cpu_seconds, in_process

METHODS = {
    "kernelpde": "_kernelpde",
    "gauss-newton network": "_network",
    "kansa": "_kansa",
    "fastlsq": "_fastlsq",
    "deepxde": "_deepxde",
    "finite elements": "_finite_elements",
    "classical": "_classical",
}
SEPARATE = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "DDE_BACKEND": "pytorch"}


def module_of(method: str) -> Any:
    return import_module(f"benchmarks.peers.{METHODS[method]}")


def gaps(module: Any, example: Any, solution: Any) -> dict[str, float]:
    """Relative errors of all fields at the points of the gallery."""
    errors = {}
    for field, reference in example.references.items():
        where = example.field_grids.get(field, example.grid)
        truth = np.asarray(reference(where))
        values = np.asarray(module.values(example, solution, field, where))
        errors[field] = float(np.linalg.norm(values - truth) / np.linalg.norm(truth))
    return errors


def alone(method: str, problem: str, setting: str, seed: int) -> dict[str, Any]:
    """In this process."""
    from kernelpde.gallery import EXAMPLES

    if problem not in EXAMPLES:
        sys.exit(f"There is no problem {problem!r}; `kernelpde examples` lists them.")
    example, module = EXAMPLES[problem](), module_of(method)
    times, errors = [], {}
    for _ in range(2 if getattr(module, "COMPILES", True) else 1):
        begin = time.process_time()
        solution = module.solved(example, setting, seed)
        if hasattr(module, "errors"):
            errors = module.errors(example, solution)
        else:
            errors = gaps(module, example, solution)
        times.append(time.process_time() - begin)
    factor = cholesky(2100)
    return {
        "error": max(errors.values()),
        "cold": times[0],
        "warm": times[-1],
        "cholesky": statistics.median(cpu_seconds(factor) for _ in range(7)),
    }


def run(method: str, problem: str, setting: str, seed: int, at_most: float) -> dict[str, Any]:
    """In a process of its own, on one core."""
    command = ["-m", "benchmarks", "peers", method, problem, "--setting", setting, "--alone"]
    core = int(os.environ.get("PEERS_CORE", "0"))
    try:
        return in_process(
            [*command, "--seeds", f"{seed}:{seed + 1}"],
            cores=[core],
            timeout=at_most,
            environment=SEPARATE,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"did not end within {at_most:g} s"}
    except RuntimeError as error:
        return {"failed": str(error)}


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("method", choices=list(METHODS))
    command.add_argument("problem")
    command.add_argument("--setting")
    command.add_argument("--seeds", type=seeds, default="0:1")
    command.add_argument("--at-most", type=float, default=900.0)
    command.add_argument("--alone", action="store_true")
    options = command.parse_args(arguments)
    method, problem = options.method, options.problem
    if options.alone:
        print(json.dumps(alone(method, problem, options.setting, options.seeds[0])))
        return
    settings = [options.setting] if options.setting else module_of(method).SETTINGS
    for setting in settings[problem] if isinstance(settings, dict) else settings:
        for seed in options.seeds:
            line = {"case": f"{problem}: {method}, {setting}", "seed": seed, "method": method}
            line |= {"problem": problem, "setting": setting}
            record("peers", line | run(method, problem, setting, seed, options.at_most))
