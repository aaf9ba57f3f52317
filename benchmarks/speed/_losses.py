"""The outer loss whose cost is measured."""

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import kernelpde as kp
from kernelpde.bilevel import Objective
from kernelpde.functionals import block_gram
from kernelpde.gallery import Example
from kernelpde.learning import CollocationResidual, LinearizedCollocation, ThetaMap
from kernelpde.linear_solvers import DenseState


def published_loss(
    example: Example, points: Mapping[str, int], batch: int = 200
) -> tuple[Objective[LinearizedCollocation], np.ndarray]:
    """The outer loss on a batch of interior points, as published, and a matrix of its size."""
    problem = example.problem

    def rows(counts: Mapping[str, int], seed: int):
        blocks = problem.collocate(counts, seed=seed, sampling=example.sampling)
        state = tuple(
            jnp.ones((len(block.points), len(residual.nonlinear)))
            for residual, block in zip(problem.residuals, blocks, strict=True)
        )
        return problem.at_points(blocks).linearize(state)

    others = {name: 1 for name in points if name != "equation"}
    training, validation = rows(points, 0), rows({"equation": batch, **others}, 1)
    inside = len(validation.rhs) - len(others)
    weights = jnp.asarray([1.0] * inside + [0.0] * len(others))
    plan = DenseState(kp.Dense(nugget=1e-10, refinement_sweeps=0))
    theta_map = ThetaMap.of(problem.prior)
    linearized = LinearizedCollocation(theta_map, training, validation, weights, plan)
    loss = Objective(CollocationResidual(), linearized)
    matrix = np.asarray(eqx.filter_jit(block_gram)(problem.prior, training.batches))
    scale = 1 / np.sqrt(np.diag(matrix))
    return loss, scale[:, None] * matrix * scale + 1e-8 * np.eye(len(matrix))
