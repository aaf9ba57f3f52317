"""Vector fields of scalar ones: identities, and flows whose divergence is zero everywhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kernelpde as kp

SQUARE = kp.Box(x=(0, 1), y=(0, 1))
CUBE = kp.Box(x=(0, 1), y=(0, 1), z=(0, 1))


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


def test_everything_of_a_vector_jet_against_automatic_differentiation():
    """Conditions that are met by a known field, and by no other."""

    def flow(x):
        return jnp.array([jnp.sin(x[0]) * x[1], jnp.cos(x[1]) + x[0] ** 2])

    weights = jnp.array([0.3, -0.7])

    def everything(x, normal, u, v):
        w, slope = kp.vectors.of(u, v), jax.jacobian(flow)(x)
        second = jax.hessian(flow)(x)
        return (
            *(w.value - flow(x)),
            *(w.d("x") - slope[:, 0]),
            *(w.jacobian - slope).reshape(-1),
            w.divergence - jnp.trace(slope),
            w.curl - (slope[1, 0] - slope[0, 1]),
            *(w.laplacian - jnp.trace(second, axis1=1, axis2=2)),
            *(w.normal_derivative - slope @ normal),
            *(w.along(weights) - slope @ weights),
            *(w.along(w) - slope @ flow(x)),
        )

    rng = np.random.default_rng(1)
    x = rng.random((12, 2))
    normals = rng.normal(size=(12, 2))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    problem = kp.Problem(
        kp.Condition("all", kp.PointCloud(x, normals, coordinates=("x", "y")), everything),
        fields=[kp.Field("u", kp.Gaussian(1.0)), kp.Field("v", kp.Gaussian(1.0))],
    )
    # One identity that is wrong would contradict the others.
    found = kp.solve(problem, throw=False)
    values = kp.vectors.of(found["u"], found["v"])(x)
    np.testing.assert_allclose(values, jax.vmap(flow)(x), atol=1e-5)


def test_curls_and_gradients_in_space():
    problem = kp.Problem(
        kp.Condition(
            "curl",
            CUBE.interior,
            lambda x, a, b, c: kp.vectors.curl(a, b, c).value - jnp.array([x[1], -x[0], 1.0]),
        ),
        kp.Condition(
            "gradient",
            CUBE.interior,
            lambda x, p: kp.vectors.gradient(p).value - jnp.array([x[1], x[0], 2.0]),
        ),
        kp.Condition("level", kp.PointCloud([[0.0, 0.0, 0.0]]), lambda x, p: p.value),
        fields=[kp.Field(name, kp.Gaussian(1.0)) for name in "abcp"],
    )
    solution = kp.solve(problem, {"curl": 60, "gradient": 60}, throw=False)
    points = np.random.default_rng(0).random((50, 3))
    u = kp.vectors.curl(*(solution[name] for name in "abc"))
    expected = np.stack([points[:, 1], -points[:, 0], np.ones(50)], axis=1)
    np.testing.assert_allclose(u(points), expected, atol=5e-3)
    assert np.abs(u.divergence(points)).max() < 1e-9
    g = kp.vectors.gradient(solution["p"])
    potential = points[:, 0] * points[:, 1] + 2 * points[:, 2]
    np.testing.assert_allclose(solution["p"](points), potential, atol=5e-3)
    assert np.abs(g.curl(points)).max() == 0.0


def test_mistakes_are_told():
    with pytest.raises(kp.InputError, match="expected fields"):
        kp.vectors.of(1.0, 2.0)
    for residual, reason in (
        (lambda x, u: kp.vectors.curl(u, u).value, "one stream function"),
        (lambda x, u: kp.vectors.of(u).divergence, "as many components"),
        (lambda x, u: kp.vectors.of(u, u) + 1.0, "used in arithmetic"),
        (lambda x, u: kp.vectors.of(u, u).normal_derivative, "needs normals"),
    ):
        with pytest.raises(kp.InputError, match=reason):
            kp.Problem(
                kp.Condition("eq", SQUARE.interior, residual),
                fields=[kp.Field("u", kp.Gaussian(1.0))],
            )
