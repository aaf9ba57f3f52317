"""Kernels as trees of hyperparameters, and how they combine."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tinygp

import kernelpde as kp
from kernelpde.kernels import hyperparameters

X, Y = np.array([0.3, 0.7]), np.array([0.55, 0.1])

EUCLIDEAN = tinygp.kernels.distance.L2Distance()
AGAINST_TINYGP = {
    "gaussian": (kp.Gaussian(0.4), tinygp.kernels.ExpSquared(scale=0.4)),
    "matern-3/2": (
        kp.Matern(1.5, 0.4),
        tinygp.kernels.Matern32(0.4, EUCLIDEAN),
    ),
    "matern-5/2": (
        kp.Matern(2.5, 0.4),
        tinygp.kernels.Matern52(0.4, EUCLIDEAN),
    ),
    "rational-quadratic": (
        kp.RationalQuadratic(0.4, 1.7),
        tinygp.kernels.RationalQuadratic(0.4, EUCLIDEAN, alpha=1.7),
    ),
    "polynomial": (kp.Polynomial(3, 1.44, 1.0), tinygp.kernels.Polynomial(order=3, sigma=1.2)),
}


@pytest.mark.parametrize("name", AGAINST_TINYGP)
def test_values_agree_with_another_library(name):
    ours, theirs = AGAINST_TINYGP[name]
    assert ours(X, Y) == pytest.approx(float(theirs.evaluate(X, Y)), rel=1e-14)


def test_hyperparameters_are_the_inexact_array_leaves():
    kernel = 2.0 * kp.Gaussian([0.1, 0.3]) + kp.Polynomial(2, 1.5, 0.5) * kp.Constant(3.0)
    leaves = [leaf for leaf in jax.tree.leaves(kernel) if eqx.is_inexact_array(leaf)]
    assert sum(leaf.size for leaf in leaves) == 6
    named = hyperparameters(kernel)
    assert set(named) == {
        "first.kernel.lengthscale",
        "first.variance",
        "second.first.offset",
        "second.first.slope",
        "second.second.variance",
    }
    np.testing.assert_allclose(named["first.kernel.lengthscale"], [0.1, 0.3], rtol=1e-15)
    assert named["second.first.offset"] == pytest.approx(1.5, rel=1e-15)


def test_positive_parameters_are_kept_as_logarithms():
    assert kp.Gaussian(0.2).log_lengthscale == pytest.approx(np.log(0.2), rel=1e-15)
    assert kp.Gaussian(0.2).lengthscale == pytest.approx(0.2, rel=1e-15)


def test_a_period_is_not_a_hyperparameter():
    assert set(hyperparameters(kp.Periodic(1.0, 2.0))) == {"lengthscale"}


def test_freezing_everything_leaves_no_hyperparameters():
    frozen = kp.freeze(2.0 * kp.Gaussian([0.1, 0.3]))
    assert hyperparameters(frozen) == {}
    assert frozen(X, Y) == (2.0 * kp.Gaussian([0.1, 0.3]))(X, Y)


def test_freezing_a_part_keeps_the_rest():
    kernel = 2.0 * kp.Gaussian([0.1, 0.3])
    frozen = kp.freeze(kernel, lambda k: k.kernel.log_lengthscale)
    assert list(hyperparameters(frozen)) == ["trainable.variance"]
    gradient = jax.grad(lambda k: k(X, Y))(frozen)
    leaves = [leaf for leaf in jax.tree.leaves(gradient) if eqx.is_inexact_array(leaf)]
    np.testing.assert_allclose(leaves, [kernel(X, Y)], rtol=1e-15)


def test_frozen_kernels_can_be_arguments_of_compiled_functions():
    first = eqx.filter_jit(lambda k: k(X, Y))(kp.freeze(kp.Gaussian(0.4)))
    again = eqx.filter_jit(lambda k: k(X, Y))(kp.freeze(kp.Gaussian(0.5)))
    assert first == pytest.approx(float(kp.Gaussian(0.4)(X, Y)), rel=1e-15)
    assert again == pytest.approx(float(kp.Gaussian(0.5)(X, Y)), rel=1e-15)


def test_restriction_by_name_and_by_index_agree():
    named = (kp.Gaussian(0.4).on("y") * kp.Matern(2.5, 0.3).on("x")).bind_coordinates(("x", "y"))
    indexed = kp.Gaussian(0.4).on(1) * kp.Matern(2.5, 0.3).on(0)
    assert named(X, Y) == indexed(X, Y)
    nested = kp.Gaussian(0.4).on("y").on("x", "y").bind_coordinates(("x", "y"))
    assert nested(X, Y) == kp.Gaussian(0.4).on(1)(X, Y)


def test_derivatives_that_vanish_are_left_out():
    x = y = (jnp.asarray(0.1), jnp.asarray(0.2))
    values = kp.Gaussian(0.4).on(0).partials(x, y, [((0, 1), (0, 0)), ((1, 0), (0, 0))])
    assert values[0] is None
    assert values[1] is not None
    assert kp.Polynomial(2).partials(x, y, [((2, 0), (1, 0))])[0] is not None
    assert kp.Polynomial(2).partials(x, y, [((2, 1), (0, 0))])[0] is None


class _Matrix(eqx.Module):
    """Uses a product with a matrix, reductions, reshapes and a jitted helper."""

    matrix: jax.Array

    def __call__(self, x, y):
        z = self.matrix @ (x - y)
        total = jax.jit(lambda a: jnp.sum(a * a))(jnp.concatenate([z, z[::-1]]))
        return jnp.exp(-total / 4.0) * jnp.where(total > 0, 1.0, 1.0)


def test_a_user_kernel_is_taken_apart_into_components():
    ours = kp.FunctionKernel(_Matrix(jnp.diag(jnp.array([2.0, 0.5]))))
    same = kp.Gaussian([0.5, 2.0])
    x = tuple(jnp.linspace(0, 1, 5)[:, None] * s for s in (1.0, 0.7))
    y = tuple(jnp.linspace(0.2, 0.9, 4)[None, :] * s for s in (0.6, 1.0))
    orders = [((0, 0), (0, 0)), ((2, 0), (0, 2)), ((1, 1), (1, 0)), ((2, 0), (2, 0))]
    for a, b in zip(ours.partials(x, y, orders), same.partials(x, y, orders), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


def test_a_user_kernel_that_cannot_be_taken_apart_still_works():
    def through_a_sort(x, y):
        return jnp.exp(-0.5 * jnp.sum(jnp.sort((x - y) ** 2)))

    x = tuple(jnp.linspace(0, 1, 5)[:, None] * s for s in (1.0, 0.7))
    y = tuple(jnp.linspace(0.2, 0.9, 4)[None, :] * s for s in (0.6, 1.0))
    orders = [((0, 0), (0, 0)), ((2, 0), (0, 2)), ((1, 0), (1, 0))]
    ours = kp.FunctionKernel(through_a_sort).partials(x, y, orders)
    for a, b in zip(ours, kp.Gaussian(1.0).partials(x, y, orders), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_representation_shows_the_positive_numbers():
    assert repr(kp.Gaussian(0.25)) == "Gaussian(lengthscale=0.25)"
