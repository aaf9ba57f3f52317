"""Known functions with unknown factors, in kernels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kernelpde as kp
from kernelpde.kernels import FeatureKernel

CORNER = kp.Polygon([(0, 0), (1, 0), (1, 1), (-1, 1), (-1, -1), (0, -1)])


def singular(x):
    """r^(2/3) sin(2θ/3) at the corner of an L-shape."""
    angle = jnp.arctan2(x[1], x[0])
    angle = jnp.where(angle < -1e-9, angle + 2 * jnp.pi, angle)
    return jnp.sqrt(x[0] ** 2 + x[1] ** 2) ** (2 / 3) * jnp.sin(2 / 3 * angle)


def exact(x):
    return 1.7 * singular(x) + jnp.exp(x[0]) * jnp.sin(x[1])


def corner_problem(kernel):
    return kp.Problem(
        kp.Condition("equation", CORNER.interior, lambda x, u: u.laplacian),
        kp.Condition("edges", CORNER.boundary, lambda x, u: u.value - exact(x)),
        fields=[kp.Field("u", kernel)],
    )


def test_a_singular_function_makes_an_l_shape_smooth():
    problem = corner_problem(kp.Gaussian(0.7) + FeatureKernel(singular))
    solution = kp.solve(problem, {"equation": 300, "edges": 120})
    assert solution.converged
    x = CORNER.interior.sample(500, np.random.default_rng(0)).points
    error = np.asarray(solution["u"](x)) - np.asarray(jax.vmap(exact)(x))
    assert np.sqrt(np.mean(error**2)) < 1e-5
    without = kp.solve(
        corner_problem(kp.Gaussian(0.7)), {"equation": 300, "edges": 120}, throw=False
    )
    other = np.asarray(without["u"](x)) - np.asarray(jax.vmap(exact)(x))
    assert np.sqrt(np.mean(other**2)) > 1e3 * np.sqrt(np.mean(error**2))


def test_variances_are_learned_and_kept(tmp_path):
    problem = corner_problem(kp.Gaussian(0.7) + 2.0 * FeatureKernel(singular, 0.5))
    learned = kp.learn(problem, {"equation": 150, "edges": 80})
    assert learned.solution.converged
    kp.save_kernels(tmp_path / "kernels.json", learned.problem)
    again = kp.load_kernels(tmp_path / "kernels.json", problem)
    ours, theirs = (p.hyperparameters["u"] for p in (again, learned.problem))
    for name, value in theirs.items():
        np.testing.assert_array_equal(ours[name], value)


def test_factors_make_boundary_conditions_exact():
    def bubble(x):
        return x[0] * (1 - x[0]) * x[1] * (1 - x[1])

    square = kp.Box(x=(0, 1), y=(0, 1))
    problem = kp.Problem(
        kp.Condition(
            "equation",
            square.interior,
            lambda x, u: (
                u.laplacian + 2 * jnp.pi**2 * jnp.sin(jnp.pi * x[0]) * jnp.sin(jnp.pi * x[1])
            ),
        ),
        fields=[kp.Field("u", FeatureKernel(bubble) * kp.Gaussian(0.5))],
    )
    solution = kp.solve(problem, {"equation": 150})
    edge = square.boundary.sample(100, np.random.default_rng(0)).points
    assert np.abs(np.asarray(solution["u"](edge))).max() < 1e-14
    x = square.interior.sample(300, np.random.default_rng(1)).points
    truth = np.sin(np.pi * x[:, 0]) * np.sin(np.pi * x[:, 1])
    np.testing.assert_allclose(solution["u"](x), truth, atol=1e-5)


def test_functions_are_found_by_what_they_compute():
    scale = 1.0

    def trend(x):
        return scale * x[0]

    line = kp.Box(x=(0, 1))
    problem = kp.Problem(
        kp.Condition("slope", line.interior, lambda x, u: u.d("x") - 1.0),
        kp.Condition("right", line.side(x=1), lambda x, u: u.value - 1.0),
        fields=[kp.Field("u", FeatureKernel(trend))],
    )
    first = kp.solve(problem, {"slope": 3, "right": 1})["u"]([[2.0]])
    scale = 3.0
    second = kp.solve(problem, {"slope": 3, "right": 1})["u"]([[2.0]])
    np.testing.assert_allclose([first, second], 2.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: FeatureKernel(lambda x: x)([0.0], [0.0]).shape, None),
        (
            lambda: FeatureKernel(lambda x: x[:, None])([0.0], [0.0]),
            "one number or a vector|IndexError",
        ),
        (lambda: FeatureKernel(lambda x: x[0], (1.0, 2.0))([0.0], [0.0]), "there are 1 functions"),
        (lambda: FeatureKernel(lambda x: x[0], -1.0), "variance"),
    ],
)
def test_what_is_no_feature_is_refused(make, reason):
    if reason is None:
        assert make() == ()
        return
    with pytest.raises(kp.InputError, match=reason):
        make()


def test_on_a_periodic_domain_functions_have_to_be_periodic():
    circle = kp.Box(x=(0, 2), y=(0, 1), periodic="x")

    def problem(function):
        def exact(x):
            return jnp.abs(jnp.sin(jnp.pi * x[0])) + jnp.cos(jnp.pi * x[0]) * x[1]

        return kp.Problem(
            kp.Condition("values", circle.interior, lambda x, u: u.value - exact(x)),
            fields=[kp.Field("u", kp.Gaussian([0.7, 0.7]) + FeatureKernel(function))],
        ), exact

    # Two kinks in a period, which the function knows and the Gaussian kernel does not.
    known, exact = problem(lambda x: jnp.abs(jnp.sin(jnp.pi * x[0])))
    x = np.random.default_rng(2).random((200, 2)) * [6.0, 1.0] - [2.0, 0.0]
    solution = kp.solve(known, {"values": 200})
    np.testing.assert_allclose(solution["u"](x), jax.vmap(exact)(x), atol=1e-5)
    with pytest.raises(kp.InputError, match=r"has the period 2 in coordinate 0, but φ does not"):
        kp.solve(problem(lambda x: jnp.abs(x[0] - 1))[0], {"values": 60})
