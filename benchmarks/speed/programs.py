"""Programs that a solve makes, and the CPU time of tracing, lowering and compiling them.

    python -m benchmarks programs [--cases readme cavity scattering]

`readme`: the ten lines of the README. `cavity`, `scattering`: the first level of two systems. Each
line is a process of its own on one core: with an empty cache, and then with programs on disk. The
phases are the first solve, the same solve again, and for `readme` its error and its first plot.
Seconds of tracing, lowering and compiling are wall times.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax

from benchmarks._report import parser, record, repeats
from benchmarks._timing import in_process

CASES = ("readme", "cavity", "scattering")

_EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "compile",
}


class Stages:
    """Seconds and numbers of the stages of compilation since the last report."""

    def __init__(self) -> None:
        self.intervals: dict[str, list[tuple[float, float]]] = {}
        self.start = time.process_time()
        jax.monitoring.register_event_duration_secs_listener(self._add)

    def _add(self, event: str, duration_secs: float, **_: str | int) -> None:
        if event in _EVENTS:
            stop = time.perf_counter()
            intervals = self.intervals.setdefault(_EVENTS[event], [])
            # A function that is traced inside another one counts once.
            while intervals and intervals[-1][0] >= stop - duration_secs:
                intervals.pop()
            intervals.append((stop - duration_secs, stop))

    def report(self) -> dict[str, float]:
        """Return the figures of a phase, and start the next one."""
        seconds = {
            name: sum(stop - start for start, stop in self.intervals.get(name, []))
            for name in _EVENTS.values()
        }
        programs = len(self.intervals.get("compile", []))
        cpu = time.process_time() - self.start
        self.intervals, self.start = {}, time.process_time()
        return {"CPU": cpu, "programs": programs, **seconds}


def readme() -> Callable[[], Any]:
    import kernelpde as kp

    def solve() -> Any:
        square = kp.Box(x=(0, 1), y=(0, 1))
        problem = kp.Problem(
            kp.Condition("equation", square.interior, lambda x, u: -u.laplacian + u.value**3 - 10),
            kp.Condition("boundary", square.boundary, lambda x, u: u.value),
            fields=[kp.Field("u", kernel=kp.Gaussian(lengthscale=0.5))],
        )
        solution = kp.solve(problem, accuracy=1e-3)
        str(solution)
        return solution

    return solve


def cavity() -> Callable[[], Any]:
    import kernelpde as kp

    def vorticity(x, psi):
        dx = psi.d("x", "x", "x") + psi.d("x", "y", "y")
        dy = psi.d("x", "x", "y") + psi.d("y", "y", "y")
        xxxx, yyyy = psi.d("x", "x", "x", "x"), psi.d("y", "y", "y", "y")
        bending = xxxx + 2 * psi.d("x", "x", "y", "y") + yyyy
        return psi.d("y") * dx - psi.d("x") * dy - bending / 100

    def solve() -> Any:
        square = kp.Box(x=(0, 1), y=(0, 1))
        walls = kp.union([square.side(x=0), square.side(x=1), square.side(y=0)])
        problem = kp.Problem(
            kp.Condition("vorticity", square.interior, vorticity),
            kp.Condition("walls", walls, lambda x, psi: (psi.value, psi.normal_derivative)),
            kp.Condition("lid", square.side(y=1), lambda x, psi: (psi.value, psi.d("y") - 1.0)),
            fields=[kp.Field("psi", kp.Gaussian(0.25))],
        )
        return kp.solve(problem, accuracy=kp.Accuracy(1e-2, max_rows=1), throw=False)

    return solve


def scattering() -> Callable[[], Any]:
    import jax.numpy as jnp

    import kernelpde as kp

    directions = [(1.0, 0.92106, 0.38942), (0.7j, -0.41615, 0.90930), (0.5, 1.1, 0.45826j)]

    def data(x, normal):
        return sum(
            20j * (c * normal[0] + s * normal[1] - 1) * a * jnp.exp(20j * (c * x[0] + s * x[1]))
            for a, c, s in directions
        )

    def solve() -> Any:
        square = kp.Box(x=(0, 1), y=(0, 1))
        problem = kp.Problem(
            kp.Condition("equation", square.interior, lambda x, u: u.laplacian + 400 * u.value),
            kp.Condition(
                "boundary",
                square.boundary,
                lambda x, normal, u: u.normal_derivative - 20j * u.value - data(x, normal),
            ),
            fields=[kp.ComplexField("u", kp.Gaussian(0.2))],
        )
        return kp.solve(problem, accuracy=kp.Accuracy(1e-4, max_rows=1), throw=False)

    return solve


def child(case: str) -> None:
    """Print the figures of all phases of one process."""
    import json

    jax.config.update("jax_enable_x64", True)
    imports = time.process_time()
    stages = Stages()
    solve = globals()[case]()
    phases = {"import": {"CPU": imports, "CPU of kernelpde": stages.report()["CPU"]}}
    solution = solve()
    phases["first"] = stages.report()
    solve()
    phases["again"] = stages.report()
    if case == "readme":
        float(solution["u"].error([[0.5, 0.5]])[0])
        phases["error"] = stages.report()
        solution.plot().savefig(os.devnull, format="png")
        phases["plot"] = stages.report()
    print(json.dumps(phases))


def main(arguments: list[str]) -> None:
    options = parser(__doc__)
    options.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    core = sorted(os.sched_getaffinity(0))[:1] if hasattr(os, "sched_getaffinity") else None
    for case in options.parse_args(arguments).cases:
        for seed in range(repeats(3)):
            with tempfile.TemporaryDirectory() as cache:
                for process in ("empty cache", "second process"):
                    phases = in_process(
                        ["-m", "benchmarks.speed.programs", case],
                        cores=core,
                        environment={
                            "JAX_COMPILATION_CACHE_DIR": cache,
                            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
                            "OPENBLAS_NUM_THREADS": "1",
                        },
                    )
                    record("programs", {"case": f"{case}, {process}", "seed": seed, **phases})


if __name__ == "__main__":
    child(sys.argv[1])
