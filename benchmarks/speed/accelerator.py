"""Time, operations and bytes of the parts of a learning step on the present device.

    python -m benchmarks accelerator [--sizes 1000,2000,4000]

Gram matrix, factorization, solve and learning step of the paper's elliptic problem: on a machine
with a GPU, `pip install kernelpde "jax[cuda12]"` and run it. Operations and bytes of what XLA
compiles are counted by XLA; a factorization of n rows is n³ / 3 operations, a solve reads the
triangle twice.
"""

import statistics
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from benchmarks._report import parser, record, repeats
from benchmarks._timing import seconds
from benchmarks.speed._losses import published_loss
from kernelpde.bilevel import loss_and_curvature
from kernelpde.functionals import block_gram
from kernelpde.gallery import elliptic
from kernelpde.linear_solvers import cholesky, cholesky_solve

EXPONENTIAL = 20
"""Operations that one exponential in double precision counts for."""


def parts(size: int) -> dict[str, tuple[Callable[[], Any], float, float]]:
    """Each part as a function, its operations and its bytes."""
    example = elliptic(0.2)
    points = {"equation": 3 * size // 4, "boundary": size // 4}
    loss, matrix = published_loss(example, points)
    rows, theta = (
        len(loss.linearized.training_system.rhs),
        jnp.asarray(loss.linearized.theta_map.vector),
    )
    kernels, batches = (
        loss.linearized.theta_map.prior(theta),
        loss.linearized.training_system.batches,
    )
    on_device, rhs = jnp.asarray(matrix), jnp.ones(rows)
    assemble: Any = eqx.filter_jit(block_gram)
    step: Any = eqx.filter_jit(loss_and_curvature)
    factored, apply = jax.jit(cholesky), jax.jit(cholesky_solve)
    factor = factored(on_device)[0]
    gram, learning = (
        _counted(assemble.lower(kernels, batches)),
        _counted(step.lower(theta, loss)),
    )
    cubic, square = rows**3 / 3, 8.0 * rows**2
    return {
        "Gram matrix": (lambda: assemble(kernels, batches), *gram),
        "factorization": (lambda: factored(on_device), cubic, square),
        "solve": (lambda: apply(factor, rhs), 2.0 * rows**2, square),
        "learning step": (
            lambda: step(theta, loss),
            learning[0] + cubic,
            learning[1] + square,
        ),
    }


def _counted(lowered: Any) -> tuple[float, float]:
    """Operations and bytes of a program, without what it calls."""
    found = lowered.compile().compiled.cost_analysis()
    operations = found.get("flops", 0.0) + EXPONENTIAL * found.get("transcendentals", 0.0)
    return float(operations), float(found.get("bytes accessed", 0.0))


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("--sizes", default="1000,2000,4000")
    device = jax.devices()[0]
    for size in map(int, command.parse_args(arguments).sizes.split(",")):
        for part, (function, operations, moved) in parts(size).items():
            jax.block_until_ready(function())
            record(
                "accelerator",
                {
                    "case": f"{device.device_kind}, {size} rows, {part}",
                    "device": device.device_kind,
                    "platform": device.platform,
                    "rows": size,
                    "part": part,
                    "seconds": statistics.median(seconds(function) for _ in range(repeats(5))),
                    "operations": operations,
                    "bytes": moved,
                },
            )
