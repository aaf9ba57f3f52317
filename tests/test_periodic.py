"""Periodic coordinates: wound kernels against 50 digits, domains, and a problem on a circle."""

import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

import kernelpde as kp

PERIODS = (None, 3.0)
X, Y = (0.3, 0.2), (0.75, 2.4)


def squared(t, x, tt, xx):
    straight = (t - tt) ** 2 / mp.mpf("0.49")
    return straight + (3 / mp.pi) ** 2 * mp.sin(mp.pi * (x - xx) / 3) ** 2 / mp.mpf("0.25")


PROFILES = {
    "gaussian": (kp.Gaussian([0.7, 0.5]), lambda s: mp.exp(-s / 2)),
    "rational": (kp.RationalQuadratic([0.7, 0.5], 1.5), lambda s: (1 + s / 3) ** mp.mpf("-1.5")),
    "matern": (
        kp.Matern(3.5, [0.7, 0.5]),
        lambda s: (
            (1 + mp.sqrt(7 * s) + mp.mpf(2) / 5 * 7 * s + mp.sqrt(7 * s) ** 3 / 15)
            * mp.exp(-mp.sqrt(7 * s))
        ),
    ),
}


@pytest.mark.parametrize("name", PROFILES)
def test_derivatives_against_fifty_digits(name):
    kernel, profile = PROFILES[name]
    wound = kernel.make_periodic(PERIODS)
    orders = [
        (a, b)
        for a in [(0, 0), (1, 0), (0, 1), (0, 2), (1, 1)]
        for b in [(0, 0), (1, 0), (0, 1), (0, 2)]
    ]
    found = wound.partials(tuple(map(jnp.asarray, X)), tuple(map(jnp.asarray, Y)), orders)
    with mp.workdps(50):
        for (alpha, beta), value in zip(orders, found, strict=True):
            expected = mp.diff(
                lambda *z: profile(squared(*z)),
                tuple(map(mp.mpf, map(str, (*X, *Y)))),
                (*alpha, *beta),
            )
            assert float(value) == pytest.approx(float(expected), rel=1e-11, abs=1e-12)


def test_a_period_apart_nothing_differs_and_nearby_nothing_changes():
    kernel = kp.Gaussian([0.7, 0.5])
    wound = kernel.make_periodic(PERIODS)
    shifted = (Y[0], Y[1] + 3.0)
    assert float(wound(X, Y)) == pytest.approx(float(wound(X, shifted)), rel=1e-14)
    near = (X[0] + 1e-3, X[1] - 1e-3)
    assert float(wound(X, near)) == pytest.approx(float(kernel(X, near)), abs=1e-11)


def test_winding_keeps_structure_and_reaches_frozen_and_restricted_parts():
    kernel = kp.freeze(2.0 * kp.Gaussian(0.4).on("t") * kp.Matern(2.5, 0.3).on("x"))
    bound = kernel.bind_coordinates(("t", "x"))
    wound = bound.make_periodic(PERIODS)
    assert float(wound(X, (0.3, 3.2))) == pytest.approx(2.0, rel=1e-14)
    assert float(wound((0.0, 0.0), (0.0, 2.9))) == pytest.approx(
        float(wound((0.0, 0.0), (0.0, 0.1))), rel=1e-13
    )


def test_kernels_that_cannot_be_wound_are_refused():
    with pytest.raises(kp.InputError, match="Polynomial: this kernel cannot be made periodic"):
        (kp.Gaussian(0.3) + kp.Polynomial(2)).make_periodic(PERIODS)
    with pytest.raises(kp.InputError, match=r"period must be the period of the domain"):
        kp.Periodic(0.3, 2.0).make_periodic((3.0,))


def test_periodic_boxes_have_fewer_sides():
    box = kp.Box(t=(0, 1), x=(-5, 5), y=(0, 1), time="t", periodic="x")
    assert list(box.boundary_patches) == ["y=0", "y=1"]
    assert box.space.periods == (None, 10.0, None)
    with pytest.raises(kp.InputError, match="x is periodic and has no sides"):
        box.side(x=-5)
    with pytest.raises(kp.InputError, match="unknown periodic coordinate 't'"):
        kp.Box(t=(0, 1), x=(0, 1), time="t", periodic=["t"])
    with pytest.raises(kp.InputError, match="there is no boundary"):
        _ = kp.Box(t=(0, 1), x=(0, 1), time="t", periodic=["x"]).boundary


def test_a_problem_on_a_circle_needs_no_boundary_condition():
    """-u'' + u³ = f on a circle of length 2, u = sin πx + ½ cos 3πx."""
    circle = kp.Box(x=(0, 2), periodic="x")

    def exact(x):
        return jnp.sin(jnp.pi * x) + 0.5 * jnp.cos(3 * jnp.pi * x)

    def residual(p, u):
        x = p[0]
        second = -(jnp.pi**2) * (jnp.sin(jnp.pi * x) + 4.5 * jnp.cos(3 * jnp.pi * x))
        return -u.d("x", "x") + u.value**3 - (-second + exact(x) ** 3)

    problem = kp.Problem(
        kp.Condition("equation", circle.interior, residual),
        fields=[kp.Field("u", kp.Gaussian(0.4))],
    )
    solution = kp.solve(problem, {"equation": 60}, sampling="grid")
    grid = np.linspace(0, 2, 101)[:, None]
    np.testing.assert_allclose(solution["u"](grid), exact(grid[:, 0]), atol=1e-8)
    np.testing.assert_allclose(solution["u"]([[0.1]]), solution["u"]([[2.1]]), atol=1e-12)
