"""Time of matrices, steps and posteriors in Cholesky factorizations of the same size.

    python -m benchmarks speed gram|step|learning|networks|deviations|cores

`gram`: Gram matrices of three kernels. `step`: a Gauss-Newton step. `learning`: loss, gradient and
curvature of the published outer loss, at two sizes, and their memory. `networks`: a Gibbs kernel
with two networks. `deviations`: posterior standard deviations at 10,000 points. `cores`: loss and
gradient of the Gibbs kernel on one core and on all.
"""

import os
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import kernelpde as kp
from benchmarks._report import parser, record, repeats
from benchmarks._timing import against_cholesky, in_process, seconds
from benchmarks.speed._losses import published_loss
from kernelpde.bilevel import damped_direction, loss_and_curvature, loss_and_gradient
from kernelpde.compiling import compiled
from kernelpde.functionals import block_gram
from kernelpde.gallery import burgers, darcy, elliptic
from kernelpde.inference import PosteriorView
from kernelpde.nonlinear import discretize, take_step, zero_iterate

SIZES = {1200: {"equation": 900, "boundary": 300}, 4200: {"equation": 3600, "boundary": 600}}


def assembled(kernel: kp.AbstractKernel, points: dict[str, int]):
    """The elliptic functionals, and a matrix of their size that can be factored."""
    problem = elliptic(kernel=kernel).problem
    blocks = problem.collocate(points, sampling="uniform")
    state = tuple(
        jnp.ones((len(block.points), len(residual.nonlinear)))
        for residual, block in zip(problem.residuals, blocks, strict=True)
    )
    batches = problem.at_points(blocks).linearize(state).batches
    matrix = np.asarray(block_gram(problem.prior, batches))
    scale = 1 / np.sqrt(np.diag(matrix))
    return problem, batches, scale[:, None] * matrix * scale + 1e-8 * np.eye(len(matrix))


def gram() -> None:
    def user_written(x, y):
        return jnp.exp(-jnp.sum((x - y) ** 2) / (2 * 0.2**2))

    kernels = {
        "Gaussian": kp.Gaussian(0.2),
        "Matern-7/2": kp.Matern(3.5, 0.3),
        "user-written": kp.FunctionKernel(user_written),
    }
    assemble = eqx.filter_jit(block_gram)
    for name, kernel in kernels.items():
        problem, batches, matrix = assembled(kernel, {"equation": 900, "boundary": 300})
        figures = against_cholesky(lambda p=problem, b=batches: assemble(p.prior, b), matrix)
        record("speed", {"case": f"Gram matrix, {name}", **figures})


def step() -> None:
    points = {"equation": 1800, "boundary": 300}
    problem, _, matrix = assembled(kp.Gaussian(0.2), points)
    solver = kp.Dense(nugget=1e-12)
    inputs = discretize(problem, points, sampling="uniform", linear_solver=solver).solve_inputs
    iterate = zero_iterate(inputs)

    def newton(iterate):
        return take_step(
            inputs,
            iterate,
            damping=jnp.zeros(()),
            nugget=jnp.zeros(()),
            row_scale=jnp.zeros_like(iterate.linear_part),
            max_scale_ratio=jnp.zeros(()),
            sweeps=jnp.asarray(0),
        )

    for _ in range(3):
        iterate = newton(iterate)[0].iterate
    figures = against_cholesky(lambda: newton(iterate), matrix)
    record("speed", {"case": "Gauss-Newton step", **figures})


def learning() -> None:
    for rows, points in SIZES.items():
        loss, matrix = published_loss(elliptic(0.2), points)
        theta = jnp.asarray(loss.linearized.theta_map.vector)
        program: Any = eqx.filter_jit(loss_and_curvature)
        memory = program.lower(theta, loss).compile().compiled.memory_analysis()
        figures = against_cholesky(
            lambda theta=theta, loss=loss: loss_and_curvature(theta, loss),
            matrix,
            count=15 if rows < 3000 else 7,
        )
        needed = memory.temp_size_in_bytes + memory.output_size_in_bytes
        case = f"learning step, {rows} rows"
        record("speed", {"case": case, **figures, "memory in matrices": needed / (8 * rows**2)})


def networks() -> None:
    example = burgers(kernel="network")
    loss, matrix = published_loss(example, example.training)
    theta = jnp.asarray(loss.linearized.theta_map.vector)
    kernels = loss.linearized.theta_map.prior(theta)
    assemble = compiled(block_gram)
    cases = {
        "Gram matrix": lambda: assemble(kernels, loss.linearized.training_system.batches),
        "loss and gradient": lambda: loss_and_gradient(theta, loss)[:2],
        "conjugate-gradient step": lambda: damped_direction(theta, loss, jnp.asarray(1e-2), 12),
    }
    for case, function in cases.items():
        first = {"seconds of the first call": seconds(function)}
        figures = against_cholesky(function, matrix, 9)
        record("speed", {"case": f"{case}, networks", **figures, **first})


def deviations() -> None:
    example = darcy(0.2, observations=200)
    solver = kp.Dense(nugget=1e-10, refinement_sweeps=0)
    points = {"equation": 1600, "boundary": 200}
    solution = kp.solve(example.problem, points, linear_solver=solver, throw=False)
    posterior = kp.posterior(solution)
    gp = posterior.components[0]
    places = np.random.default_rng(0).random((10_000, 2))
    random = np.random.default_rng(0).standard_normal((2000, 2000))
    matrix = random @ random.T + 2000 * np.eye(2000)
    for field in ("u", "a"):
        view = posterior[field]
        assert isinstance(view, PosteriorView)
        functionals = view.functionals(places)
        figures = against_cholesky(lambda f=functionals: posterior.std(f), matrix, 7)
        exact = against_cholesky(lambda f=functionals: gp.exact_std(f), matrix, 3)
        gap = np.abs(posterior.std(functionals) / gp.exact_std(functionals) - 1)
        record(
            "speed",
            {
                "case": f"standard deviations of {field}",
                **figures,
                "ratio, one by one": exact["ratio"],
                "largest relative difference": np.max(gap),
            },
        )


_CORES = """
import jax
jax.config.update("jax_enable_x64", True)
from benchmarks._timing import seconds
from benchmarks.speed._losses import published_loss
from kernelpde.gallery import burgers
from kernelpde.bilevel import loss_and_gradient
example = burgers(kernel="network")
loss, _ = published_loss(example, example.training)
step = lambda: loss_and_gradient(loss.linearized.theta_map.vector, loss)[:2]
step()
print(min(seconds(step) for _ in range(9)))
"""


def cores() -> None:
    available = sorted(os.sched_getaffinity(0))
    for seed in range(repeats(3)):
        one, everything = (
            in_process(
                ["-c", _CORES],
                cores=cores,
                environment={"OPENBLAS_NUM_THREADS": str(len(cores))},
            )
            for cores in (available[:1], available)
        )
        record(
            "speed",
            {
                "case": "cores",
                "seed": seed,
                "cores": len(available),
                "seconds on one": one,
                "seconds on all": everything,
                "ratio": one / everything,
            },
        )


PARTS = {f.__name__: f for f in (gram, step, learning, networks, deviations, cores)}


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    for part in command.parse_args(arguments).parts or PARTS:
        PARTS[part]()
