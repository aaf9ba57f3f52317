"""Correlated fields: the covariance of mixed functions, and what learning the mixing gains."""

import jax.numpy as jnp
import numpy as np
import pytest

import kernelpde as kp
from kernelpde.functionals import (
    Functionals,
    Prior,
    StackedFunctionals,
    Term,
    block_gram,
    gram,
    stacked_matvec,
)

LATENTS = (kp.Gaussian(0.3), kp.Matern(3.5, 0.5))
MIXING = np.array([[1.0, 0.4], [-0.7, 0.9]])
LINE = kp.Box(x=(0, 1))


def batch(field, order, count, seed):
    rng = np.random.default_rng(seed)
    return Functionals(
        jnp.asarray(rng.random((count, 1))),
        jnp.asarray(rng.standard_normal((count, 1))),
        (Term(field, ((order,),)),),
    )


def test_covariances_are_those_of_the_mixed_functions():
    mixed = Prior(LATENTS, jnp.asarray(MIXING))
    for f in (0, 1):
        for g in (0, 1):
            left, right = batch(f, 2, 5, 1), batch(g, 1, 4, 2)
            expected = sum(
                MIXING[f, q] * MIXING[g, q] * gram(Prior((kernel,)), _alone(left), _alone(right))
                for q, kernel in enumerate(LATENTS)
            )
            np.testing.assert_allclose(gram(mixed, left, right), expected, rtol=1e-12, atol=1e-12)


def _alone(functionals):
    terms = tuple(Term(0, term.orders) for term in functionals.terms)
    return Functionals(functionals.points, functionals.coefficients, terms)


def test_no_mixing_is_independence():
    both = [batch(0, 0, 6, 1), batch(1, 2, 5, 2)]
    mixed = Prior(LATENTS, jnp.eye(2))
    np.testing.assert_allclose(block_gram(mixed, both), block_gram(Prior(LATENTS), both))
    v = jnp.arange(5.0)
    rows = both[1]
    stacks = (StackedFunctionals(rows.points, rows.coefficients[:, None], rows.terms, ((0,),)),)
    np.testing.assert_allclose(
        stacked_matvec(mixed, stacks, stacks, v), gram(Prior(LATENTS), rows, rows) @ v, rtol=1e-10
    )


def observe_u(x, u, y):
    return u.value - y


def observe_v(x, v, y):
    return v.value - y


def pair(seed, mixing):
    """v is observed at few points; u, nearly proportional to it, at many."""
    rng = np.random.default_rng(seed)
    phase = rng.random(3)

    def latent(x, k):
        return np.sin(7 * x + 6 * phase[k]) + 0.5 * np.cos(13 * x + 6 * phase[2 - k])

    def u(x):
        return latent(x, 0)

    def v(x):
        return -1.5 * latent(x, 0) + 0.1 * latent(x, 1)

    many, few = rng.random((40, 1)), rng.random((8, 1))
    problem = kp.Problem(
        kp.Condition("u data", many, observe_u, noise=1e-3, data={"y": u(many[:, 0])}),
        kp.Condition("v data", few, observe_v, noise=1e-3, data={"y": v(few[:, 0])}),
        fields=[kp.Field("u", kp.Gaussian(0.2)), kp.Field("v", kp.Gaussian(0.2))],
        mixing=mixing,
    )
    learned = kp.learn(problem, validation=kp.KFold(), throw=False)
    grid = np.linspace(0, 1, 101)
    error = np.asarray(learned.solution["v"](grid[:, None])) - v(grid)
    return np.sqrt(np.mean(error**2)), learned


def test_learned_mixing_lowers_the_error_of_correlated_fields():
    apart = [pair(seed, None)[0] for seed in range(5)]
    mixed = [pair(seed, [[1.0, 0.1], [0.1, 1.0]])[0] for seed in range(5)]
    print(f"independent {np.median(apart):.1e}, mixed {np.median(mixed):.1e}")
    assert np.median(mixed) < 0.5 * np.median(apart)


def test_mixing_is_a_square_matrix():
    with pytest.raises(kp.InputError, match="one row per real field"):
        pair(0, [[1.0, 0.0]])
