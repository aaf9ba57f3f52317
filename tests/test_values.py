"""Priors, discrete problems and linear systems are values: they survive whatever JAX and Python do
to pytrees, and equal ones share compiled programs."""

import copy
import io
import pickle

import cloudpickle
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kernelpde as kp
from kernelpde.functionals import Prior, gram_diagonal
from kernelpde.problem import DiscreteProblem

SQUARE = kp.Box(x=(0, 1), y=(0, 1))
KERNEL = 2.0 * kp.Matern(4.5, 0.3) + kp.freeze(kp.Constant(0.5))


def reaction(rate: float = 1.0) -> kp.Problem:
    return kp.Problem(
        kp.Condition(
            "equation",
            SQUARE.interior,
            lambda x, u, v: (-u.laplacian + rate * u.value**3 - jnp.sin(x[0]), v.d("x") - u.value),
        ),
        kp.Condition("flux", SQUARE.boundary, lambda x, normal, u: u.normal_derivative - normal[0]),
        kp.Condition(
            "data", [[0.2, 0.3]], lambda x, u, y: u.value - y, data={"y": [1.0]}, noise=0.1
        ),
        fields=[kp.Field("u", KERNEL), kp.Field("v", kp.Gaussian([0.3, 0.5]))],
    )


def discrete(rate: float = 1.0) -> DiscreteProblem:
    problem = reaction(rate)
    return problem.at_points(problem.collocate({"equation": 20, "flux": 12}))


def jets(problem: DiscreteProblem) -> tuple:
    rng = np.random.default_rng(0)
    return tuple(jnp.asarray(rng.random(c.zero_jets().shape)) for c in problem.conditions)


def row_variance(problem: DiscreteProblem, jet_values: tuple) -> jax.Array:
    system = problem.linearize(jet_values)
    return gram_diagonal(problem.prior, system.batches) + system.variance + system.rhs


NAMES = ("prior", "mixed prior", "scaled prior", "condition", "problem", "system")


def values() -> dict:
    problem = discrete()
    mixed = Prior((kp.Gaussian(0.3), KERNEL), jnp.eye(2))
    scaled = Prior((kp.Gaussian(0.3),), None, jnp.asarray([8]))
    system = problem.linearize(jets(problem))
    objects = (problem.prior, mixed, scaled, problem.conditions[0], problem, system)
    return dict(zip(NAMES, objects, strict=True))


def through_leaves(value):
    buffer = io.BytesIO()
    eqx.tree_serialise_leaves(buffer, value)
    buffer.seek(0)
    return eqx.tree_deserialise_leaves(buffer, jax.tree.map(lambda leaf: leaf * 0, value))


COPIES = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "cloudpickle": lambda value: pickle.loads(cloudpickle.dumps(value)),
    "deepcopy": copy.deepcopy,
    "leaves": through_leaves,
    "jit": lambda value: eqx.filter_jit(lambda tree: tree)(value),
    "unflatten": lambda value: jax.tree.unflatten(*reversed(jax.tree.flatten(value))),
}


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("name", NAMES)
def test_copies_are_equal(name, copied):
    value = values()[name]
    again = COPIES[copied](value)
    assert jax.tree.structure(again) == jax.tree.structure(value)
    assert hash(jax.tree.structure(again)) == hash(jax.tree.structure(value))
    for left, right in zip(jax.tree.leaves(again), jax.tree.leaves(value), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("copied", ["pickle", "cloudpickle", "deepcopy", "leaves"])
def test_a_copied_problem_computes_the_same(copied):
    problem = discrete()
    again = COPIES[copied](problem)
    np.testing.assert_array_equal(
        row_variance(again, jets(again)), row_variance(problem, jets(problem))
    )


def test_equal_problems_share_one_program():
    traces = []

    @eqx.filter_jit
    def compiled(problem: DiscreteProblem, jet_values: tuple):
        traces.append(1)
        return row_variance(problem, jet_values)

    for rate in (1.0, 2.0):
        problem = discrete(rate)
        np.testing.assert_allclose(
            compiled(problem, jets(problem)), row_variance(problem, jets(problem)), rtol=1e-12
        )
    assert len(traces) == 1


def test_transformations_give_what_one_call_gives():
    problem = discrete()
    jet_values = jets(problem)
    expected = row_variance(problem, jet_values)
    with jax.checking_leaks():
        np.testing.assert_allclose(
            eqx.filter_jit(row_variance)(problem, jet_values), expected, rtol=1e-12
        )
        twice = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), jet_values)
        batched = eqx.filter_vmap(row_variance, in_axes=(None, 0))(problem, twice)
        np.testing.assert_allclose(batched, [expected, expected], rtol=1e-12)
        gradient = eqx.filter_grad(lambda p: jnp.sum(row_variance(p, jet_values)))(problem)
    scale = 1e-6
    shifted = [
        eqx.tree_at(lambda p: p.prior.kernels[1].log_lengthscale, problem, replace_fn=change)
        for change in (lambda leaf: leaf + scale, lambda leaf: leaf - scale)
    ]
    plus, minus = (float(jnp.sum(row_variance(p, jet_values))) for p in shifted)
    slope = float(jnp.sum(gradient.prior.kernels[1].log_lengthscale))
    assert slope == pytest.approx((plus - minus) / (2 * scale), rel=1e-6)


def test_export_of_a_problem():
    problem = discrete()
    leaves, structure = jax.tree.flatten((problem, jets(problem)))

    def function(*arrays):
        return row_variance(*jax.tree.unflatten(structure, arrays))

    shapes = [jax.ShapeDtypeStruct(np.shape(leaf), np.asarray(leaf).dtype) for leaf in leaves]
    exported = jax.export.export(jax.jit(function))(*shapes)
    again = jax.export.deserialize(bytearray(exported.serialize()))
    np.testing.assert_allclose(again.call(*leaves), function(*leaves), rtol=1e-12)
