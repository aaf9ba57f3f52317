"""CPU time of the first answer over that of importing JAX and kernelpde.

Each line is a process of its own on one core. The README's problem has 280 rows. `empty cache`:
nothing compiled before. `second process`: programs are on disk. `other equation`: in the same
process, with the same derivatives and kernel. `other counts`: 195 and 77 points instead of 200 and
80.
"""

import os
import tempfile

from benchmarks._report import parser, record, repeats
from benchmarks._timing import in_process

_CHILD = """
import sys, time, json
start = time.process_time()
import jax
jax.config.update("jax_enable_x64", True)
import kernelpde as kp
imported = time.process_time() - start
import jax.numpy as jnp
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
seconds = {"import": imported}
def timed(name, problem, equation=200, boundary=80):
    start = time.process_time()
    action(problem, {"equation": equation, "boundary": boundary}, **options)
    seconds[name] = time.process_time() - start
timed("first", cubic)
timed("again", cubic)
timed("other equation", sine)
timed("other counts", cubic, 195, 77)
print(json.dumps(seconds))
"""

CALLS = ("first", "again", "other equation", "other counts")


def main(arguments: list[str]) -> None:
    parser(__doc__).parse_args(arguments)
    core = sorted(os.sched_getaffinity(0))[:1] if hasattr(os, "sched_getaffinity") else None
    for action in ("solve", "learn"):
        for seed in range(repeats(5)):
            with tempfile.TemporaryDirectory() as cache:
                for case in ("empty cache", "second process"):
                    seconds = in_process(
                        ["-c", _CHILD, action],
                        cores=core,
                        environment={
                            "JAX_COMPILATION_CACHE_DIR": cache,
                            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                            "OPENBLAS_NUM_THREADS": "1",
                        },
                    )
                    ratios = {call: seconds[call] / seconds["import"] for call in CALLS}
                    line = {"case": f"{action}, {case}", "seed": seed, **ratios}
                    record("first-use", line | {"CPU seconds of imports": seconds["import"]})
