"""What tracing finds out about a residual, and the linearization it gives."""

import jax.numpy as jnp
import numpy as np
import pytest

import kernelpde as kp
from kernelpde.functionals import CoordinateFrame, Term
from kernelpde.problem import ResidualTracer, Unknowns, trace_residual

FRAME = CoordinateFrame(("t", "x", "y"), (1, 2))


def traced(function, fields=("u", "v"), has_normals=False, data=None):
    unknowns = Unknowns(tuple(kp.Field(name, kp.Gaussian(1.0)) for name in fields))
    tracer = ResidualTracer("test", function, unknowns, FRAME, has_normals, data or {})
    return trace_residual(tracer)[0]


def value(field):
    return Term(field, ((0, 0, 0),))


def test_only_the_derivatives_in_use_are_found():
    residual = traced(lambda p, u: u.d("t") - u.laplacian + u.value**2)
    assert set(residual.terms) == {
        value(0),
        Term(0, ((1, 0, 0),)),
        Term(0, ((0, 2, 0), (0, 0, 2))),
    }
    assert [residual.terms[t] for t in residual.nonlinear] == [value(0)]


def test_fields_are_matched_by_name_and_not_by_order():
    residual = traced(lambda p, v: v.value)
    assert residual.terms == (value(1),)


def test_each_equation_has_only_its_own_terms():
    residual = traced(lambda p, u, v: (u.d("t") - u.value * v.value, v.d("x", "y")))
    assert len(residual.equation_terms) == 2
    first = {residual.terms[t] for t in residual.equation_terms[0]}
    second = {residual.terms[t] for t in residual.equation_terms[1]}
    assert first == {Term(0, ((1, 0, 0),)), value(0), value(1)}
    assert second == {Term(1, ((0, 1, 1),))}
    assert {residual.terms[t] for t in residual.nonlinear} == {value(0), value(1)}


def test_products_of_derivatives_are_nonlinear_in_both():
    residual = traced(lambda p, u: u.value * u.d("x", "x") + u.d("y"))
    assert {residual.terms[t] for t in residual.nonlinear} == {value(0), Term(0, ((0, 2, 0),))}


def test_variable_coefficients_do_not_make_a_residual_nonlinear():
    residual = traced(lambda p, u: jnp.sin(p[1]) * u.laplacian + p[0] * u.value - jnp.exp(p[2]))
    assert residual.nonlinear == ()


def test_derivatives_by_index_name_gradient_and_hessian_agree():
    one = traced(lambda p, u: u.d("x", "y") + u.d("y"))
    other = traced(lambda p, u: u.hessian[0, 1] + u.gradient[1])
    third = traced(lambda p, u: u.d(2, 1) + u.d(2))
    assert one.terms == third.terms
    points = np.random.default_rng(0).random((4, 3))
    jets = jnp.zeros((4, 0))
    coefficients = other.linearize(jnp.asarray(points), None, {}, jets)[1][0, 0]
    active = {term for term, c in zip(other.terms, coefficients, strict=True) if c != 0}
    assert active == set(one.terms)


def test_normal_derivative_is_the_gradient_along_the_normal():
    residual = traced(lambda p, u: u.normal_derivative + 2.0 * u.value, has_normals=True)
    normals = jnp.asarray([[0.0, 0.6, 0.8]])
    _, coefficients = residual.linearize(jnp.zeros((1, 3)), normals, {}, jnp.zeros((1, 0)))
    found = dict(zip(residual.terms, coefficients[0, 0], strict=True))
    assert found[Term(0, ((0, 1, 0),))] == 0.6
    assert found[Term(0, ((0, 0, 1),))] == 0.8
    assert found[value(0)] == 2.0


def test_linearization_against_finite_differences():
    residual = traced(
        lambda p, u, v, y: (
            u.value**3 * v.value + p[0] * u.d("x") - y,
            jnp.sin(v.value) * u.d("x") - u.laplacian,
        ),
        data={"y": jnp.zeros(5)},
    )
    rng = np.random.default_rng(1)
    points, data = jnp.asarray(rng.random((5, 3))), {"y": jnp.asarray(rng.random(5))}
    full = rng.standard_normal((5, len(residual.terms)))
    jets = jnp.asarray(full[:, list(residual.nonlinear)])
    offset, coefficients = residual.linearize(points, None, data, jets)
    linear = [t for t in range(len(residual.terms)) if t not in residual.nonlinear]

    def evaluated(entries):
        rows = [
            residual(points[i], None, {"y": data["y"][i]}, tuple(jnp.asarray(entries[i])))
            for i in range(5)
        ]
        return np.stack([np.asarray(row) for row in rows])

    direct = evaluated(full)
    rebuilt = offset + np.einsum("nrt,nt->nr", coefficients[:, :, linear], full[:, linear])
    np.testing.assert_allclose(rebuilt, direct, rtol=1e-13, atol=1e-13)
    step = 1e-6
    for t in range(len(residual.terms)):
        shifted = [full + s * step * (np.arange(full.shape[1]) == t) for s in (1, -1)]
        plus, minus = map(evaluated, shifted)
        np.testing.assert_allclose(
            coefficients[:, :, t], (plus - minus) / (2 * step), rtol=1e-7, atol=1e-8
        )


@pytest.mark.parametrize(
    ("residual", "message"),
    [
        (lambda p, u: jnp.ones((2, 2)) * u.value, r"must return a number.*got shape \(2, 2\)"),
        (lambda p, u: (), "must return a number"),
        (lambda p, u: u.d("z"), "Unknown coordinate 'z'; the domain has 't', 'x', 'y'"),
        (lambda p, u: u.d(3), "Coordinate index 3 is out of range; the domain has 3"),
        (lambda p, w: w.value, "argument 'w', but the problem has fields 'u', 'v'"),
        (lambda p, u: p[0], "uses no field"),
        (lambda p, u: (u.value, p[0]), "component 1 of its residual uses no field"),
        (lambda p, u: 1j * u.value, "component 0 of its residual uses no field"),
        (lambda p, u: u.normal_derivative, "normal_derivative requires normals"),
        (lambda *args: args[1].value, "function of the point and then of fields or data by name"),
    ],
)
def test_bad_residuals_are_refused(residual, message):
    with pytest.raises(kp.InputError, match=message):
        traced(residual)
