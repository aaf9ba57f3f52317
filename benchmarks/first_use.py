"""How long the first answer takes, as a ratio to importing JAX and kernelpde in the same process.

    python benchmarks/first_use.py
    python benchmarks/first_use.py cold [SOURCE]

Each figure is CPU time in a process of its own on one core, the median of five. The README's
problem has 280 rows. `empty`: nothing compiled before. `second process`: programs are on disk.
`other equation`: in the same process, with the same derivatives and kernel. `other counts`: 195 and
77 points instead of 200 and 80, and how many programs were compiled for it.

`cold`: seconds that tracing, lowering and compiling take in two steps of learning Gray-Scott and
Burgers with lengthscales that vary, at the sizes of the paper; also for another checkout of the
library, whose directory `src` is given.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from _report import SMALLEST, write

_CHILD = """
import sys, time, json
start = time.process_time()
import jax
jax.config.update("jax_enable_x64", True)
import kernelpde as kp
imported = time.process_time() - start
import jax.numpy as jnp
from kernelpde import compiling
square = kp.Box(x=(0, 1), y=(0, 1))
def problem(equation, boundary):
    return kp.Problem(
        kp.Condition("equation", square.interior, equation),
        kp.Condition("boundary", square.boundary, boundary),
        fields=[kp.Field("u", kp.Gaussian(0.3))],
    )
cubic = problem(
    lambda x, u: -u.laplacian + u.value**3 - 10 * jnp.sin(x[0]) * jnp.cos(x[1]),
    lambda x, u: u.value,
)
sine = problem(
    lambda x, u: -u.laplacian + 2 * jnp.sin(u.value) - jnp.exp(x[0]), lambda x, u: u.value - x[1]
)
action = getattr(kp, sys.argv[1])
options = {"throw": False} if sys.argv[1] == "solve" else {}
found = {"import": imported}
def timed(name, problem, equation=200, boundary=80):
    before, start = dict(compiling._programs.made), time.process_time()
    action(problem, {"equation": equation, "boundary": boundary}, **options)
    found[name] = time.process_time() - start
    made = compiling._programs.made
    return {k: n - before.get(k, 0) for k, n in made.items() if n > before.get(k, 0)}
timed("first", cubic)
timed("again", cubic)
timed("other equation", sine)
found["programs for other counts"] = timed("other counts", cubic, 195, 77)
print(json.dumps(found))
"""


_COLD = """
import sys, json
import jax
jax.config.update("jax_enable_x64", True)
from kernelpde import learn
from kernelpde.gallery import burgers, gray_scott
total = {"programs": 0, "seconds": 0.0}
def note(event, seconds, **_):
    if event.startswith("/jax/core/compile/"):
        total["seconds"] += seconds
        total["programs"] += event.endswith("backend_compile_duration")
jax.monitoring.register_event_duration_secs_listener(note)
example = {"gray-scott": gray_scott, "burgers": burgers}[sys.argv[1]]()
learn(example.problem, example.training or example.points, max_steps=2, throw=False)
print(json.dumps(total))
"""


def cold(source: str | None) -> None:
    """Compilation of learning, here and in another checkout."""
    report: dict[str, Any] = {}
    for name in ("gray-scott", "burgers"):
        for where, path in (("here", None), ("there", source)):
            if where == "there" and path is None:
                continue
            variables = {"KERNELPDE_CACHE": "off", "OPENBLAS_NUM_THREADS": "1"}
            if path is not None:
                variables["PYTHONPATH"] = path
            ended = subprocess.run(
                [sys.executable, "-c", _COLD, name],
                env=os.environ | variables,
                capture_output=True,
                text=True,
                check=True,
            )
            report.setdefault(name, {})[where] = json.loads(ended.stdout)
        write("first-use-cold", report)


def child(action: str, cache: str) -> dict[str, Any]:
    variables = {"KERNELPDE_CACHE": cache, "OPENBLAS_NUM_THREADS": "1"}
    core = {os.sched_getaffinity(0).pop()} if hasattr(os, "sched_getaffinity") else set()
    ended = subprocess.run(
        [sys.executable, "-c", _CHILD, action],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=(lambda: os.sched_setaffinity(0, core)) if core else None,
    )
    return json.loads(ended.stdout)


def main() -> None:
    report: dict[str, Any] = {}
    for action in ("solve", "learn"):
        empty, second = [], []
        for _ in range(1 if SMALLEST else 5):
            with tempfile.TemporaryDirectory() as cache:
                empty.append(child(action, cache))
                second.append(child(action, cache))

        def ratio(runs: list[dict[str, Any]], name: str) -> float:
            return statistics.median(run[name] / run["import"] for run in runs)

        report[action] = {
            "import, CPU seconds": statistics.median(run["import"] for run in empty),
            "empty": ratio(empty, "first"),
            "second process": ratio(second, "first"),
            "again": ratio(empty, "again"),
            "other equation": ratio(empty, "other equation"),
            "other counts": ratio(empty, "other counts"),
            "programs for other counts": empty[0]["programs for other counts"],
            "runs": {"empty": empty, "second process": second},
        }
        write("first-use", report)


if __name__ == "__main__":
    if sys.argv[1:2] == ["cold"]:
        cold(sys.argv[2] if len(sys.argv) > 2 else None)
    else:
        main()
