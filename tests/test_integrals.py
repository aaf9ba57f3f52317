"""Integrals inside residuals equal closed forms, crossed with what else residuals can do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import LINE, boundary_value, observed

import kernelpde as kp

GRID = np.linspace(0, 1, 101)[:, None]


def fredholm(x, u):
    """u - ∫ exp(xy) u dy = f for u = exp(x)."""
    inner = kp.integral(lambda y, u: jnp.exp(x[0] * y[0]) * u.value, LINE)
    return u.value - inner - jnp.exp(x[0]) + (jnp.exp(x[0] + 1) - 1) / (x[0] + 1)


def volterra(x, u):
    """u = 1 + ∫₀ˣ u² dy: 1 / (1 - x)."""
    return u.value - 1 - kp.integral(lambda y, u: u.value**2, start=[0.0], end=x)


SMOOTH = kp.Polynomial(10) + kp.Gaussian(0.5)


def relative(found, exact):
    found = np.asarray(found)
    return np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2))


def test_fredholm():
    problem = kp.Problem(
        kp.Condition("eq", LINE.interior, fredholm), fields=[kp.Field("u", SMOOTH)]
    )
    solution = kp.solve(problem, {"eq": 60})
    assert solution.converged
    assert relative(solution["u"](GRID), np.exp(GRID[:, 0])) < 3e-9
    # It is the same system as that of the sums written by hand.
    place, weight = np.polynomial.legendre.leggauss(32)
    nodes, weights = 0.5 * (place + 1)[:, None], 0.5 * weight

    def by_hand(x, u):
        inner = kp.integral(lambda y, u: jnp.exp(x[0] * y[0]) * u.value, (nodes, weights))
        return u.value - inner - jnp.exp(x[0]) + (jnp.exp(x[0] + 1) - 1) / (x[0] + 1)

    other = kp.Problem(kp.Condition("eq", LINE.interior, by_hand), fields=problem.fields)
    again = kp.solve(other, {"eq": 60})["u"](GRID)
    np.testing.assert_allclose(again, solution["u"](GRID), rtol=1e-9)


def test_volterra_nonlinear_and_learned():
    half = kp.Box(x=(0, 0.5))
    problem = kp.Problem(
        kp.Condition("eq", half.interior, volterra), fields=[kp.Field("u", SMOOTH)]
    )
    learned = kp.learn(problem, {"eq": 30})
    assert learned.solution.converged
    x = 0.5 * GRID
    assert relative(learned.solution["u"](x), 1 / (1 - x[:, 0])) < 3e-8


def test_an_integral_in_a_differential_equation_of_time():
    # u' + ∫₀ᵗ u = 0, u(0) = 1: cos t.
    time = kp.Box(t=(0, 3))
    problem = kp.Problem(
        kp.Condition(
            "eq",
            time.interior,
            lambda t, u: u.d("t") + kp.integral(lambda s, u: u.value, start=[0.0], end=t),
        ),
        kp.Condition("initial", time.side(t=0), lambda t, u: u.value - 1),
        fields=[kp.Field("u", kp.Gaussian(1.0))],
    )
    solution = kp.solve(problem, {"eq": 40, "initial": 1})
    assert relative(solution["u"](3 * GRID), np.cos(3 * GRID[:, 0])) < 1e-6


def test_mean_zero_makes_a_neumann_problem_solvable():
    square = kp.Box(x=(0, 1), y=(0, 1))

    def cosine(x):
        return jnp.cos(jnp.pi * x[0]) * jnp.cos(2 * jnp.pi * x[1])

    problem = boundary_value(
        square,
        lambda x, u: u.laplacian + 5 * jnp.pi**2 * cosine(x),
        kp.Gaussian(0.4),
        edge=lambda x, u: u.normal_derivative,
        more=[
            kp.Condition(
                "mean",
                kp.PointCloud([[0.5, 0.5]]),
                lambda x, u: kp.integral(lambda y, u: u.value, square),
            )
        ],
        names=("eq", "flux"),
    )
    solution = kp.solve(problem, {"eq": 300, "flux": 120})
    x = square.interior.sample(300, np.random.default_rng(0)).points
    exact = np.asarray(jax.vmap(cosine)(x))
    assert relative(solution["u"](x), exact) < 1e-4
    place, weight = np.polynomial.legendre.leggauss(40)
    place, weight = 0.5 * (place + 1), 0.5 * weight
    grid = np.stack(np.meshgrid(place, place), axis=-1).reshape(-1, 2)
    mean = np.asarray(solution["u"](grid)) @ np.outer(weight, weight).reshape(-1)
    assert abs(mean) < 1e-10


def test_flux_through_a_side():
    # u = x y: the flux through x = 1 is 1/2, and tells the factor of the solution.
    square = kp.Box(x=(0, 1), y=(0, 1))
    problem = boundary_value(
        square,
        lambda x, u: u.laplacian,
        kp.Gaussian(1.0),
        kp.Parameter("a", mean=0.0, std=10.0),
        edge=lambda x, u, a: u.value - a * x[0] * x[1],
        more=[
            kp.Condition(
                "flux",
                kp.PointCloud([[1.0, 0.5]]),
                lambda x, u: kp.integral(lambda y, u: u.d("x"), square.side(x=1)) - 0.5,
            )
        ],
        names=("eq", "edges"),
    )
    solution = kp.solve(problem, {"eq": 80, "edges": 60})
    assert solution.parameters["a"] == pytest.approx(1.0, abs=1e-5)


def test_complex_fields_and_normals():
    # i u' = ∫ u over (0, 1) with u = 1 + b x: i b = 1 + b / 2.
    b = 1 / (1j - 0.5)
    problem = kp.Problem(
        kp.Condition(
            "eq",
            LINE.interior,
            lambda x, u: 1j * u.d("x") - kp.integral(lambda y, u: u.value, LINE),
        ),
        kp.Condition("left", LINE.side(x=0), lambda x, normal, u: normal[0] * (1 - u.value)),
        fields=[kp.ComplexField("u", kp.Gaussian(1.0))],
    )
    solution = kp.solve(problem, {"eq": 30, "left": 1})
    np.testing.assert_allclose(solution["u"](GRID), 1 + b * GRID[:, 0], atol=1e-6)


def test_noisy_data_have_a_posterior():
    rng = np.random.default_rng(0)
    x = rng.random((25, 1))
    y = np.exp(x[:, 0]) + 0.01 * rng.normal(size=25)
    problem = kp.Problem(
        kp.Condition("eq", LINE.interior, lambda x, u, f: fredholm(x, u) + f.value),
        observed(kp.PointCloud(x), y, 0.01),
        fields=[kp.Field("u", kp.Gaussian(0.5)), kp.Field("f", kp.Gaussian(0.5))],
    )
    solution = kp.solve(problem, {"eq": 40}, linear_solver=kp.Dense(nugget=1e-8))
    believed = kp.posterior(solution)["u"].std(GRID)
    error = np.abs(np.asarray(solution["u"](GRID)) - np.exp(GRID[:, 0]))
    assert np.mean(error < 3 * np.asarray(believed)) > 0.9


def test_derivatives_go_through():
    def equation(x, u, c):
        inner = kp.integral(lambda y, u: x[0] * y[0] * u.value, LINE)
        return u.value - c * inner - x[0]

    problem = kp.Problem(
        kp.Condition("eq", LINE.interior, equation),
        fields=[kp.Field("u", SMOOTH)],
        inputs={"c": 0.5},
    )
    discretization = kp.discretize(problem, {"eq": 30})

    def at_half(c):
        return kp.solve(discretization.with_inputs({"c": c}))["u"](jnp.array([[0.5]]))[0]

    # u = a x with a = 1 + c a / 3: d(a / 2)/dc = a² / 6.
    a = 1 / (1 - 0.5 / 3)
    assert at_half(0.5) == pytest.approx(a / 2, rel=1e-8)
    assert jax.grad(at_half)(0.5) == pytest.approx(a**2 / 6, rel=1e-6)


def test_solutions_are_kept_in_files(tmp_path):
    problem = kp.Problem(
        kp.Condition("eq", LINE.interior, fredholm), fields=[kp.Field("u", SMOOTH)]
    )
    solution = kp.solve(problem, {"eq": 30})
    kp.save_solution(tmp_path / "u.npz", solution)
    again = kp.load_solution(tmp_path / "u.npz", problem)
    np.testing.assert_array_equal(again["u"](GRID), solution["u"](GRID))


@pytest.mark.parametrize(
    ("residual", "reason"),
    [
        (lambda x, u: u.value * kp.integral(lambda y, u: u.value, LINE) - 1, "not linear"),
        (lambda x, u: kp.integral(lambda y, u: u.value, LINE) ** 2 - u.value, "not linear"),
        (lambda x, u: u.value - kp.integral(lambda y, v: v.value, LINE), "argument 'v'"),
        (lambda x, u: u.value - kp.integral(lambda y, u: u.value), "either a region"),
        (lambda x, u: u.value - kp.integral(lambda y, u: y, LINE), "one number"),
        (lambda x, u: u.value - kp.integral(lambda y, u: u.value, start=[0.0], end=1.0), "points"),
        (
            lambda x, u: (
                u.value - kp.integral(lambda y, u: kp.integral(lambda z, u: u.value, LINE), LINE)
            ),
            r"^Condition .eq. \([^()]*\): integral: integrals inside integrals",
        ),
    ],
)
def test_what_cannot_be_is_refused(residual, reason):
    with pytest.raises(kp.InputError, match=reason):
        kp.Problem(kp.Condition("eq", LINE.interior, residual), fields=[kp.Field("u", SMOOTH)])
    with pytest.raises(kp.InputError, match="only residuals can contain it"):
        kp.integral(lambda y, u: u.value, LINE)


def test_low_rank_accuracy_and_windows():
    box = kp.Box(t=(0, 3), time="t")
    problem = kp.Problem(
        kp.Condition(
            "eq",
            box.interior,
            lambda t, u: u.d("t") + kp.integral(lambda s, u: u.value, start=[0.0], end=t),
        ),
        kp.Condition("initial", box.initial, lambda t, u: u.value - 1),
        fields=[kp.Field("u", kp.Gaussian(1.0))],
    )
    points = {"eq": 40, "initial": 1}
    low = kp.solve(problem, points, linear_solver=kp.LowRank())
    assert relative(low["u"](3 * GRID), np.cos(3 * GRID[:, 0])) < 1e-5
    with pytest.raises(kp.InputError, match="not local"):
        kp.solve(problem, points, linear_solver=kp.Sparse())
    with pytest.raises(kp.InputError, match="may extend beyond a"):
        kp.march(problem, 2, points)


def test_regions_without_a_rule_are_refused():
    disc = kp.Ball((0, 0), 1)
    walls = kp.Extrusion(kp.Polygon([(0, 0), (1, 0), (0, 1)]), t=(0, 1))
    for region, over in ((disc.interior, disc), (walls.interior, walls["outer"])):

        def residual(x, u, over=over):
            return u.value - kp.integral(lambda y, u: u.value, over)

        with pytest.raises(kp.InputError, match="Pass nodes and weights"):
            kp.Problem(kp.Condition("eq", region, residual), fields=[kp.Field("u", SMOOTH)])
