"""A parameter sweep by `vmap` against a loop of `solve`, and derivatives against differences.

    python benchmarks/transformations.py sweep
    python benchmarks/transformations.py compile

`sweep`: 1,000 values of an input of the README's problem (280 rows), in batches of 50.
`compile`: CPU seconds to the first answer of jit, grad and vmap, and of the second.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from _report import write

import kernelpde as kp

jax.config.update("jax_enable_x64", True)

PLACES = np.random.default_rng(1).uniform(0.1, 0.9, (20, 2))


def discretized() -> kp.Discretization:
    """-Δu + u³ = s sin(πx) sin(πy) on a square, 280 rows."""
    square = kp.Box(x=(0, 1), y=(0, 1))

    def equation(x, u, s):
        return -u.laplacian + u.value**3 - s * jnp.sin(jnp.pi * x[0]) * jnp.sin(jnp.pi * x[1])

    problem = kp.Problem(
        kp.Condition("equation", square.interior, equation),
        kp.Condition("boundary", square.boundary, lambda x, u: u.value),
        fields=[kp.Field("u", kp.Gaussian(0.3))],
        inputs={"s": 10.0},
    )
    return kp.discretize(problem, {"equation": 200, "boundary": 80})


def values(discretization: kp.Discretization) -> Callable[[Any], jax.Array]:
    return lambda s: kp.solve(discretization, inputs={"s": s})["u"](PLACES)


def sweep(count: int = 1000, batch: int = 50) -> dict[str, Any]:
    at = values(discretized())
    inputs = jnp.linspace(1.0, 40.0, count)
    batched = jax.jit(lambda s: jax.lax.map(at, s, batch_size=batch))
    jax.block_until_ready([at(1.0), at(2.0)])
    began = time.perf_counter()
    loop = np.stack([np.asarray(at(float(s))) for s in inputs])
    loop_seconds = time.perf_counter() - began
    began = time.perf_counter()
    program = batched.lower(inputs).compile()
    compile_seconds = time.perf_counter() - began
    began = time.perf_counter()
    found = np.asarray(program(inputs))
    seconds = time.perf_counter() - began
    return {
        "values": count,
        "batch": batch,
        "loop, seconds, compiled before": loop_seconds,
        "vmap, seconds": seconds,
        "vmap, seconds to compile": compile_seconds,
        "ratio": loop_seconds / seconds,
        "ratio, compilation counted": loop_seconds / (seconds + compile_seconds),
        "largest relative difference": float(np.max(np.abs(found - loop)) / np.max(np.abs(loop))),
    }


def first_answers() -> dict[str, Any]:
    discretization = discretized()
    at = values(discretization)

    def total(s):
        return jnp.sum(at(s))

    found = {}
    many = jnp.linspace(8.0, 12.0, 10)
    cases = {
        "solve": (at, 10.0),
        "jit": (jax.jit(at), 10.0),
        "jit(grad)": (jax.jit(jax.grad(total)), 10.0),
        "jit(jacfwd)": (jax.jit(jax.jacfwd(total)), 10.0),
        "jit(vmap), 10 values": (jax.jit(jax.vmap(at)), many),
    }
    for name, (function, argument) in cases.items():
        times = []
        for _ in range(3):
            began = time.process_time()
            jax.block_until_ready(function(argument))
            times.append(time.process_time() - began)
        found[name] = {"first, CPU seconds": times[0], "third, CPU seconds": times[2]}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="solve inside of transformations.")
    parser.add_argument("what", choices=("sweep", "compile"))
    what = parser.parse_args().what
    write(f"transformations-{what}", sweep() if what == "sweep" else first_answers())


if __name__ == "__main__":
    main()
