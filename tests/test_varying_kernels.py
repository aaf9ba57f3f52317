"""Kernels of fields agree with differentiation of the formula itself."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernelpde import functionals
from kernelpde.errors import InputError
from kernelpde.functionals import Functionals, Prior, StackedFunctionals, Term
from kernelpde.kernels import (
    BumpLengthscale,
    Gaussian,
    Gibbs,
    Matern,
    NetworkLengthscale,
    RationalQuadratic,
    Warped,
    freeze,
)

KEY = jax.random.key(0)
QUICK = {"xla_backend_optimization_level": 0}
"""For what is compiled once and run once."""

gram = eqx.filter_jit(functionals.gram)
gram_diagonal = eqx.filter_jit(functionals.gram_diagonal)
jets = eqx.filter_jit(functionals.evaluate_jets)
stacked_matvec = eqx.filter_jit(functionals.stacked_matvec)


def close(found, expected, tolerance=1e-12):
    found, expected = np.asarray(found), np.asarray(expected)
    scale = np.max(np.abs(expected))
    np.testing.assert_allclose(found / scale, expected / scale, rtol=0, atol=tolerance)


class Wavy(eqx.Module):
    """A lengthscale of a user's own, with hyperparameters, cheap to differentiate."""

    rates: jax.Array
    outputs: int = eqx.field(static=True)

    def __call__(self, x):
        phase = self.rates[: self.outputs] * x[0] * x[-1] + x[: self.outputs]
        return 0.4 + 0.2 * jnp.sin(phase)


def wavy(dimension=2, outputs=2):
    return Gibbs(Wavy(jnp.array([2.0, 3.0, 1.5]), min(outputs, dimension)))


def network_gibbs():
    return Gibbs(NetworkLengthscale(2, 2, key=KEY, width=5, depth=1, scale=0.5))


def varied_bumps():
    field = BumpLengthscale([0.4, 0.7], [(0, 1), (0, 1)], (3, 2))
    numbers = np.random.default_rng(1).normal(size=(2, 6))
    return Gibbs(eqx.tree_at(lambda f: f.coefficients, field, 0.3 * jnp.asarray(numbers)))


class Bend(eqx.Module):
    rates: jax.Array

    def __call__(self, x):
        return jnp.array([1.0, 0.5, 2.0]) * jnp.sin(self.rates * (x[0] + x[1] ** 2))


def warp(kernel):
    return Warped(kernel, Bend(jnp.array([0.7, 0.9, 1.1])))


KERNELS = {
    "one lengthscale": wavy(outputs=1),
    "two lengthscales": wavy(),
    "network": network_gibbs(),
    "bumps": varied_bumps(),
    "warped gaussian": warp(Gaussian([0.5, 0.8, 0.6])),
    "warped matern": warp(Matern(3.5, 0.7)),
    "warped rational": warp(RationalQuadratic(0.6, 1.3)),
}

HEAT = (((0, 0),), ((1, 0),), ((0, 1),), ((0, 2),))
LAPLACE = (((0, 0),), ((0, 1),), ((2, 0), (0, 2)))
MIXED = (((0, 0),), ((1, 1),), ((2, 0),))
VALUE = (((0, 0),),)


def batch(count, orders, seed, field=0):
    rng = np.random.default_rng(seed)
    terms = tuple(Term(field, group) for group in orders)
    dimension = len(orders[0][0])
    return Functionals(
        jnp.asarray(rng.random((count, dimension))),
        jnp.asarray(rng.normal(size=(count, len(terms)))),
        terms,
    )


def direct_gram(function, left, right):
    """φᵢ ψⱼ κ by differentiating κ as a function of two points."""

    def derivative(f, gamma, side):
        for axis, count in enumerate(gamma):
            for _ in range(count):
                f = _along(f, axis, side)
        return f

    def entry(x, c, y, e):
        return sum(
            c[s] * e[t] * derivative(derivative(function, gamma, 0), delta, 1)(x, y)
            for s, one in enumerate(left.terms)
            for t, two in enumerate(right.terms)
            for gamma in one.orders
            for delta in two.orders
        )

    over_columns = jax.vmap(entry, in_axes=(None, None, 0, 0))
    over_rows = jax.vmap(over_columns, in_axes=(0, 0, None, None))
    return jax.jit(over_rows, compiler_options=QUICK)(
        left.points, left.coefficients, right.points, right.coefficients
    )


def _along(f, axis, side):
    return lambda x, y: jax.jacfwd(f, argnums=side)(x, y)[axis]


def gibbs_formula(lengthscale):
    def function(x, y):
        a = jnp.broadcast_to(lengthscale(x), x.shape)
        b = jnp.broadcast_to(lengthscale(y), y.shape)
        q = a**2 + b**2
        return jnp.prod(jnp.sqrt(2 * a * b / q)) * jnp.exp(-jnp.sum((x - y) ** 2 / q))

    return function


@pytest.mark.parametrize(
    ("name", "orders"), [("one lengthscale", HEAT), ("two lengthscales", MIXED)]
)
def test_gibbs_gram_is_the_published_formula_differentiated(name, orders):
    kernel = KERNELS[name]
    left, right = batch(4, orders, 1), batch(3, orders[1:], 2)
    expected = direct_gram(gibbs_formula(kernel.lengthscale), left, right)
    close(gram(Prior((kernel,)), left, right), expected)


@pytest.mark.parametrize("name", ["warped rational"])
def test_warped_gram_is_the_kernel_of_warped_points_differentiated(name):
    kernel = KERNELS[name]

    def function(x, y):
        return kernel.kernel(kernel.warp(x), kernel.warp(y))

    left, right = batch(4, HEAT, 1), batch(3, MIXED[1:2], 2)
    close(gram(Prior((kernel,)), left, right), direct_gram(function, left, right), 1e-11)


def test_warped_matern_with_a_linear_warp_is_anisotropic():
    """g(x) = (2x, y/3) is the same as lengthscales 1/2 and 3, on the diagonal too."""
    kernel = Warped(Matern(3.5, 0.7), lambda x: x * jnp.array([2.0, 1 / 3]))
    plain = Matern(3.5, [0.35, 2.1])
    left = batch(5, LAPLACE, 1)
    close(gram(Prior((kernel,)), left, left), gram(Prior((plain,)), left, left))


@pytest.mark.parametrize("lengthscale", [0.3, [0.3, 0.8]])
def test_constant_lengthscale_is_the_gaussian(lengthscale):
    kernel = Gibbs(BumpLengthscale(lengthscale, [(0, 1), (0, 1)], (2, 2)))
    left = batch(6, HEAT, 1)
    close(gram(Prior((kernel,)), left, left), gram(Prior((Gaussian(lengthscale),)), left, left))


@pytest.mark.parametrize("name", ["one lengthscale", "bumps", "warped matern"])
def test_algebra_agrees_with_nested_partials(name):
    """The two independent routes inside the library."""
    kernel = KERNELS[name]
    left, right = batch(4, HEAT, 1), batch(5, MIXED, 2)
    restricted = kernel.on(0, 1)
    close(gram(Prior((kernel,)), left, right), gram(Prior((restricted,)), left, right), 1e-11)


def test_third_order_equations_use_nested_partials():
    kernel = wavy(1, 1)
    orders = (((0,),), ((3,),))
    left, right = batch(4, orders, 1), batch(3, orders, 2)
    close(
        gram(Prior((kernel,)), left, right),
        direct_gram(gibbs_formula(kernel.lengthscale), left, right),
    )


@pytest.mark.parametrize("name", ["one lengthscale", "network", "warped matern"])
def test_diagonal_products_and_jets(name):
    prior = Prior((KERNELS[name],))
    left, right = batch(7, HEAT, 1), batch(5, LAPLACE, 2)
    vector = jnp.asarray(np.random.default_rng(3).normal(size=5))
    close(gram_diagonal(prior, [left]), jnp.diagonal(gram(prior, left, left)), 1e-11)
    product = stacked_matvec(prior, [stack(left)], [stack(right)], vector)
    close(product, gram(prior, left, right) @ vector)
    terms = (Term(0, ((0, 0),)), Term(0, ((2, 0), (0, 2))))
    unit = [Functionals(left.points, jnp.ones((7, 1)), (term,)) for term in terms]
    weighted = right.scale(vector)
    expected = [gram(prior, one, weighted) @ jnp.ones(5) for one in unit]
    close(jets(prior, left.points, terms, [weighted]), jnp.stack(expected, axis=1))


def stack(functionals):
    return StackedFunctionals(
        functionals.points,
        functionals.coefficients[:, None, :],
        functionals.terms,
        (tuple(range(len(functionals.terms))),),
        functionals.num_nodes,
    )


@pytest.mark.parametrize(
    ("name", "symmetric", "repeats"),
    [
        ("network", True, 50),
        pytest.param("bumps", False, 60, marks=pytest.mark.slow),
        ("warped matern", True, 1),
    ],
)
def test_derivative_of_products_is_that_of_the_matrix(name, symmetric, repeats):
    """The shift rule, forwards and backwards, against ordinary differentiation of the Gram.

    More than 2^17 pairs of points are computed in several tiles.
    """
    kernel = KERNELS[name]
    learned, rest = eqx.partition(kernel, eqx.is_inexact_array)
    left = (stack(batch(6 * repeats, HEAT[1:], 1)), stack(batch(3 * repeats, VALUE, 2)))
    right = left if symmetric else (stack(batch(5 * repeats, LAPLACE, 3)),)
    rng = np.random.default_rng(4)
    vector = jnp.asarray(rng.normal(size=sum(map(len, right))))
    cotangent = jnp.asarray(rng.normal(size=9 * repeats))
    direction = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)), learned)

    def product(learned, vector):
        return functionals.stacked_matvec(Prior((eqx.combine(learned, rest),)), left, right, vector)

    def matrix_product(learned, vector):
        prior = Prior((eqx.combine(learned, rest),))
        rows = [
            jnp.concatenate(
                [functionals.gram(prior, a.batches[0], b.batches[0]) for b in right], axis=1
            )
            for a in left
        ]
        return jnp.concatenate(rows) @ vector

    change = (direction, jnp.asarray(rng.normal(size=vector.shape)))
    found, expected = (
        jax.jit(lambda a, b, f=f: jax.jvp(f, a, b), compiler_options=options)(
            (learned, vector), change
        )
        for f, options in ((product, {}), (matrix_product, QUICK))
    )
    close(found[0], expected[0], 1e-11)
    close(found[1], expected[1], 1e-11)
    found, expected = (
        jax.jit(lambda a, b, f=f: jax.vjp(f, *a)[1](b), compiler_options=options)(
            (learned, vector), cotangent
        )
        for f, options in ((product, {}), (matrix_product, QUICK))
    )
    # Some are zero, such as those of a common shift of all warped points.
    size = max(float(jnp.max(jnp.abs(leaf))) for leaf in jax.tree.leaves(expected))
    for one, two in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-11 * size)


def test_within_sums_scales_mixtures_and_frozen():
    one, two = wavy(), varied_bumps()
    left, right = batch(4, HEAT, 1), batch(3, LAPLACE, 2)
    parts = [gram(Prior((k,)), left, right) for k in (one, two, Gaussian(0.4))]
    together = 2.0 * (one + 3.0 * two) + Gaussian(0.4)
    close(gram(Prior((together,)), left, right), 2 * parts[0] + 6 * parts[1] + parts[2])
    close(gram(Prior((freeze(together),)), left, right), 2 * parts[0] + 6 * parts[1] + parts[2])
    mixed = Prior((one, Gaussian(0.4)), jnp.array([[1.0, 0.5], [-2.0, 0.0]]))
    other = batch(3, LAPLACE, 2, field=1)
    close(gram(mixed, left, other), -2.0 * parts[0])
    vector = jnp.arange(1.0, 4.0)
    close(
        stacked_matvec(Prior((together,)), [stack(left)], [stack(right)], vector),
        gram(Prior((together,)), left, right) @ vector,
    )


def test_averages_are_added_up():
    kernel = wavy()
    wide = batch(6, HEAT, 1)
    wide = Functionals(wide.points, wide.coefficients, wide.terms, 3)
    right = batch(4, LAPLACE, 2)
    local = Functionals(wide.points, wide.coefficients, wide.terms)
    expected = gram(Prior((kernel,)), local, right).reshape(2, 3, 4).sum(1)
    close(gram(Prior((kernel,)), wide, right), expected)
    vector = jnp.arange(1.0, 5.0)
    found = stacked_matvec(Prior((kernel,)), [stack(wide), stack(right)], [stack(right)], vector)
    close(found[:2], expected @ vector)
    close(
        stacked_matvec(Prior((kernel,)), [stack(right)], [stack(wide)], vector[:2]),
        expected.T @ vector[:2],
    )
    close(gram_diagonal(Prior((kernel,)), [wide]), jnp.diagonal(gram(Prior((kernel,)), wide, wide)))


def test_three_dimensions():
    kernel = wavy(3, 3)
    orders = (((0, 0, 0),), ((2, 0, 0), (0, 2, 0), (0, 0, 2)), ((1, 0, 1),))
    left, right = batch(3, orders, 1), batch(2, orders, 2)
    close(
        gram(Prior((kernel,)), left, right),
        direct_gram(gibbs_formula(kernel.lengthscale), left, right),
    )


def test_network_has_the_published_number_of_parameters():
    def count(outputs):
        leaves = jax.tree.leaves(
            eqx.filter(NetworkLengthscale(2, outputs, key=KEY), eqx.is_inexact_array)
        )
        return sum(leaf.size for leaf in leaves)

    assert (count(1), count(2)) == (2751, 2802)


@pytest.mark.parametrize(
    "field", [NetworkLengthscale(2, 2, key=KEY), BumpLengthscale(1.0, [(0, 1)] * 2, (3, 3))]
)
def test_around_a_constant(field):
    points = np.random.default_rng(0).random((20, 2))
    lengths = jax.vmap(field.with_constant(0.37))(points)
    np.testing.assert_allclose(lengths, 0.37, rtol=0.15)


def test_refusals():
    with pytest.raises(InputError, match="one per coordinate, 2; got shape"):
        gram(Prior((Gibbs(lambda x: jnp.ones(3)),)), batch(2, HEAT, 1), batch(2, HEAT, 1))
    with pytest.raises(InputError, match="cannot be made periodic"):
        wavy().bind_coordinates(["t", "x"]).make_periodic((None, 1.0))
    with pytest.raises(InputError, match="one interval and one positive number"):
        BumpLengthscale(1.0, [(0, 1)], (3, 3))
