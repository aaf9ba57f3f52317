"""An equation is what it computes: its terms, its linearization, and the numbers it reads."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import LINE, boundary_value

import kernelpde as kp
from kernelpde import compiling
from kernelpde.functionals import CoordinateFrame, Term
from kernelpde.problem import ResidualTracer, Unknowns, trace_residual

POINTS = {"equation": 24, "ends": 2}
MIDDLE = np.array([[0.5]])


def problem(equation, ends=lambda x, u: u.value, kernel=None):
    return boundary_value(LINE, equation, kp.Gaussian(0.4) if kernel is None else kernel, edge=ends)


def middle(solution) -> float:
    return float(solution["u"](MIDDLE)[0])


VISCOSITY = 1.0


class Holder:
    strength = 1.0


def reads_a_global(x, u):
    return -VISCOSITY * u.d("x", "x") - 1.0


def reads_an_attribute(x, u):
    return -u.d("x", "x") - Holder.strength


@pytest.mark.parametrize("new", [False, True], ids=["same problem", "new problem"])
def test_a_changed_global_is_seen(monkeypatch, new):
    known = problem(reads_a_global)
    for viscosity in (1.0, 2.0, 4.0):
        monkeypatch.setitem(globals(), "VISCOSITY", viscosity)
        solution = kp.solve(problem(reads_a_global) if new else known, POINTS)
        assert middle(solution) == pytest.approx(1.0 / (8.0 * viscosity), rel=1e-6)


def test_a_changed_attribute_is_seen_by_learning(monkeypatch):
    for strength in (1.0, 3.0):
        monkeypatch.setattr(Holder, "strength", strength)
        learned = kp.learn(problem(reads_an_attribute), POINTS)
        assert middle(learned.solution) == pytest.approx(strength / 8.0, rel=1e-6)


def test_a_solution_keeps_the_equation_it_was_found_with(monkeypatch):
    monkeypatch.setitem(globals(), "VISCOSITY", 2.0)
    solution = kp.solve(problem(reads_a_global), POINTS)
    monkeypatch.setitem(globals(), "VISCOSITY", 1e6)
    residual = solution.residual("equation", np.linspace(0.1, 0.9, 5)[:, None])
    assert np.abs(residual).max() < 1e-6


def made() -> int:
    return sum(compiling.program_cache.compile_counts.values())


def test_a_new_constant_compiles_nothing():
    def solved(constant):
        table = np.array([constant, 2.0 * constant])

        def inside(x, u):
            return (
                -u.d("x", "x") + constant * u.value - jnp.interp(x[0], np.array([0.0, 1.0]), table)
            )

        return kp.solve(problem(inside), POINTS)

    def exact(c):
        # -u'' + c u = c (1 + x), u = 1 + x less a combination of sinh
        x, root = 0.5, np.sqrt(c)
        ends = np.sinh(root * (1 - x)) + 2.0 * np.sinh(root * x)
        return 1.0 + x - ends / np.sinh(root)

    assert middle(solved(1.0)) == pytest.approx(exact(1.0), rel=1e-6)
    before = made()
    for constant in (2.0, 3.0, 7.0, 0.5):
        assert middle(solved(constant)) == pytest.approx(exact(constant), rel=1e-6)
    assert made() == before


def test_numbers_inside_of_a_compiled_function_are_lifted_too():
    def equation(rate):
        @jax.jit
        def reaction(value):
            return rate * value

        return lambda x, u: -u.d("x", "x") + reaction(u.value) - rate

    one, other = (problem(equation(rate)).residuals[0] for rate in (2.0, 5.0))
    assert jax.tree.structure(one) == jax.tree.structure(other)
    assert not one.traced.equivalent(other.traced)


def test_what_is_done_differently_is_told_apart():
    powers = [problem(lambda x, u, n=n: u.d("x", "x") + u.value**n).residuals[0] for n in (2, 3)]
    assert jax.tree.structure(powers[0]) != jax.tree.structure(powers[1])


def test_programs_beyond_the_limit_are_dropped():
    programs = compiling.ProgramCache(max_programs=3)
    functions = [lambda x, n=n: n * x for n in range(5)]
    for function in functions:
        for _ in range(2):
            programs.call(function, (jnp.ones(3),), {})
    assert len(programs) == 3
    assert sum(programs.compile_counts.values()) == 5


STEPS = {
    "where": (lambda x, u: -u.d("x", "x") - jnp.where(u.value > -1.0, 1.0, 50.0), 0.125),
    "sign": (lambda x, u: -u.d("x", "x") + jnp.sign(u.value + 1e-3) - 5.0, 0.5),
    "round": (lambda x, u: -u.d("x", "x") + jnp.round(u.value) - 2.0, 0.25),
    "stop_gradient": (
        lambda x, u: -u.d("x", "x") + jax.lax.stop_gradient(u.value**3) - 1.0,
        None,
    ),
    "integer": (lambda x, u: -u.d("x", "x") + u.value.astype(int) - 2.0, 0.25),
}


@pytest.mark.parametrize("name", STEPS)
def test_what_has_no_derivative_is_evaluated_all_the_same(name):
    equation, exact = STEPS[name]
    built = problem(equation)
    assert built.residuals[0].nonlinear, "the residual depends on u, though its derivative is zero"
    solution = kp.solve(built, POINTS)
    if exact is None:
        exact = middle(kp.solve(problem(lambda x, u: -u.d("x", "x") + u.value**3 - 1.0), POINTS))
    assert middle(solution) == pytest.approx(exact, rel=1e-6)
    points = solution.point_sets[0].points
    entries = solution.evaluate_jets(built.residuals[0].terms, points)
    for point, entry in zip(points, entries, strict=True):
        assert abs(float(built.residuals[0](point, None, {}, tuple(entry))[0])) < 1e-5


def test_coefficients_that_depend_on_the_point_alone_are_linear():
    def linear(x, u):
        matrix = jnp.array([[2.0, x[0]], [x[0], 3.0]])
        weighted = jnp.sum(matrix * u.hessian) + jnp.trace(u.hessian) / (1.0 + x[1])
        return (
            weighted + jnp.dot(jnp.array([1.0, x[1]]), u.gradient) - jnp.where(x[0] > 0, 1.0, 2.0)
        )

    square = kp.Box(x=(0, 1), y=(0, 1))
    built = kp.Problem(
        kp.Condition("equation", square.interior, linear),
        fields=[kp.Field("u", kp.Gaussian(0.4))],
    )
    assert built.residuals[0].nonlinear == ()


def test_a_switch_makes_coefficients_depend_on_the_field():
    """∂F/∂u_xx depends on u, though F is linear in u_xx for each u."""
    built = problem(lambda x, u: jnp.where(u.value > 0.05, 2.0, 1.0) * u.d("x", "x") + 1.0)
    assert len(built.residuals[0].nonlinear) == 2


def calls_numpy(x, u):
    return np.sin(u.value) - 1.0


def branches(x, u):
    if u.value > 0:
        return u.value
    return -u.value


def raises(x, u):
    raise RuntimeError("my own mistake")


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        (lambda x, u: u - 1.0, r"in arithmetic.*u\.value"),
        (lambda x, u: -u, r"u\.value"),
        (lambda x, u: jnp.sin(u), r"u\.value"),
        (lambda x, u: u, r"returns a field. Use its value: u\.value"),
        (lambda x, u: u.dx, r"no 'dx'.*u\.d\('x'\)"),
        (lambda x, u: u.values, r"Did you mean u\.value\?"),
        (lambda x, u: u(x), "called like a function"),
        (calls_numpy, r"jnp\.sin\(u\.value\)"),
        (branches, r"jnp\.where\(condition, this, that\)"),
        (lambda x, u: float(u.value), r"neither float\(\) nor int\(\)"),
        (lambda x, u: u.value - x[1], r"entry 1 of an array of length 1.*x\[0\] to x\[0\]"),
        (lambda x, u: u.value - x[-2], "of an array of length 1"),
        (lambda x, u: u.value == 1.0, r"u\.value - 1\.0 instead of"),
        (lambda x, u: (u.value - 1).astype(jnp.float32), "single precision"),
        (lambda x, u: None, "got None"),
        (lambda x, u: "text", "got 'text'"),
        (lambda x, u: {"a": u.value}, "must return a number"),
        (raises, "RuntimeError: my own mistake"),
    ],
)
def test_mistakes_in_a_residual_name_the_condition_and_say_what_to_do(equation, message):
    with pytest.raises(kp.InputError, match=message) as caught:
        problem(equation)
    assert "Condition 'equation'" in str(caught.value)
    assert "test_residuals.py:" in str(caught.value)


def test_a_residual_that_is_random_is_refused():
    generator = np.random.default_rng(0)
    with pytest.raises(kp.InputError, match="changes from call to call"):
        kp.solve(problem(lambda x, u: u.d("x", "x") - generator.random()), POINTS)


WIDTH = 0.3


def reads_a_width(x, y):
    return jnp.exp(-0.5 * jnp.sum((x - y) ** 2) / WIDTH**2)


def widens(x):
    return jnp.atleast_1d(WIDTH + 0.0 * x[0])


@pytest.mark.parametrize(
    "kernel",
    [
        lambda: kp.FunctionKernel(reads_a_width),
        lambda: 2.0 * kp.FunctionKernel(reads_a_width),
        lambda: kp.Gibbs(widens),
        lambda: kp.Warped(kp.Gaussian(1.0), lambda x: x / WIDTH),
    ],
    ids=["function", "scaled", "gibbs", "warped"],
)
def test_a_kernel_that_reads_a_global_sees_its_change(monkeypatch, kernel):
    built = problem(reads_an_attribute, kernel=kernel())
    for width in (0.3, 0.05):
        monkeypatch.setitem(globals(), "WIDTH", width)
        expected = kp.solve(
            problem(reads_an_attribute, kernel=kp.Gaussian(width)), POINTS, throw=False
        )
        for one in (built, problem(reads_an_attribute, kernel=kernel())):
            found = kp.solve(one, POINTS, throw=False)
            assert middle(found) == pytest.approx(middle(expected), rel=1e-4)


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
