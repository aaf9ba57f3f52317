"""Vector, complex and periodic fields are what their scalar, real and flat formulations are."""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from problems import SQUARE, boundary_value

import kernelpde as kp
from kernelpde.functionals import CoordinateFrame, Jet


def stream(x):
    return jnp.sin(2 * x[0]) * jnp.cos(x[1])


def test_a_curl_is_found_from_its_vorticity_and_has_no_divergence():
    def velocity(x):
        along, up = jax.grad(stream)(x)
        return jnp.array([up, -along])

    def vorticity(x):
        turn = jax.jacobian(velocity)(x)
        return turn[1, 0] - turn[0, 1]

    problem = boundary_value(
        SQUARE,
        lambda x, psi: kp.vectors.curl(psi).curl - vorticity(x),
        kp.Field("psi", kp.Gaussian(0.7)),
        edge=lambda x, psi: kp.vectors.curl(psi).value - velocity(x),
        names=("vorticity", "walls"),
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


STRIP = kp.Box(t=(0, 0.3), x=(-3, 3), time="t", periodic="x")
KERNEL = kp.Gaussian([0.3, 0.6])
POINTS = {"equation": 220, "initial": 40}


def schrodinger(x, h):
    value = h.value
    return 1j * h.d("t") + 0.5 * h.d("x", "x") + jnp.abs(value) ** 2 * value


def complex_problem():
    return kp.Problem(
        kp.Condition("equation", STRIP.interior, schrodinger),
        kp.Condition("initial", STRIP.initial, lambda x, h: h.value - jnp.exp(-(x[1] ** 2))),
        fields=[kp.ComplexField("h", KERNEL)],
    )


def real_problem():
    def equation(x, h_real, h_imag):
        size = h_real.value**2 + h_imag.value**2
        return (
            -h_imag.d("t") + 0.5 * h_real.d("x", "x") + size * h_real.value,
            h_real.d("t") + 0.5 * h_imag.d("x", "x") + size * h_imag.value,
        )

    def initial(x, h_real, h_imag):
        return h_real.value - jnp.exp(-(x[1] ** 2)), h_imag.value

    return kp.Problem(
        kp.Condition("equation", STRIP.interior, equation),
        kp.Condition("initial", STRIP.initial, initial),
        fields=[kp.Field("h_real", KERNEL), kp.Field("h_imag", KERNEL)],
    )


def test_a_complex_residual_uses_exactly_what_its_parts_use():
    one, other = complex_problem(), real_problem()
    for a, b in zip(one.residuals, other.residuals, strict=True):
        assert a.terms == b.terms
        assert a.equation_terms == b.equation_terms
        assert a.nonlinear == b.nonlinear


def test_complex_and_real_formulations_have_the_same_solution():
    # The nugget keeps rounding, which differs, from being magnified by the condition.
    solver = kp.Dense(nugget=1e-8, refinement_sweeps=0)
    one, other = (
        kp.solve(p, POINTS, linear_solver=solver) for p in (complex_problem(), real_problem())
    )
    grid = np.stack(np.meshgrid(np.linspace(0, 0.3, 7), np.linspace(-3, 3, 25)), axis=-1)
    h = one["h"]
    expected = np.asarray(other["h_real"](grid)) + 1j * np.asarray(other["h_imag"](grid))
    np.testing.assert_allclose(h(grid), expected, atol=1e-10)
    slope = other["h_real"].d("x")(grid) + 1j * np.asarray(other["h_imag"].d("x")(grid))
    np.testing.assert_allclose(h.d("x")(grid), slope, atol=1e-9)
    np.testing.assert_allclose(h.gradient(grid)[..., 0], slope, atol=1e-9)
    np.testing.assert_allclose(h.laplacian(grid), h.hessian(grid)[..., 0, 0], atol=1e-12)


def test_conserved_mass():
    """∫|h|² does not depend on time."""
    solution = kp.solve(complex_problem(), POINTS)
    x = np.linspace(-3, 3, 61)[:-1]
    masses = [
        np.mean(np.abs(solution["h"](np.stack([np.full(60, t), x], axis=1))) ** 2)
        for t in (0.0, 0.15, 0.3)
    ]
    np.testing.assert_allclose(masses, masses[0], rtol=2e-3)


def test_names_of_parts_are_taken():
    with pytest.raises(kp.InputError, match="every field must have a different name"):
        kp.Problem(
            kp.Condition("equation", STRIP.interior, schrodinger),
            fields=[kp.ComplexField("h", KERNEL), kp.Field("h_real", KERNEL)],
        )


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
