"""Speed over commits: CPU time of a few everyday calls, in Cholesky factorizations of 1000 rows.

    python benchmarks/series.py [COMMIT ...] [--page]

measures each commit (HEAD if none is named) in a checkout of its own, on one core, and puts it into
`results/series.json`, in the order of the commits. `--page` draws `docs/figures/series.png` from
that file. Only what the library has had from the beginning is called:

- `solve`: the elliptic problem with 1000 rows, everything compiled;
- `learn`: its kernel with 400 rows, from a lengthscale of 0.4, everything compiled;
- `first solve`: the same from an empty process, as a ratio to importing JAX and kernelpde.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _report import RESULTS, write

ROOT = Path(__file__).parent.parent
MEASURES = ("solve", "learn", "first solve")

CHILD = """
import json, statistics, sys, time
begin = time.process_time()
import jax
jax.config.update("jax_enable_x64", True)
import kernelpde as kp
from kernelpde.gallery import elliptic
imported = time.process_time() - begin
import numpy as np
import scipy.linalg
random = np.random.default_rng(0).standard_normal((1000, 1000))
matrix = random @ random.T + 1000 * np.eye(1000)

def seconds(call):
    start = time.process_time()
    call()
    return time.process_time() - start

def factor():
    scipy.linalg.cholesky(matrix, lower=True, check_finite=False)

near, far = elliptic(0.2), elliptic(0.4)
calls = {
    "solve": lambda: kp.solve(near.problem, {"equation": 800, "boundary": 200}),
    "learn": lambda: kp.learn(far.problem, {"equation": 300, "boundary": 100}),
}
found = {"first solve": seconds(calls["solve"]) / imported}
for name, call in calls.items():
    call()
    units = []
    for _ in range(5):
        unit = min(seconds(factor) for _ in range(5))
        units.append(seconds(call) / unit)
    found[name] = statistics.median(units)
print(json.dumps(found))
"""


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def measured(commit: str) -> dict[str, Any]:
    """One commit, in a process that sees nothing else of this checkout."""
    with tempfile.TemporaryDirectory() as place:
        git("worktree", "add", "--detach", place, commit)
        try:
            core = min(os.sched_getaffinity(0))
            done = subprocess.run(
                [sys.executable, "-c", CHILD],
                env=os.environ
                | {
                    "PYTHONPATH": f"{place}/src",
                    "OPENBLAS_NUM_THREADS": "1",
                    "KERNELPDE_CACHE": "off",
                },
                cwd=place,
                capture_output=True,
                text=True,
                preexec_fn=lambda: os.sched_setaffinity(0, {core}),
            )
        finally:
            git("worktree", "remove", "--force", place)
    if done.returncode:
        raise SystemExit(f"{commit}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def page() -> None:
    from matplotlib.figure import Figure

    runs = json.loads((RESULTS / "series.json").read_text())["runs"]
    figure = Figure(figsize=(8.0, 2.6), layout="constrained")
    for axis, name in zip(figure.subplots(1, len(MEASURES)), MEASURES, strict=True):
        axis.plot([run["number"] for run in runs], [run[name] for run in runs], "o-", markersize=3)
        axis.set(xlabel="commit", ylim=(0, None))
        axis.set_title(f"{name} / " + ("import" if name == "first solve" else "Cholesky"))
    figure.savefig(RESULTS.parent / "docs" / "figures" / "series.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commits", nargs="*")
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    if given.page:
        page()
        return
    file = RESULTS / "series.json"
    runs = json.loads(file.read_text())["runs"] if file.exists() else []
    for commit in given.commits or ["HEAD"]:
        known = git("rev-parse", "--short=10", commit)
        number = int(git("rev-list", "--count", known))
        found = {"commit": known, "number": number, "day": git("show", "-s", "--format=%cs", known)}
        run = found | measured(known)
        runs = sorted([r for r in runs if r["commit"] != known] + [run], key=lambda r: r["number"])
        write("series", {"runs": runs}, quiet=True)
        print(run, flush=True)


if __name__ == "__main__":
    main()
