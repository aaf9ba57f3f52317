"""Gram matrices are functionals applied to kernels twice, of mixed functions too."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import observed

import kernelpde as kp
from kernelpde.functionals import (
    Functionals,
    Prior,
    StackedFunctionals,
    Term,
    block_gram,
    concatenate,
    evaluate_jets,
    expand,
    gram,
    gram_diagonal,
    point_functionals,
    stacked_matvec,
)

VALUE = Term(0, ((0, 0),))
LAPLACIAN = Term(0, ((2, 0), (0, 2)))
SLOPE = Term(0, ((1, 0),))
OTHER = Term(1, ((0, 0),))
PRIOR = Prior((kp.Gaussian(0.4), kp.Matern(3.5, 0.6)))


def batch(count, terms, seed):
    rng = np.random.default_rng(seed)
    return Functionals(
        jnp.asarray(rng.random((count, 2))),
        jnp.asarray(rng.standard_normal((count, len(terms)))),
        tuple(terms),
    )


def partial(function, axis):
    return lambda x: jax.grad(function)(x)[axis]


def apply_by_autodiff(functionals, functions):
    """φᵢ f for a function of a point, one per field, by nested automatic differentiation."""

    def derivative(function, order):
        for axis, count in enumerate(order):
            for _ in range(count):
                function = partial(function, axis)
        return function

    def at(point, coefficients):
        return sum(
            coefficients[t] * sum(derivative(functions[term.field], o)(point) for o in term.orders)
            for t, term in enumerate(functionals.terms)
        )

    return jax.vmap(at)(functionals.points, functionals.coefficients)


def section(kernel, x, active):
    return lambda y: kernel(x, y) if active else 0.0 * y[0]


def test_gram_is_the_functionals_applied_to_the_kernel_twice():
    left = batch(5, [VALUE, LAPLACIAN, SLOPE, OTHER], 0)
    right = batch(4, [VALUE, SLOPE, OTHER], 1)
    kernels = (kp.Gaussian(0.4), kp.RationalQuadratic(0.6, 2.0))

    def representer(functional, field):
        """x ↦ ψ κ_f(x, ·)."""
        return lambda x: apply_by_autodiff(
            functional, [section(k, x, g == field) for g, k in enumerate(kernels)]
        )[0]

    expected = [
        apply_by_autodiff(left, [representer(right[j : j + 1], f) for f in (0, 1)])
        for j in range(len(right))
    ]
    np.testing.assert_allclose(
        gram(Prior(kernels), left, right), np.stack(expected, axis=1), rtol=1e-10, atol=1e-10
    )


def test_gram_is_symmetric_and_positive_definite():
    functionals = batch(40, [VALUE, LAPLACIAN, SLOPE, OTHER], 2)
    matrix = np.asarray(gram(PRIOR, functionals, functionals))
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-13, atol=1e-13 * np.abs(matrix).max())
    scale = 1 / np.sqrt(np.diag(matrix))
    assert np.linalg.eigvalsh(scale[:, None] * matrix * scale).min() > -1e-13


def test_blocks_and_union_are_the_same_matrix():
    batches = (batch(30, [VALUE, LAPLACIAN], 3), batch(20, [OTHER], 4), batch(25, [SLOPE], 5))
    union = concatenate(batches)
    np.testing.assert_allclose(
        block_gram(PRIOR, batches), gram(PRIOR, union, union), rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(
        gram_diagonal(PRIOR, [union]), np.diag(gram(PRIOR, union, union)), rtol=1e-13
    )


def test_gathered_blocks_under_vmap():
    functionals = batch(50, [VALUE, LAPLACIAN, OTHER], 6)
    whole = np.asarray(gram(PRIOR, functionals, functionals))
    rng = np.random.default_rng(7)
    rows, columns = rng.integers(0, 50, (12, 6)), rng.integers(0, 50, (12, 4))
    blocks = jax.jit(jax.vmap(lambda a, b: gram(PRIOR, functionals[a], functionals[b])))(
        jnp.asarray(rows), jnp.asarray(columns)
    )
    expected = np.stack([whole[np.ix_(a, b)] for a, b in zip(rows, columns, strict=True)])
    np.testing.assert_allclose(blocks, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("memory", [1, 4_000, 20_000, 10**9])
def test_products_do_not_depend_on_the_tiles(memory):
    left = (stack(37, [VALUE, LAPLACIAN], ((0, 1),), 8),)
    right = (stack(23, [VALUE, SLOPE, OTHER], ((0, 1, 2),), 9),)
    vector = jnp.asarray(np.random.default_rng(10).standard_normal(23))
    expected = gram(PRIOR, left[0].batches[0], right[0].batches[0]) @ vector
    products = stacked_matvec(PRIOR, left, right, vector, memory=memory)
    np.testing.assert_allclose(products, expected, rtol=1e-12, atol=1e-12)


def test_jets_are_products_with_evaluation_functionals():
    parts = (batch(15, [VALUE, LAPLACIAN], 11), batch(9, [OTHER], 12))
    points = jnp.asarray(np.random.default_rng(13).random((21, 2)))
    terms = (VALUE, SLOPE, OTHER)
    union = concatenate(parts)
    expected = [gram(PRIOR, point_functionals(points, t), union).sum(axis=1) for t in terms]
    for memory in (2_000, 10**9):
        np.testing.assert_allclose(
            evaluate_jets(PRIOR, points, terms, parts, memory=memory),
            np.stack(expected, axis=1),
            rtol=1e-11,
            atol=1e-11,
        )


def stack(count, terms, used, seed):
    rng = np.random.default_rng(seed)
    mask = np.array([[t in row for t in range(len(terms))] for row in used], dtype=float)
    return StackedFunctionals(
        jnp.asarray(rng.random((count, 2))),
        jnp.asarray(rng.standard_normal((count, len(used), len(terms))) * mask),
        tuple(terms),
        used,
    )


@pytest.mark.parametrize("equations", [1, 2])
def test_products_of_stacks_are_those_of_their_rows(equations):
    used = ((0, 1, 2), (1, 2))[:equations]
    left = (stack(13, [VALUE, LAPLACIAN, OTHER], used, 1), stack(7, [SLOPE], ((0,),), 2))
    right = (stack(11, [VALUE, SLOPE, OTHER], ((0, 1), (1, 2)), 3), stack(5, [OTHER], ((0,),), 4))
    rows, columns = (
        concatenate([batch for part in parts for batch in part.batches]) for parts in (left, right)
    )
    vector = jnp.asarray(np.random.default_rng(5).standard_normal(len(columns)))
    expected = gram(PRIOR, rows, columns) @ vector
    for memory in (4_000, 10**9):
        np.testing.assert_allclose(
            stacked_matvec(PRIOR, left, right, vector, memory=memory),
            expected,
            rtol=1e-11,
            atol=1e-11,
        )
    assert [len(part) for part in expand(right, vector)] == [11, 5]


def test_union_refuses_to_lose_a_term():
    with pytest.raises(kp.InputError, match="terms must include"):
        batch(3, [VALUE, SLOPE], 0).with_terms((VALUE,))


_LARGE = """
import pathlib, resource, jax, numpy as np, jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
import kernelpde as kp
from kernelpde.functionals import StackedFunctionals, Term, gram, stacked_matvec
rng = np.random.default_rng(0)
n = 50_000
f = StackedFunctionals(
    jnp.asarray(rng.random((n, 2))),
    jnp.asarray(rng.standard_normal((n, 1, 2))),
    (Term(0, ((0, 0),)), Term(0, ((2, 0), (0, 2)))),
    ((0, 1),),
)
v = jnp.asarray(rng.standard_normal(n))
kernels = (kp.Gaussian(0.2),)
product = np.asarray(jax.jit(lambda f, v: stacked_matvec(Prior(kernels), (f,), (f,), v))(f, v))
(rows,) = f.batches
check = np.asarray(gram(Prior(kernels), rows[:50], rows) @ v)
assert np.allclose(product[:50], check, rtol=1e-9, atol=1e-9 * np.abs(check).max())
# The peak that Linux reports in rusage begins with the size of the process that started this one.
status = pathlib.Path("/proc/self/status")
if status.exists():
    (line,) = [l for l in status.read_text().splitlines() if l.startswith("VmHWM")]
    print(1024 * int(line.split()[1]))
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_product_with_fifty_thousand_functionals_stays_below_two_gigabytes():
    run = subprocess.run(
        [sys.executable, "-c", _LARGE], capture_output=True, text=True, check=True, timeout=600
    )
    assert int(run.stdout) < 2 * 10**9


LATENTS = (kp.Gaussian(0.3), kp.Matern(3.5, 0.5))
MIXING = np.array([[1.0, 0.4], [-0.7, 0.9]])


def derivatives(field, order, count, seed):
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
            left, right = derivatives(f, 2, 5, 1), derivatives(g, 1, 4, 2)
            expected = sum(
                MIXING[f, q] * MIXING[g, q] * gram(Prior((kernel,)), _alone(left), _alone(right))
                for q, kernel in enumerate(LATENTS)
            )
            np.testing.assert_allclose(gram(mixed, left, right), expected, rtol=1e-12, atol=1e-12)


def _alone(functionals):
    terms = tuple(Term(0, term.orders) for term in functionals.terms)
    return Functionals(functionals.points, functionals.coefficients, terms)


def test_no_mixing_is_independence():
    both = [derivatives(0, 0, 6, 1), derivatives(1, 2, 5, 2)]
    mixed = Prior(LATENTS, jnp.eye(2))
    np.testing.assert_allclose(block_gram(mixed, both), block_gram(Prior(LATENTS), both))
    v = jnp.arange(5.0)
    rows = both[1]
    stacks = (StackedFunctionals(rows.points, rows.coefficients[:, None], rows.terms, ((0,),)),)
    np.testing.assert_allclose(
        stacked_matvec(mixed, stacks, stacks, v), gram(Prior(LATENTS), rows, rows) @ v, rtol=1e-10
    )


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
        observed(many, u(many[:, 0]), 1e-3, name="u data"),
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
