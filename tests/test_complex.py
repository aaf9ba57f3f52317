"""Complex fields: what a residual depends on, and the same problem written in real numbers."""

import jax.numpy as jnp
import numpy as np
import pytest

import kernelpde as kp

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
