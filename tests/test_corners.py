"""Singular functions at the corners of planar domains."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import SQUARE, boundary_value, rms

import kernelpde as kp
from kernelpde.geometry import find_vertices
from kernelpde.kernels import SingularFunction, SingularKernel

L_SHAPE = kp.Box(x=(-1.0, 1.0), y=(-1.0, 1.0)) - kp.Box(x=(0.0, 1.1), y=(-1.1, 0.0))
GAUSSIAN = kp.Gaussian(0.5)


def sector(degrees, names=("first", "arc", "second")):
    """A polygon around the origin with the sides θ = 0 and θ = ω."""
    angles = np.deg2rad(np.linspace(0, degrees, 9))
    rim = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rim_names = [names[0], *[names[1]] * 8, names[2]]
    return kp.Polygon([(0, 0), *rim.tolist()], names=rim_names)


def functions_of(problem, corner=(0, 0)):
    added = kp.add_corner_functions(problem).fields[0].kernel
    if not hasattr(added, "second"):
        return []
    return [f for f in added.second.functions if np.allclose(f.corner, corner, atol=1e-6)]


@pytest.mark.parametrize("has_log", [False, True])
@pytest.mark.parametrize("exponent", [2 / 3, 1.5, 2.0])
def test_derivatives_are_those_of_complex_powers(exponent, has_log):
    axes = (0.7 + 0.1j, -0.2 + 0.9j)
    function = SingularFunction((0.1, -0.2), axes, 1.5 * np.pi, exponent, 0.4, has_log)

    def value(x):
        z = axes[0] * (x[0] - 0.1) + axes[1] * (x[1] + 0.2)
        # The same branch: the cut is opposite to the bisector 3π/4.
        log = jnp.log(z * np.exp(-0.75j * np.pi)) + 0.75j * np.pi
        return jnp.real(np.exp(0.4j) * jnp.exp(exponent * log) * (log if has_log else 1.0))

    points = jnp.asarray(np.random.default_rng(0).uniform(-1, 1, (20, 2)))
    orders = [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2)]
    derivatives = SingularKernel((function,)).derivatives(tuple(points.T), orders)
    gradient, hessian = jax.vmap(jax.grad(value))(points), jax.vmap(jax.hessian(value))(points)
    expected = [
        jax.vmap(value)(points),
        *gradient.T,
        hessian[:, 0, 0],
        hessian[:, 0, 1],
        hessian[:, 1, 1],
    ]
    for order, reference in zip(orders, expected, strict=True):
        np.testing.assert_allclose(derivatives[order][0], reference, rtol=1e-11, atol=1e-12)


def test_values_at_the_corner_itself_are_finite():
    function = SingularFunction((0.0, 0.0), (1.0 + 0j, 1j), np.pi / 2, 2.0, -np.pi / 2, True)
    kernel = SingularKernel((function,))
    assert float(kernel(np.zeros(2), np.ones(2))) == pytest.approx(0.0, abs=1e-50)


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        (SQUARE, [90] * 4),
        (L_SHAPE, [90] * 5 + [270]),
        (SQUARE - kp.Ball((0.0, 0.0), 0.2), [90] * 5),
        (SQUARE - kp.Box(x=(0.2, 0.4), y=(0.3, 0.6)), [90] * 4 + [270] * 4),
        (sector(350), [90 - 350 / 16] * 2 + [180 - 350 / 8] * 7 + [350]),
    ],
)
def test_interior_angles_of_vertices(domain, expected):
    vertices = find_vertices([domain.interior, domain.boundary])
    angles = [np.rad2deg(vertex.angle) for vertex in vertices]
    angles = [angle for angle in angles if abs(angle - 180) > 0.1]
    np.testing.assert_allclose(np.sort(angles), np.sort(expected), atol=1e-3)
    for vertex in vertices:
        assert domain.contains((vertex.point + 1e-3 * vertex.bisector)[None])[0]


def two_sided(degrees, first, second, tensor=(1.0, 0.0, 1.0)):
    """An equation in a sector with conditions of given kinds on its straight sides."""
    a, b, c = tensor
    domain = sector(degrees)

    def equation(x, u):
        return a * u.d(0, 0) + 2 * b * u.d(0, 1) + c * u.d(1, 1) - 1.0

    kinds = {
        "value": lambda x, u, normal: u.value,
        "flux": lambda x, u, normal: normal @ jnp.array([[a, b], [b, c]]) @ u.gradient,
        "normal": lambda x, u: u.normal_derivative,
        "oblique": lambda x, u, normal: normal @ u.gradient + 0.3 * u.d(0) + u.value,
    }
    return kp.Problem(
        kp.Condition("equation", domain.interior, equation),
        kp.Condition("first", domain["first"], kinds[first]),
        kp.Condition("arc", domain["arc"], lambda x, u: u.value - 1.0),
        kp.Condition("second", domain["second"], kinds[second]),
        fields=[kp.Field("u", GAUSSIAN)],
    )


@pytest.mark.parametrize(
    ("degrees", "first", "second", "expected"),
    [
        (270, "value", "value", [2 / 3, 4 / 3, "2 log", 8 / 3, 10 / 3]),
        (90, "value", "value", ["2 log"]),
        (90, "normal", "normal", ["2 log"]),
        (90, "value", "normal", ["1 log", "3 log"]),
        (180, "normal", "value", [0.5, 1.5, 2.5, 3.5]),
        (350, "value", "value", [k * 180 / 350 for k in range(1, 8)]),
        (120, "value", "normal", [0.75, 2.25, 3.75]),
    ],
)
def test_exponents_are_the_known_ones(degrees, first, second, expected):
    functions = functions_of(two_sided(degrees, first, second))
    got = [f"{f.exponent:g} log" if f.has_log else f.exponent for f in functions]
    assert [e for e in got if isinstance(e, str)] == [e for e in expected if isinstance(e, str)]
    numbers = [e for e in got if not isinstance(e, str)]
    np.testing.assert_allclose(numbers, [e for e in expected if not isinstance(e, str)], rtol=1e-7)


@pytest.mark.parametrize("second", ["value", "flux", "oblique"])
@pytest.mark.parametrize("first", ["value", "flux"])
@pytest.mark.parametrize(("degrees", "tensor"), [(75, (1.0, 0.0, 1.0)), (350, (3.0, 0.8, 0.5))])
def test_functions_satisfy_equation_and_conditions(degrees, first, second, tensor):
    """Of the exponents that are no integers, on both sides, for the principal part."""
    problem = two_sided(degrees, first, second, tensor)
    functions = [f for f in functions_of(problem) if not f.has_log]
    assert functions
    kernel = SingularKernel(tuple(functions))
    (a, b, c), angle = tensor, np.deg2rad(degrees)
    matrix = np.array([[a, b], [b, c]])
    inside = 0.4 * np.stack(
        [np.cos(angle * np.array([0.3, 0.8])), np.sin(angle * np.array([0.3, 0.8]))]
    )
    d = kernel.derivatives(tuple(map(jnp.asarray, inside)), [(2, 0), (1, 1), (0, 2)])
    size = np.abs(np.asarray(d[2, 0])).max()
    residual = a * d[2, 0] + 2 * b * d[1, 1] + c * d[0, 2]
    np.testing.assert_allclose(residual, 0.0, atol=1e-10 * size)
    for theta, kind, sign in ((0.0, first, -1), (angle, second, 1)):
        point = tuple(jnp.asarray(0.5 * np.array([v])) for v in (np.cos(theta), np.sin(theta)))
        normal = sign * np.array([-np.sin(theta), np.cos(theta)])
        d = kernel.derivatives(point, [(0, 0), (1, 0), (0, 1)])
        gradient = np.stack([np.asarray(d[1, 0])[:, 0], np.asarray(d[0, 1])[:, 0]])
        direction = {"flux": matrix @ normal, "oblique": normal + np.array([0.3, 0.0])}
        values = np.asarray(d[0, 0])[:, 0] if kind == "value" else direction[kind] @ gradient
        np.testing.assert_allclose(values, 0.0, atol=1e-9 * np.abs(gradient).max())


def angular(x, degrees):
    half = np.deg2rad(degrees) / 2
    rotated = x[0] * np.cos(half) + x[1] * np.sin(half), x[1] * np.cos(half) - x[0] * np.sin(half)
    return half + jnp.arctan2(rotated[1], rotated[0])


def power(x, exponent, degrees, function=jnp.sin):
    r = jnp.sqrt(x[0] ** 2 + x[1] ** 2)
    return r**exponent * function(exponent * angular(x, degrees))


@pytest.mark.parametrize("degrees", [225, 350])
def test_sectors_with_known_solutions(degrees):
    """Two singular functions and a smooth one: 1e-5 with few points, and not without functions."""
    exponent = 180 / degrees

    def exact(x):
        singular = power(x, exponent, degrees) + 0.5 * power(x, 2 * exponent, degrees)
        return singular + jnp.sin(x[0] + 2 * x[1])

    domain = sector(degrees)
    problem = boundary_value(
        domain,
        lambda x, u: u.laplacian + 5 * jnp.sin(x[0] + 2 * x[1]),
        GAUSSIAN,
        exact=exact,
    )
    points = {"equation": 250, "boundary": 150}
    test = np.asarray(domain.interior.sample(300, np.random.default_rng(3)).points)
    reference = np.asarray(jax.vmap(exact)(jnp.asarray(test)))
    solution = kp.solve(kp.add_corner_functions(problem), points)
    assert rms(solution["u"](test) - reference) < 1e-5
    plain = kp.solve(problem, points, throw=False)
    assert rms(plain["u"](test) - reference) > 1e-3
    leading = next(t for t in solution.corner_terms if abs(t.function.exponent - exponent) < 1e-9)
    assert leading.coefficient == pytest.approx(1.0, abs=1e-3)


def square_series(x, y, terms=80):
    """Solution of Laplace's equation with u = 1 for y = 1 and 0 on the other sides."""
    n = np.arange(1, 2 * terms, 2)
    ratio = np.exp(n * np.pi * (y[:, None] - 1)) * -np.expm1(-2 * n * np.pi * y[:, None])
    ratio /= -np.expm1(-2 * n * np.pi)
    return np.sum(4 / (n * np.pi) * np.sin(n * np.pi * x[:, None]) * ratio, axis=1)


def test_boundary_values_that_jump():
    sides = kp.union([SQUARE["x=0"], SQUARE["x=1"], SQUARE["y=0"]])
    problem = kp.Problem(
        kp.Condition("equation", SQUARE.interior, lambda x, u: u.laplacian),
        kp.Condition("cold", sides, lambda x, u: u.value),
        kp.Condition("hot", SQUARE["y=1"], lambda x, u: u.value - 1.0),
        fields=[kp.Field("u", GAUSSIAN)],
    )
    exponents = [f.exponent for f in functions_of(problem, (0, 1))]
    assert exponents == [0.0, 2.0]
    assert [f.exponent for f in functions_of(problem, (0, 0))] == [2.0]
    solution = kp.solve(kp.add_corner_functions(problem), {"equation": 200, "cold": 60, "hot": 20})
    points = np.random.default_rng(0).uniform([0, 0], [1, 0.9], (200, 2))
    error = np.asarray(solution["u"](points)) - square_series(*points.T)
    assert rms(error) < 1e-5


def test_fluxes_that_do_not_fit():
    """u = Im(z log z) + cos x vanishes up to cos x on y = 0, and has u_n = -π/2 on x = 0."""

    def exact(x):
        r, theta = jnp.sqrt(x[0] ** 2 + x[1] ** 2), jnp.arctan2(x[1], x[0])
        return r * (jnp.log(r) * jnp.sin(theta) + theta * jnp.cos(theta)) + jnp.cos(x[0])

    others = kp.union([SQUARE["x=1"], SQUARE["y=1"]])
    problem = kp.Problem(
        kp.Condition("equation", SQUARE.interior, lambda x, u: u.laplacian + jnp.cos(x[0])),
        kp.Condition("floor", SQUARE["y=0"], lambda x, u: u.value - jnp.cos(x[0])),
        kp.Condition("wall", SQUARE["x=0"], lambda x, u: u.normal_derivative + np.pi / 2),
        kp.Condition("others", others, lambda x, u: u.value - exact(x)),
        fields=[kp.Field("u", GAUSSIAN)],
    )
    points = np.random.default_rng(0).uniform(0.01, 1, (300, 2))
    reference = np.asarray(jax.vmap(exact)(jnp.asarray(points)))
    counts = {"equation": 200, "floor": 20, "wall": 20, "others": 40}
    solution = kp.solve(kp.add_corner_functions(problem), counts)
    assert rms(np.asarray(solution["u"](points)) - reference) < 1e-5
    plain = kp.solve(problem, counts, throw=False)
    assert rms(np.asarray(plain["u"](points)) - reference) > 1e-4


def motz():
    domain = kp.Polygon(
        [(-1, 0), (0, 0), (1, 0), (1, 1), (-1, 1)],
        names=["cold", "insulated", "hot", "insulated", "insulated"],
    )
    return kp.Problem(
        kp.Condition("equation", domain.interior, lambda x, u: u.laplacian),
        kp.Condition("cold", domain["cold"], lambda x, u: u.value),
        kp.Condition("hot", domain["hot"], lambda x, u: u.value - 500.0),
        kp.Condition("insulated", domain["insulated"], lambda x, u: u.normal_derivative),
        fields=[kp.Field("u", kp.Gaussian(0.4))],
    )


MOTZ_COEFFICIENTS = (401.162453745, 87.655920195, 17.237915079)
"""Li, Mathon and Sermer 1987, and Li and Lu 2000."""


def test_coefficients_of_motz():
    problem = kp.add_corner_functions(motz(), max_exponent=6.0)
    points = {"equation": 750, "cold": 50, "hot": 50, "insulated": 150}
    solution = kp.solve(problem, points, linear_solver=kp.Dense(nugget=1e-13))
    terms = [t for t in solution.corner_terms if np.allclose(t.function.corner, 0)]
    for term, reference, digits in zip(terms, MOTZ_COEFFICIENTS, (2e-8, 1e-5, 1e-3), strict=False):
        assert term.coefficient == pytest.approx(reference, rel=digits)
    assert "u at (0, 0), 180°: 401.162 r^0.5" in solution.report()


def test_solve_to_an_accuracy_uses_them(tmp_path):
    """Motz's problem to 1e-4; the file of the solution is loaded with the problem as written."""
    problem = motz()
    solution = kp.solve(problem, accuracy=1e-4)
    assert sum(len(points.points) for points in solution.point_sets) <= 400
    estimate = solution.error_estimate
    coefficients = estimate.of_quantity(lambda s: [t.coefficient for t in s.corner_terms])
    for term, error in zip(solution.corner_terms, coefficients, strict=True):
        if np.allclose(term.function.corner, 0) and term.function.exponent == 0.5:
            assert abs(term.coefficient - MOTZ_COEFFICIENTS[0]) < 10 * error < 0.5
    kp.save_solution(tmp_path / "motz.kpde", solution)
    loaded = kp.load_solution(tmp_path / "motz.kpde", problem)
    assert loaded.corner_terms == solution.corner_terms
    kp.save_kernels(tmp_path / "kernels.json", solution.problem)
    kernels = kp.load_kernels(tmp_path / "kernels.json", problem).fields[0].kernel
    assert repr(kernels) == repr(solution.problem.fields[0].kernel)


@pytest.mark.parametrize("linear_solver", [kp.Dense(), kp.LowRank()])
def test_linear_solvers_agree(linear_solver):
    problem = kp.add_corner_functions(
        boundary_value(SQUARE, lambda x, u: -u.laplacian + u.value**3 - 10.0, GAUSSIAN)
    )
    points = {"equation": 200, "boundary": 80}
    solution = kp.solve(problem, points, linear_solver=linear_solver)
    reference = kp.solve(problem, {"equation": 400, "boundary": 120})
    test = np.random.default_rng(0).random((100, 2))
    assert rms(np.asarray(solution["u"](test)) - np.asarray(reference["u"](test))) < 5e-6


def test_inside_of_transformations():
    square = SQUARE
    problem = kp.add_corner_functions(
        kp.Problem(
            kp.Condition("equation", square.interior, lambda x, u, load: -u.laplacian - load),
            kp.Condition("boundary", square.boundary, lambda x, u: u.value),
            fields=[kp.Field("u", 2.0 * GAUSSIAN)],
            inputs={"load": 1.0},
        )
    )
    points = problem.collocate({"equation": 100, "boundary": 40})

    def center(load):
        return kp.solve(problem, points, inputs={"load": load})["u"](jnp.array([[0.5, 0.5]]))[0]

    # Torsion of a square: u(center) = 0.0736713532...
    values = jax.jit(jax.vmap(center))(jnp.array([1.0, 2.0]))
    np.testing.assert_allclose(values, 0.07367135328 * np.array([1.0, 2.0]), rtol=1e-5)
    assert float(jax.grad(center)(3.0)) == pytest.approx(0.07367135328, rel=1e-5)


def test_variance_of_a_kernel_scales_its_corner_functions():
    problem = boundary_value(SQUARE, lambda x, u: u.laplacian - 1.0, 4.0 * GAUSSIAN)
    kernel = kp.add_corner_functions(problem).fields[0].kernel
    assert isinstance(kernel, kp.kernels.Scale)
    x, y = np.array([0.3, 0.2]), np.array([0.1, 0.7])
    plain = (
        kp.add_corner_functions(boundary_value(SQUARE, lambda x, u: u.laplacian - 1.0, GAUSSIAN))
        .fields[0]
        .kernel
    )
    assert kernel(x, y) == pytest.approx(4.0 * float(plain(x, y)), rel=1e-14)


def elasticity(x, u, v):
    return (
        2 * u.d(0, 0) + u.d(1, 1) + v.d(0, 1) - 1.0,
        2 * v.d(1, 1) + v.d(0, 0) + u.d(0, 1),
    )


@pytest.mark.parametrize(
    "problem",
    [
        boundary_value(kp.Ball((0, 0), 1.0), lambda x, u: u.laplacian - 1.0, GAUSSIAN),
        boundary_value(SQUARE, lambda x, u: u.d(0) - u.d(1, 1), GAUSSIAN),
        boundary_value(SQUARE, lambda x, u: u.d(0, 0) - u.d(1, 1), GAUSSIAN),
        boundary_value(SQUARE, lambda x, u: u.d(0) ** 2 + u.d(1) ** 2 - 1.0, GAUSSIAN),
        boundary_value(SQUARE, lambda x, u: u.d(0, 0) * u.d(1, 1) - u.d(0, 1) ** 2 - 1.0, GAUSSIAN),
        boundary_value(
            SQUARE,
            elasticity,
            kp.Field("u", GAUSSIAN),
            kp.Field("v", GAUSSIAN),
            edge=lambda x, u, v: (u.value, v.value),
        ),
        boundary_value(
            kp.Box(t=(0, 1), x=(0, 1), time="t"), lambda x, u: u.d("t") - u.laplacian, GAUSSIAN
        ),
    ],
    ids=["disk", "heat", "wave", "eikonal", "Monge-Ampere", "elasticity", "time"],
)
def test_without_known_functions_problems_are_unchanged(problem):
    assert kp.add_corner_functions(problem) is problem


def test_two_fields_have_their_own_functions():
    """A Dirichlet and a Neumann condition on the sides of a square, for one field each."""
    problem = kp.Problem(
        kp.Condition(
            "equations", SQUARE.interior, lambda x, u, v: (u.laplacian - v.value, v.laplacian + 1.0)
        ),
        kp.Condition("walls", SQUARE.boundary, lambda x, u: u.value),
        kp.Condition("free", SQUARE["x=0"], lambda x, v: v.normal_derivative),
        kp.Condition(
            "fixed",
            kp.union([SQUARE["x=1"], SQUARE["y=0"], SQUARE["y=1"]]),
            lambda x, v: v.value,
        ),
        fields=[kp.Field("u", GAUSSIAN), kp.Field("v", GAUSSIAN)],
    )
    u, v = (field.kernel.second.functions for field in kp.add_corner_functions(problem).fields)
    assert [(f.exponent, f.has_log) for f in u] == [(2.0, True)] * 4
    assert sorted(f.exponent for f in v) == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    again = kp.add_corner_functions(kp.add_corner_functions(problem))
    assert len(again.fields[0].kernel.second.functions) == 4


def test_arguments_are_checked():
    with pytest.raises(kp.InputError, match="max_exponent"):
        kp.add_corner_functions(motz(), max_exponent=0.0)
