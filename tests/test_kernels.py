"""Kernels combine, and their partials up to fourth order are right to 50 digits."""

from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
import tinygp

import kernelpde as kp
from kernelpde.kernels import (
    AbstractKernel,
    Constant,
    FeatureKernel,
    FunctionKernel,
    Gaussian,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    freeze,
    hyperparameters,
)

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


ORDERS = [order for order in product(range(3), repeat=2) if sum(order) <= 2]
PAIRS = [(alpha, beta) for alpha in ORDERS for beta in ORDERS]
POINTS = [
    ((0.31, 0.72), (0.55, 0.14)),
    ((0.9, 0.2), (0.85, 0.23)),
    ((-0.4, 1.1), (0.7, 0.6)),
    ((0.37, 0.59), (0.37, 0.59)),
    ((0.25, 0.5), (0.25, 0.8)),
]
LENGTHS = (0.7, 1.3)


class Softened(eqx.Module):
    """A user's own kernel with a parameter: 1 / (1 + w (sin x0 - sin y0)² + (x1 - y1)²)."""

    weight: jax.Array

    def __call__(self, x, y):
        gap = jnp.sin(x[0]) - jnp.sin(y[0])
        return 1.0 / (1.0 + self.weight * gap**2 + (x[1] - y[1]) ** 2)


# Each reference is written from the textbook formula, as a function of the positive parameters.


def _squared(x, y, lengths):
    return sum(((a - b) / ell) ** 2 for a, b, ell in zip(x, y, lengths, strict=True))


def _gaussian(x, y, *lengths):
    return mp.exp(-_squared(x, y, lengths * (2 // len(lengths))) / 2)


def _matern(nu):
    def kernel(x, y, *lengths):
        z = mp.sqrt(2 * mp.mpf(nu) * _squared(x, y, lengths * (2 // len(lengths))))
        if z == 0:
            return mp.mpf(1)
        return 2 ** (1 - mp.mpf(nu)) / mp.gamma(nu) * z**nu * mp.besselk(nu, z)

    return kernel


def _rational(x, y, ell, a):
    return (1 + _squared(x, y, (ell, ell)) / (2 * a)) ** (-a)


def _periodic(x, y, *lengths):
    periods = (mp.mpf(2), mp.mpf("1.7"))
    angles = [
        2 * mp.sin(mp.pi * (a - b) / p) ** 2 / ell**2
        for a, b, p, ell in zip(x, y, periods, lengths, strict=True)
    ]
    return mp.exp(-sum(angles))


def _polynomial(degree):
    return lambda x, y, c, a: (c + a * sum(p * q for p, q in zip(x, y, strict=True))) ** degree


def _softened(x, y, w):
    return 1 / (1 + w * (mp.sin(x[0]) - mp.sin(y[0])) ** 2 + (x[1] - y[1]) ** 2)


def _one(x, y, i, ell):
    return mp.exp(-(((x[i] - y[i]) / ell) ** 2) / 2)


def _additive(x, y, ell, variance, c, a):
    return variance * _gaussian(x, y, ell) + _polynomial(2)(x, y, c, a)


def _separable(x, y, l0, l1):
    z = mp.sqrt(7) * abs(x[1] - y[1]) / l1
    matern = mp.exp(-z) * (1 + z + 2 * z**2 / 5 + z**3 / 15)
    return _one(x, y, 0, l0) * matern


def _product(x, y, ell, c, a):
    return _gaussian(x, y, ell) * _polynomial(2)(x, y, c, a)


def _features(x, y, v, w):
    one, two = (mp.sin(2 * p[0]) * p[1] ** 3 for p in (x, y))
    return v * one * two + w * mp.exp(x[0] - x[1]) * mp.exp(y[0] - y[1])


CASES: dict[str, tuple[AbstractKernel, object, tuple[float, ...]]] = {
    "gaussian": (Gaussian(0.8), _gaussian, (0.8,)),
    "gaussian-per-coordinate": (Gaussian(LENGTHS), _gaussian, LENGTHS),
    "matern-5/2": (Matern(2.5, 0.8), _matern(2.5), (0.8,)),
    "matern-7/2": (Matern(3.5, LENGTHS), _matern(3.5), LENGTHS),
    "matern-9/2": (Matern(4.5, 0.8), _matern(4.5), (0.8,)),
    "matern-13/2": (Matern(6.5, 0.8), _matern(6.5), (0.8,)),
    "rational-quadratic": (RationalQuadratic(0.9, 1.6), _rational, (0.9, 1.6)),
    "periodic": (Periodic(LENGTHS, (2.0, 1.7)), _periodic, LENGTHS),
    "polynomial-2": (Polynomial(2, 1.3, 0.7), _polynomial(2), (1.3, 0.7)),
    "polynomial-5": (Polynomial(5, 1.3, 0.7), _polynomial(5), (1.3, 0.7)),
    "constant": (Constant(1.7), lambda x, y, v: v + 0 * x[0] * y[0], (1.7,)),
    "user": (FunctionKernel(Softened(jnp.asarray(0.6))), _softened, (0.6,)),
    "sum-and-scale": (
        1.9 * Gaussian(0.8) + Polynomial(2, 1.3, 0.7),
        _additive,
        (0.8, 1.9, 1.3, 0.7),
    ),
    "product-of-coordinates": (
        Gaussian(0.7).on(0) * Matern(3.5, 1.3).on(1),
        _separable,
        (0.7, 1.3),
    ),
    "product": (Gaussian(0.8) * Polynomial(2, 1.3, 0.7), _product, (0.8, 1.3, 0.7)),
    "features": (
        FeatureKernel(lambda x: (jnp.sin(2 * x[0]) * x[1] ** 3, jnp.exp(x[0] - x[1])), (0.6, 1.4)),
        _features,
        (0.6, 1.4),
    ),
    "frozen": (freeze(Gaussian(LENGTHS)), _gaussian, LENGTHS),
}


def _exact(reference, parameters, x, y, alpha, beta, parameter=None):
    """A mixed partial, and if asked the derivative in the logarithm of a parameter too."""
    with mp.workdps(50):
        values = [mp.mpf(p) for p in parameters]
        at = [mp.mpf(c) for c in (*x, *y)]

        def function(*arguments):
            shifted = list(values)
            if parameter is not None:
                shifted[parameter] = values[parameter] * mp.exp(arguments[4])
            return reference(arguments[:2], arguments[2:4], *shifted)

        orders = [*alpha, *beta]
        if parameter is not None:
            at.append(mp.mpf(0))
            orders.append(1)
        if not any(orders):
            return function(*at)
        return mp.diff(function, tuple(at), tuple(orders))


def _ours(kernel, x, y, pairs):
    values = kernel.partials(
        tuple(jnp.asarray(c) for c in x), tuple(jnp.asarray(c) for c in y), pairs
    )
    return [jnp.zeros(()) if value is None else value for value in values]


def _numbers(kernel, x, y, pairs):
    return [mp.mpf(float(value)) for value in _ours(kernel, x, y, pairs)]


def _size(reference, parameters, x, y, alpha, beta):
    """The bound of Cauchy and Schwarz on a mixed partial: what its rounding is measured by."""
    left = _exact(reference, parameters, x, x, alpha, alpha)
    right = _exact(reference, parameters, y, y, beta, beta)
    return mp.sqrt(abs(left * right))


@pytest.mark.parametrize("name", CASES)
def test_partials(name):
    kernel, reference, parameters = CASES[name]
    for x, y in POINTS:
        for (alpha, beta), value in zip(PAIRS, _numbers(kernel, x, y, PAIRS), strict=True):
            exact = _exact(reference, parameters, x, y, alpha, beta)
            size = _size(reference, parameters, x, y, alpha, beta)
            # Relative to the value itself, except where it nearly vanishes by cancellation.
            scale = max(abs(exact), mp.mpf("1e-2") * size)
            assert abs(value - exact) <= 1e-12 * scale, (x, y, alpha, beta)


HIGHER = [
    *product([(3, 0), (4, 0), (2, 2)], [(0, 0), (0, 1), (3, 0), (2, 2), (0, 4)]),
    *product([(1, 2), (0, 4)], [(4, 0), (1, 2)]),
]
ROUGH = ("matern-5/2", "matern-7/2", "product-of-coordinates")


SOME = [((3, 0), (3, 0)), ((4, 0), (0, 0))]


@pytest.mark.parametrize(
    "pairs", [SOME, pytest.param(HIGHER, marks=pytest.mark.slow)], ids=["some", "all"]
)
@pytest.mark.parametrize("name", [n for n in CASES if n not in ROUGH])
def test_third_and_fourth_derivatives(name, pairs):
    kernel, reference, parameters = CASES[name]
    for x, y in (POINTS[0], POINTS[3]):
        for (alpha, beta), value in zip(pairs, _numbers(kernel, x, y, pairs), strict=True):
            exact = _exact(reference, parameters, x, y, alpha, beta)
            size = _size(reference, parameters, x, y, alpha, beta)
            scale = max(abs(exact), mp.mpf("1e-2") * size)
            assert abs(value - exact) <= 1e-11 * scale, (x, y, alpha, beta)


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("frozen", "matern-13/2")])
def test_hyperparameter_gradients(name):
    kernel, reference, parameters = CASES[name]
    learned, fixed = eqx.partition(kernel, eqx.is_inexact_array)
    pairs = [((0, 0), (0, 0)), ((2, 0), (2, 0)), ((2, 0), (0, 2)), ((1, 1), (0, 1))]
    for x, y in (POINTS[0], POINTS[3]):

        def partials(k, x=x, y=y):
            return _ours(eqx.combine(k, fixed), x, y, pairs)

        jacobian = jax.jacfwd(partials)(learned)
        for (alpha, beta), row in zip(pairs, jacobian, strict=True):
            gradient = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(row)])
            assert len(gradient) == len(parameters)
            size = _size(reference, parameters, x, y, alpha, beta)
            for i, value in enumerate(map(float, gradient)):
                exact = _exact(reference, parameters, x, y, alpha, beta, i)
                if name == "user":  # its parameter is not kept as a logarithm
                    exact = exact / mp.mpf(parameters[0])
                scale = max(abs(exact), mp.mpf("1e-2") * size)
                assert abs(value - exact) <= 1e-10 * scale, (x, y, alpha, beta, i)


def test_reverse_mode_agrees_with_forward_mode():
    kernel = Matern(2.5, LENGTHS)
    (x, y), pairs = POINTS[3], [((2, 0), (2, 0)), ((2, 0), (0, 2))]
    forward = jax.jacfwd(lambda k: _ours(k, x, y, pairs))(kernel)
    reverse = jax.jacrev(lambda k: _ours(k, x, y, pairs))(kernel)
    for a, b in zip(forward, reverse, strict=True):
        np.testing.assert_allclose(a.log_lengthscale, b.log_lengthscale, rtol=1e-14, atol=1e-14)


def test_double_laplacian_of_matern_at_coincident_points():
    """66.667 with derivative -266.667: where naive automatic differentiation says 100 or 0."""
    second = [(2, 0), (0, 2)]
    pairs = [(a, b) for a in second for b in second]
    x = (0.3, 0.1)

    def double_laplacian(kernel):
        return sum(_ours(kernel, x, x, pairs))

    kernel = Matern(2.5, 1.0)
    assert double_laplacian(kernel) == pytest.approx(200 / 3, rel=1e-14)
    slope = jax.grad(double_laplacian)(kernel).log_lengthscale
    assert slope == pytest.approx(-800 / 3, rel=1e-14)


def test_nearly_coincident_points_are_finite():
    kernel = Matern(2.5, 1.0)
    for gap in (1e-8, 1e-40, 1e-160, 5e-324):
        (value,) = _ours(kernel, (gap, 0.0), (0.0, 0.0), [((2, 0), (2, 0))])
        assert value == pytest.approx(25.0, rel=1e-6)
