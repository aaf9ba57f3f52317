"""Programs for devices that are not here: lowered, not run.

What the CPU does without LAPACK is compared with what it does with it in
`test_features_with_solvers.py`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import kernelpde as kp
from kernelpde.gallery import burgers, elliptic
from kernelpde.learning import Loss, ThetaMap, outer_residual
from kernelpde.linear_solvers import DenseState


def loss_of(example, counts):
    problem = example.problem

    def rows(seed):
        blocks = problem.collocate(counts, seed=seed)
        state = tuple(
            jnp.ones((block.rows_per_equation, len(residual.nonlinear)))
            for residual, block in zip(problem.residuals, blocks, strict=True)
        )
        return problem.at_points(blocks).linearize(state)

    training, validation = rows(0), rows(1)
    plan = DenseState(kp.Dense(nugget=1e-10, refinement_sweeps=1))
    weights = jnp.ones(len(validation.rhs))
    parameters = ThetaMap.of(problem.prior)
    return Loss(parameters, training, validation, weights, plan, None)


@pytest.mark.parametrize(
    ("example", "counts"),
    [
        (elliptic(0.2), {"equation": 20, "boundary": 8}),
        (burgers(shape=(2, 3)), {"equation": 20, "ends": 6, "initial": 6}),
    ],
    ids=["constant lengthscale", "varying lengthscale"],
)
def test_a_learning_step_is_lowered_for_other_devices(example, counts):
    """Assembly, factorization, refinement and derivatives; nothing of it is the CPU's own."""
    loss = loss_of(example, counts)
    numbers, rest = eqx.partition(loss, eqx.is_array)

    def step(theta, numbers):
        return jax.jvp(
            lambda t: outer_residual(t, eqx.combine(numbers, rest))[0],
            (theta,),
            (jnp.ones_like(theta),),
        )

    theta = jnp.asarray(loss.theta_map.vector)
    traced = jax.jit(step).trace(theta, numbers)
    assert "lapack_dpotrf" in traced.lower(lowering_platforms=("cpu",)).as_text()
    for platform in ("cuda", "tpu"):
        there = traced.lower(lowering_platforms=(platform,)).as_text()
        assert "lapack" not in there
        assert "cholesky" in there or "potrf" in there
