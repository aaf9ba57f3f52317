"""Learning problems of the paper, beside the first edition of the library: CPU time and error.

    python benchmarks/editions.py [PROBLEM ...] [--seeds 0:1] [--first COMMIT]

`kernelpde learn PROBLEM` of either checkout in turn, each in a process of its own on one core:
everything from the start of the process to its end. The present edition runs with an empty cache of
compiled programs and again with what that run has left in it; the first edition has none. Writes
`results/editions.json`, problem by problem.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _report import RESULTS, write

ROOT = Path(__file__).parent.parent
FIRST = "b06fae2"
PROBLEMS = ("burgers", "gray-scott", "schrodinger")


def learned(source: Path, problem: str, seed: int, cache: str) -> dict[str, Any]:
    """CPU seconds of a process, and the largest error that it reports."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    core = min(os.sched_getaffinity(0))
    done = subprocess.run(
        [sys.executable, "-m", "kernelpde", "learn", problem, "--seed", str(seed), "--json"],
        env=os.environ
        | {"PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1", "KERNELPDE_CACHE": cache},
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = json.loads(done.stdout.splitlines()[-1])
    return {
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "error": max(sizes["l2"] for sizes in report["errors"].values()),
    }


def compared(problem: str, seeds: range, first: Path) -> dict[str, Any]:
    runs = []
    for seed in seeds:
        with tempfile.TemporaryDirectory() as cache:
            run = {
                "seed": seed,
                "first edition": learned(first / "src", problem, seed, "off"),
                "empty cache": learned(ROOT / "src", problem, seed, cache),
                "again": learned(ROOT / "src", problem, seed, cache),
            }
        print(problem, run, flush=True)
        runs.append(run)
    return {
        f"{case}, part of the first edition's CPU time": statistics.median(
            run[case]["cpu"] / run["first edition"]["cpu"] for run in runs
        )
        for case in ("empty cache", "again")
    } | {"runs": runs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", default=PROBLEMS)
    parser.add_argument("--seeds", default="0:1")
    parser.add_argument("--first", default=FIRST)
    given = parser.parse_args()
    file = RESULTS / "editions.json"
    report = json.loads(file.read_text()) if file.exists() else {}
    report.pop("environment", None)
    with tempfile.TemporaryDirectory() as place:
        checkout = ["git", "worktree", "add", "--detach", place, given.first]
        subprocess.run(checkout, cwd=ROOT, check=True, capture_output=True)
        try:
            for problem in given.problems:
                seeds = range(*map(int, given.seeds.split(":")))
                report[problem] = compared(problem, seeds, Path(place))
                write("editions", report, quiet=True)
        finally:
            remove = ["git", "worktree", "remove", "--force", place]
            subprocess.run(remove, cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
