"""Vector fields of scalar ones: identities, and flows whose divergence is zero everywhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kernelpde as kp
from kernelpde.functionals import CoordinateFrame, Jet

SQUARE = kp.Box(x=(0, 1), y=(0, 1))


def stream(x):
    return jnp.sin(2 * x[0]) * jnp.cos(x[1])


def test_a_curl_is_found_from_its_vorticity_and_has_no_divergence():
    def velocity(x):
        along, up = jax.grad(stream)(x)
        return jnp.array([up, -along])

    def vorticity(x):
        turn = jax.jacobian(velocity)(x)
        return turn[1, 0] - turn[0, 1]

    problem = kp.Problem(
        kp.Condition(
            "vorticity", SQUARE.interior, lambda x, psi: kp.vectors.curl(psi).curl - vorticity(x)
        ),
        kp.Condition(
            "walls", SQUARE.boundary, lambda x, psi: kp.vectors.curl(psi).value - velocity(x)
        ),
        fields=[kp.Field("psi", kp.Gaussian(0.7))],
    )
    solution = kp.solve(problem, {"vorticity": 120, "walls": 60})
    u = kp.vectors.curl(solution["psi"])
    points = np.random.default_rng(0).random((200, 2))
    np.testing.assert_allclose(u(points), jax.vmap(velocity)(points), atol=1e-5)
    assert np.abs(u.divergence(points)).max() == 0.0
    np.testing.assert_allclose(u.curl(points), jax.vmap(vorticity)(points), atol=1e-3)


def _slope(function, axis):
    return lambda x: jax.grad(function)(x)[axis]


def jets(function, point, normal=None):
    """Components of a function as a residual would see them, differentiated automatically."""

    def lookup(term):
        def along(order):
            def f(x):
                return function(x)[term.field]

            for axis, count in enumerate(order):
                for _ in range(count):
                    f = _slope(f, axis)
            return f(point)

        return sum(map(along, term.orders))

    frame = CoordinateFrame(("x", "y", "z")[: len(point)], tuple(range(len(point))))
    return [Jet(i, frame, lookup, normal) for i in range(len(function(point)))]


def test_everything_of_a_vector_jet_against_automatic_differentiation():
    def flow(x):
        return jnp.array([jnp.sin(x[0]) * x[1], jnp.cos(x[1]) + x[0] ** 2])

    point, normal, w = jnp.array([0.3, 0.8]), jnp.array([0.6, -0.8]), jnp.array([0.3, -0.7])
    u = kp.vectors.vector_field(*jets(flow, point, normal))
    slope, second = jax.jacobian(flow)(point), jax.hessian(flow)(point)
    for ours, exact in (
        (u.value, flow(point)),
        (u.d("y"), slope[:, 1]),
        (u.jacobian, slope),
        (u.divergence, jnp.trace(slope)),
        (u.curl, slope[1, 0] - slope[0, 1]),
        (u.laplacian, jnp.trace(second, axis1=1, axis2=2)),
        (u.normal_derivative, slope @ normal),
        (u.advect(w), slope @ w),
        (u.advect(u), slope @ flow(point)),
    ):
        np.testing.assert_allclose(ours, exact, rtol=1e-14, atol=1e-14)


def test_potentials_against_automatic_differentiation():
    def potential(x):
        return jnp.array([x[1] * jnp.sin(x[2]), x[0] ** 2 * x[2], jnp.exp(x[0] * x[1])])

    point = jnp.array([0.3, 0.8, -0.4])
    slope = jax.jacobian(potential)(point)
    u = kp.vectors.curl(*jets(potential, point))
    turned = [slope[2, 1] - slope[1, 2], slope[0, 2] - slope[2, 0], slope[1, 0] - slope[0, 1]]
    np.testing.assert_allclose(u.value, turned, rtol=1e-14)
    assert abs(u.divergence) < 1e-15
    first = jets(potential, point)[0]
    np.testing.assert_allclose(kp.vectors.gradient(first).value, slope[0], rtol=1e-14)
    assert not np.any(kp.vectors.gradient(first).curl)


def test_mistakes_are_told():
    with pytest.raises(kp.InputError, match="expected fields"):
        kp.vectors.vector_field(1.0, 2.0)
    for residual, reason in (
        (lambda x, u: kp.vectors.curl(u, u).value, "one stream function"),
        (
            lambda x, u: kp.vectors.vector_field(u).divergence,
            "one component per spatial coordinate",
        ),
        (lambda x, u: kp.vectors.vector_field(u, u) + 1.0, "used in arithmetic"),
        (lambda x, u: kp.vectors.vector_field(u, u).normal_derivative, "have no normals"),
    ):
        with pytest.raises(kp.InputError, match=reason):
            kp.Problem(
                kp.Condition("eq", SQUARE.interior, residual),
                fields=[kp.Field("u", kp.Gaussian(1.0))],
            )
