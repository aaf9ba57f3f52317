"""Exact cases and manufactured solutions are met, and results say when they are not."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import LINE, SQUARE, boundary_value, observed, regression

import kernelpde as kp
from kernelpde.gallery import elliptic, elliptic_additive
from kernelpde.results import RESULTS
from kernelpde.solution import midpoints

GRID = np.stack(np.meshgrid(*[np.linspace(0, 1, 25)] * 2, indexing="ij"), axis=-1)


def rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


def test_gallery_elliptic_solves_its_own_equation():
    """The manufactured source against the Laplacian of the exact solution, by differences."""
    example = elliptic()
    points = np.random.default_rng(0).random((20, 2)) * 0.8 + 0.1
    exact, h = example.references["u"], 1e-3
    shifts = [np.array(s) * h for s in ((1, 0), (-1, 0), (0, 1), (0, -1))]
    laplacian = (sum(exact(points + s) for s in shifts) - 4 * exact(points)) / h**2
    residual = example.problem.residuals[0]
    entries = [laplacian if len(term.orders) == 2 else exact(points) for term in residual.terms]
    defect = [
        float(residual(jnp.asarray(p), None, {}, tuple(jnp.asarray(e)))[0])
        for p, e in zip(points, np.stack(entries, axis=1), strict=True)
    ]
    # Fourth derivatives are at most 4 (4 pi)^4, so differences are good to 2e-2 of 1263.
    assert np.abs(defect).max() < 2e-2


@pytest.mark.parametrize(("refinement", "bound"), [(0, 3.0e-7), (2, 1.5e-7)])
def test_elliptic_reaches_the_published_accuracy(refinement, bound):
    """Published: 2.2e-7 on one set of points. Here the median over five."""
    example = elliptic(0.2)
    errors = []
    for seed in range(5):
        solution = kp.solve(
            example.problem,
            example.points,
            seed=seed,
            sampling="uniform",
            linear_solver=kp.Dense(nugget=1e-12, refinement_sweeps=refinement),
            max_steps=10,
        )
        assert solution.nugget == 1e-12
        errors.append(example.errors(solution)["u"]["l2"])
    assert np.median(errors) <= bound


def test_plain_gauss_newton_ends_at_the_same_solution():
    example = elliptic(0.2)
    points = {"equation": 400, "boundary": 100}
    damped = kp.solve(example.problem, points)
    plain = kp.solve(example.problem, points, solver=kp.GaussNewton())
    difference = rms(damped["u"](GRID) - plain["u"](GRID))
    assert difference < 1e-8


@pytest.mark.parametrize("method", [kp.LevenbergMarquardt(), kp.GaussNewton()])
def test_a_hopeless_kernel_ends_with_a_typed_result(method):
    """Published for this kernel: no convergence in 200 steps."""
    example = elliptic_additive()
    solution = kp.solve(
        example.problem,
        {"equation": 900, "boundary": 300},
        solver=method,
        linear_solver=kp.Dense(nugget=1e-10),
        throw=False,
    )
    assert solution.result in (
        RESULTS.stalled,
        RESULTS.max_steps_reached,
        RESULTS.residual_too_large,
    )
    assert not solution.converged
    assert len(solution.message) > 40
    assert np.isfinite(solution["u"](GRID)).all()
    assert all(np.isfinite(size) for r in solution.residuals.values() for size in r.values())
    with pytest.raises(kp.SolveError, match="NOT converged") as caught:
        kp.solve(
            example.problem,
            {"equation": 100, "boundary": 30},
            solver=method,
            linear_solver=kp.Dense(nugget=1e-10),
            max_steps=5,
        )
    assert caught.value.solution.num_steps == 5


def test_a_kernel_that_cannot_meet_the_conditions_is_reported():
    """A linear problem settles at once, but quadratic polynomials do not solve it."""
    problem = boundary_value(SQUARE, lambda x, u: u.laplacian - jnp.exp(x[0]), kp.Polynomial(2))
    points = {"equation": 60, "boundary": 40}
    solution = kp.solve(problem, points, throw=False)
    assert solution.result is RESULTS.residual_too_large
    assert "shorter lengthscale" in solution.message


def test_indefinite_kernels_end_with_a_typed_result():
    problem = kp.Problem(
        kp.Condition("data", np.random.default_rng(0).random((20, 2)), lambda x, u: u.value - x[0]),
        fields=[kp.Field("u", kp.FunctionKernel(lambda x, y: jnp.exp(jnp.sum((x - y) ** 2))))],
    )
    solution = kp.solve(problem, throw=False)
    assert solution.result is RESULTS.not_positive_definite
    assert solution.nugget == 1e-6


def test_nan_from_a_residual_ends_with_a_typed_result():
    problem = kp.Problem(
        kp.Condition("equation", SQUARE.interior, lambda x, u: u.laplacian - jnp.log(x[0] - 2)),
        fields=[kp.Field("u", kp.Gaussian(0.3))],
    )
    for method in (kp.GaussNewton(), kp.LevenbergMarquardt()):
        solution = kp.solve(problem, {"equation": 30}, solver=method, throw=False)
        assert solution.result is RESULTS.not_finite
        assert np.isfinite(solution["u"](GRID)).all()


def test_a_linear_problem_takes_one_step():
    problem = boundary_value(
        SQUARE,
        lambda x, u: (
            -u.laplacian - 2 * jnp.pi**2 * (jnp.sin(jnp.pi * x[0]) * jnp.sin(jnp.pi * x[1]))
        ),
        kp.Gaussian(0.4),
    )
    solution = kp.solve(
        problem, {"equation": 200, "boundary": 80}, linear_solver=kp.Dense(refinement_sweeps=0)
    )
    assert solution.num_steps == 1
    exact = np.sin(np.pi * GRID[..., 0]) * np.sin(np.pi * GRID[..., 1])
    assert rms(solution["u"](GRID) - exact) < 1e-6


def test_noisy_observations_are_gaussian_process_regression():
    """Σ per datum: the solution is the textbook posterior mean."""
    rng = np.random.default_rng(3)
    points, noise = rng.random((50, 2)), 0.05 + 0.2 * rng.random(50)
    values = np.sin(5 * points[:, 0]) + noise * rng.standard_normal(50)
    kernel = 1.5 * kp.Gaussian(0.3)
    problem = regression(points, values, noise, kernel)
    solution = kp.solve(problem, linear_solver=kp.Dense(nugget=0.0))

    def covariance(a, b):
        return 1.5 * np.exp(-np.sum((a[:, None] - b[None]) ** 2, axis=-1) / (2 * 0.3**2))

    weights = np.linalg.solve(covariance(points, points) + np.diag(noise**2), values)
    new = rng.random((30, 2))
    np.testing.assert_allclose(
        solution["u"](new), covariance(new, points) @ weights, rtol=1e-10, atol=1e-11
    )


def test_a_hard_condition_is_the_limit_of_relaxed_ones():
    points = {"equation": 150, "boundary": 60}

    def solved(noise):
        problem = kp.Problem(
            kp.Condition("equation", SQUARE.interior, lambda x, u: -u.laplacian + u.value**3 - 1.0),
            kp.Condition("boundary", SQUARE.boundary, lambda x, u: u.value, noise=noise),
            fields=[kp.Field("u", kp.Matern(4.5, 0.5))],
        )
        return np.asarray(kp.solve(problem, points)["u"](GRID))

    hard = solved(0.0)
    gaps = [rms(solved(noise) - hard) for noise in (1e-5, 1e-6, 1e-7)]
    # What is allowed is the variance: a tenth of the noise, a hundredth of the difference.
    np.testing.assert_allclose(gaps[1] / gaps[0], 0.01, rtol=0.1)
    np.testing.assert_allclose(gaps[2] / gaps[1], 0.01, rtol=0.1)


def test_a_nonlinear_system_with_neumann_and_robin_conditions():
    """u = sin x cos y, v = exp(x - y), coupled in the equations and on the boundary."""

    def sources(p):
        u, v = jnp.sin(p[0]) * jnp.cos(p[1]), jnp.exp(p[0] - p[1])
        return -2 * u + u * v, 2 * v - u**2

    def robin(p):
        return jnp.cos(1.0) * jnp.cos(p[1]) + jnp.sin(1.0) * jnp.cos(p[1])

    problem = kp.Problem(
        kp.Condition(
            "equations",
            SQUARE.interior,
            lambda p, u, v: (
                u.laplacian + u.value * v.value - sources(p)[0],
                v.laplacian - u.value**2 - sources(p)[1],
            ),
        ),
        kp.Condition("left", SQUARE.side(x=0), lambda p, u, v: (u.value, v.value - jnp.exp(-p[1]))),
        kp.Condition(
            "robin", SQUARE.side(x=1), lambda p, u: u.normal_derivative + u.value - robin(p)
        ),
        kp.Condition("right", SQUARE.side(x=1), lambda p, v: v.value - jnp.exp(1 - p[1])),
        kp.Condition(
            "low",
            SQUARE.side(y=0),
            lambda p, u, v: (u.normal_derivative, v.normal_derivative - jnp.exp(p[0])),
        ),
        kp.Condition(
            "coupled",
            SQUARE.side(y=1),
            lambda p, u, v: (
                u.value + v.value - jnp.sin(p[0]) * jnp.cos(1.0) - jnp.exp(p[0] - 1),
                v.normal_derivative + jnp.exp(p[0] - 1),
            ),
        ),
        fields=[kp.Field("u", kp.Gaussian(0.7)), kp.Field("v", kp.Gaussian(0.7))],
    )
    points = {"equations": 150, "left": 25, "robin": 25, "right": 25, "low": 25, "coupled": 25}
    solution = kp.solve(problem, points)
    x, y = GRID[..., 0], GRID[..., 1]
    assert rms(solution["u"](GRID) - np.sin(x) * np.cos(y)) < 1e-6
    assert rms(solution["v"](GRID) - np.exp(x - y)) < 1e-6


def test_an_equation_in_space_time():
    """u_t + u u_x = 0.1 u_xx + f with u = exp(-t) sin(pi x); Laplacian and gradient in space."""
    box = kp.Box(t=(0, 1), x=(-1, 1), time="t")

    def source(p):
        t, x = p
        u, ux = jnp.exp(-t) * jnp.sin(jnp.pi * x), jnp.pi * jnp.exp(-t) * jnp.cos(jnp.pi * x)
        return -u + u * ux + 0.1 * jnp.pi**2 * u

    problem = kp.Problem(
        kp.Condition(
            "equation",
            box.interior,
            lambda p, u: u.d("t") + u.value * u.gradient[0] - 0.1 * u.laplacian - source(p),
        ),
        kp.Condition("start", box.initial, lambda p, u: u.value - jnp.sin(jnp.pi * p[1])),
        kp.Condition("sides", box.boundary, lambda p, u: u.value),
        fields=[kp.Field("u", kp.Gaussian(1.0).on("t") * kp.Gaussian(0.5).on("x"))],
    )
    solution = kp.solve(problem, {"equation": 250, "start": 40, "sides": 40})
    t, x = np.meshgrid(np.linspace(0, 1, 20), np.linspace(-1, 1, 40), indexing="ij")
    grid = np.stack([t, x], axis=-1)
    exact = np.exp(-t) * np.sin(np.pi * x)
    assert rms(solution["u"](grid) - exact) < 1e-6
    assert rms(solution["u"].d("t")(grid) + exact) < 1e-4


def eikonal():
    """The regularized eikonal equation; from u = 0 the first full step is 60 times too long."""
    return boundary_value(
        SQUARE, lambda p, u: u.gradient @ u.gradient - 1 - 0.1 * u.laplacian, kp.Matern(3.5, 0.5)
    )


EIKONAL_POINTS = {"equation": 200, "boundary": 80}


@pytest.mark.parametrize("watchdog_steps", [0, 1, 5])
def test_damped_and_full_steps_end_at_the_same_solution(watchdog_steps):
    """Without the watchdog the first full step is rejected, and damped steps lead on."""
    options = {"linear_solver": kp.Dense(1e-10)}
    full = kp.solve(eikonal(), EIKONAL_POINTS, solver=kp.GaussNewton(), **options)
    solver = kp.LevenbergMarquardt(watchdog_steps=watchdog_steps)
    solution = kp.solve(eikonal(), EIKONAL_POINTS, solver=solver, **options)
    assert solution.converged
    assert any(record.damping > 0 for record in solution.history) == (watchdog_steps == 0)
    np.testing.assert_allclose(solution["u"](GRID), full["u"](GRID), atol=1e-6)


def test_damped_steps_decrease_one_objective():
    solver = kp.LevenbergMarquardt(watchdog_steps=0)
    solution = kp.solve(
        eikonal(), EIKONAL_POINTS, linear_solver=kp.Dense(1e-10), solver=solver, throw=False
    )
    damped = [record for record in solution.history if record.damping > 0]
    accepted = [record for record in damped if record.accepted]
    assert len(damped) > len(accepted) > 5
    for record in accepted:
        # Down to rounding, the decrease is positive and at most about the predicted one.
        decrease = record.previous_objective - record.objective
        assert decrease > -1e-4 * record.objective
        assert record.predicted_decrease > 0
    for before, after in itertools.pairwise(accepted):
        if before.objective_index == after.objective_index:
            assert after.previous_objective == pytest.approx(before.objective, rel=1e-6)


def test_row_weights_that_no_longer_fit_are_frozen_again_and_named():
    """The overshoot multiplies the rows' scale by 3600, and the solution has the first one's."""
    solution = kp.solve(eikonal(), EIKONAL_POINTS, linear_solver=kp.Dense(1e-10))
    indices = [record.objective_index for record in solution.history]
    assert indices[0] == 1
    assert 1 < indices[-1] <= 3
    assert indices == sorted(indices)


@pytest.mark.parametrize(
    ("solver", "result"),
    [
        (kp.GaussNewton(), RESULTS.stalled),
        (kp.LevenbergMarquardt(), RESULTS.max_steps_reached),
    ],
)
def test_an_iteration_that_fails_ends_at_its_best_iterate(solver, result):
    """u'' = 1000 (1 + u²) with u = 0 at both ends has no solution."""
    problem = boundary_value(
        LINE, lambda x, u: u.laplacian - 1e3 * u.value**2 - 1e3, kp.Gaussian(0.2)
    )
    solution = kp.solve(problem, {"equation": 30, "ends": 2}, solver=solver, throw=False)
    assert solution.result is result
    last = solution.history[-1]
    comparable = [r for r in solution.history if r.objective_index == last.objective_index]
    best = min(comparable, key=lambda record: record.objective)
    for name, rms in best.residuals.items():
        assert solution.residuals[name]["rms"] == pytest.approx(rms)
    # Full steps end without progress, damped steps creep towards a minimum.
    assert last.step - best.step == (12 if result is RESULTS.stalled else 1)


def test_derivatives_of_a_solution_are_consistent():
    example = elliptic(0.2)
    u = kp.solve(example.problem, {"equation": 400, "boundary": 100})["u"]
    points, h = np.random.default_rng(0).random((10, 2)) * 0.8 + 0.1, 1e-4
    shift = np.array([h, 0])
    along = (u(points + shift) - u(points - shift)) / (2 * h)
    np.testing.assert_allclose(u.d("x")(points), along, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(u.gradient(points)[:, 0], u.d(0)(points), rtol=1e-8)
    hessian = u.hessian(points)
    np.testing.assert_allclose(
        hessian[:, 0, 0] + hessian[:, 1, 1], u.laplacian(points), rtol=1e-6, atol=1e-6
    )


def test_evaluation_takes_any_shape_and_chunks_agree():
    example = elliptic(0.2)
    solution = kp.solve(example.problem, {"equation": 200, "boundary": 60})
    assert solution["u"](GRID).shape == GRID.shape[:-1]
    whole = solution["u"](GRID)
    term = solution.problem.residuals[1].terms
    chunked = solution.evaluate_jets(term, GRID, memory=100_000)[..., 0]
    np.testing.assert_allclose(chunked, whole, rtol=1e-9, atol=1e-9)
    with pytest.raises(kp.InputError, match="2 coordinates on the last axis; got shape"):
        solution["u"](np.zeros((4, 3)))


def test_residuals_elsewhere_and_representation():
    example = elliptic(0.2)
    solution = kp.solve(example.problem, example.points)
    fresh = np.random.default_rng(9).random((200, 2))
    assert rms(solution.residual("equation", fresh)) < 1e-2
    assert repr(solution).startswith("Solution: converged, error not estimated")
    assert len(repr(solution).splitlines()) <= 8
    for part in ("converged after", "equation    1800", "nugget 1.0e-12", "condition"):
        assert part in solution.report()


def test_points_of_a_condition_depend_on_seed_and_name_only():
    example = elliptic(0.2)
    one = example.problem.collocate({"equation": 50, "boundary": 20}, seed=1)
    other = example.problem.collocate({"equation": 50, "boundary": 30}, seed=1)
    third = example.problem.collocate({"equation": 50, "boundary": 20}, seed=2)
    np.testing.assert_array_equal(one[0].points, other[0].points)
    assert not np.array_equal(one[0].points, third[0].points)


def test_a_solution_is_a_place_to_begin():
    """From the solution at other points the same is reached in fewer steps."""
    problem, points = elliptic(0.2).problem, {"equation": 200, "boundary": 60}
    first = kp.solve(problem, points, seed=1)
    cold = kp.solve(problem, points)
    warm = kp.solve(problem, points, start=first)
    assert warm.num_steps < cold.num_steps
    x = np.random.default_rng(0).random((50, 2))
    # The row weights of both differ by at most a factor of 3, and so does the nugget's bias.
    np.testing.assert_allclose(warm["u"](x), cold["u"](x), atol=1e-5)


def test_an_entry_that_should_vanish_does_not_keep_an_iteration_from_its_end():
    """Scherk's surface has u_xy = 0: what is found of it is rounding, new with every step."""
    square = kp.Box(x=(-1, 1), y=(-1, 1))

    def exact(x):
        return jnp.log(jnp.cos(x[0]) / jnp.cos(x[1]))

    def film(x, u):
        ux, uy = u.gradient
        twist = 2 * ux * uy * u.d("x", "y")
        return (1 + uy**2) * u.d("x", "x") - twist + (1 + ux**2) * u.d("y", "y")

    problem = boundary_value(square, film, kp.Gaussian(0.6), exact=exact, names=("film", "wire"))
    where = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    for seed in range(2):
        solution = kp.solve(problem, {"film": 240, "wire": 120}, seed=seed)
        assert solution.converged
        assert solution.num_steps < 30
        errors = np.asarray(solution["u"](where) - jax.vmap(exact)(where))
        assert np.abs(errors).max() < 1e-4


FINE_GRID = np.stack(np.meshgrid(*[np.linspace(0, 1, 30)] * 2, indexing="ij"), axis=-1)


def errors(kernel, sizes):
    """-Δu + u³ = f with u = sin(2x + y) + cos(3y), at even points, largest error over a grid."""

    def exact(p, m=np):
        return m.sin(2 * p[..., 0] + p[..., 1]) + m.cos(3 * p[..., 1])

    def source(p):
        u = exact(p, jnp)
        return 5 * jnp.sin(2 * p[0] + p[1]) + 9 * jnp.cos(3 * p[1]) + u**3

    problem = boundary_value(
        SQUARE,
        lambda p, u: -u.laplacian + u.value**3 - source(p),
        kernel,
        edge=lambda p, u: u.value - exact(p, jnp),
    )
    found = []
    for n in sizes:
        solution = kp.solve(problem, {"equation": n * n, "boundary": 4 * n}, sampling="grid")
        found.append(float(np.sqrt(np.mean((solution["u"](FINE_GRID) - exact(FINE_GRID)) ** 2))))
    return np.array(found)


def test_matern_converges_at_its_algebraic_rate():
    """Matern-7/2 in 2-D spans H^(9/2). For a second-order equation the error in L2 falls like
    h^(2s-2-2) = h^5 at most (smooth solution) and h^(s-2) = h^2.5 at least; a wrong derivative
    gives no convergence at all."""
    sizes = np.array([8, 16, 32])
    found = errors(kp.Matern(3.5, 1.0), sizes)
    rates = -np.diff(np.log(found)) / np.diff(np.log(sizes))
    assert (rates > 2.5).all(), rates
    assert (rates < 6.0).all(), rates
    assert found[-1] < 1e-5


def test_gaussian_converges_faster_than_any_power():
    sizes = np.array([4, 6, 8])
    found = errors(kp.Gaussian(0.8), sizes)
    rates = -np.diff(np.log(found)) / np.diff(np.log(sizes))
    assert (rates > 6.0).all(), rates
    assert found[-1] < 1e-7


WHERE = np.linspace(0.01, 0.99, 200)[:, None]


def wave(x):
    return jnp.sin(7.0 * x[0])


def equation(x, u):
    return -u.d(0, 0) + u.value - 50.0 * wave(x)


def end(x, u):
    return u.value - wave(x)


def own_points(count: int = 60, kernel=None) -> kp.Problem:
    inside = np.random.default_rng(2).uniform(0.01, 0.99, (count, 1))
    return kp.Problem(
        kp.Condition("equation", inside, equation),
        kp.Condition("ends", [[0.0], [1.0]], end),
        fields=[kp.Field("u", kp.Gaussian(0.3) if kernel is None else kernel)],
    )


def error(solution, where=WHERE, exact=wave) -> float:
    found = np.asarray(solution["u"](where))
    return float(np.abs(found - np.asarray(jax.vmap(exact)(where))).max())


def test_learning_on_own_points_leaves_some_out():
    problem = own_points()
    learned = kp.learn(problem)
    assert learned.converged
    assert error(learned.solution) < 1e-6
    assert float(learned.kernels[0].lengthscale) > 0.1
    # All of them are used in the end, in the order in which they were given.
    np.testing.assert_array_equal(
        learned.solution.point_sets[0].points, problem.conditions[0].region.points
    )


def test_own_points_and_drawn_ones_in_one_problem():
    problem = own_points()
    mixed = problem.with_conditions(
        [problem.conditions[0], kp.Condition("ends", LINE.boundary, end)]
    )
    assert error(kp.learn(mixed, {"ends": 2}).solution) < 1e-6
    drawn = problem.with_conditions(
        [kp.Condition("equation", LINE.interior, equation), problem.conditions[1]]
    )
    assert error(kp.learn(drawn, {"equation": 40}).solution) < 1e-6


def test_few_own_points_are_left_out_one_by_one():
    few = own_points(8)
    with pytest.raises(kp.InputError, match=r"no points for validation.*KFold\(\)"):
        kp.learn(few, validation=kp.HeldOut())
    learned = kp.learn(few, throw=False)
    assert error(learned.solution) < 0.5
    with pytest.raises(kp.InputError, match="60 of its 60 points cannot be held out"):
        kp.learn(own_points(), validation=kp.HeldOut(points={"equation": 60}))


def heat(duration: float, length: float, size: float) -> tuple[kp.Problem, callable]:
    box = kp.Box(t=(0.0, duration), x=(0.0, length), time="t")
    rate = 0.2 * length**2 / duration

    def known(x):
        return size * jnp.exp(-x[0] / duration) * jnp.sin(2.0 * x[1] / length)

    def inside(x, u):
        forcing = (-1.0 + 0.2 * 4.0) * known(x) / duration
        return u.d("t") - rate * u.d("x", "x") - forcing

    problem = boundary_value(
        box,
        inside,
        kp.Gaussian([0.3 * duration, 0.3 * length]),
        exact=known,
        more=[kp.Condition("initial", box.initial, lambda x, u: u.value - known(x))],
    )
    return problem, known


def test_units_change_no_digit_that_matters():
    errors, codes = [], set()
    for duration, length, size in ((1.0, 1.0, 1.0), (1e6, 20.0, 1e-7), (1e-9, 1e9, 3e8)):
        problem, known = heat(duration, length, size)
        learned = kp.learn(problem, {"equation": 80, "ends": 30, "initial": 20})
        where = np.random.default_rng(0).random((200, 2)) * [duration, length]
        errors.append(error(learned.solution, where, known) / size)
        codes.add((learned.result, learned.solution.result))
    assert max(errors) < 1e-5
    assert max(errors) < 1.5 * min(errors) or max(errors) - min(errors) < 1e-8
    assert len(codes) == 1


def test_one_lengthscale_for_time_and_space_becomes_two_where_extents_are_not_alike():
    problem, known = heat(1e4, 1.0, 1.0)
    isotropic = problem.with_kernels([kp.Gaussian(0.3)])
    learned = kp.learn(isotropic, {"equation": 80, "ends": 30, "initial": 20})
    assert learned.kernels[0].lengthscale.shape == (2,)
    where = np.random.default_rng(0).random((200, 2)) * [1e4, 1.0]
    assert error(learned.solution, where, known) < 1e-5


@pytest.mark.parametrize("sizes", [(1.0, 1.0), (1e8, 1e-8)])
def test_fields_of_unlike_size_are_balanced(sizes):
    first, second = sizes

    def both(x, u, v):
        # u = s sin 3x, v = r cos 2x
        one = -u.d("x", "x") + first / second * v.value
        two = -v.d("x", "x") + second / first * u.value
        known, other = jnp.sin(3.0 * x[0]), jnp.cos(2.0 * x[0])
        return one - first * (9.0 * known + other), two - second * (4.0 * other + known)

    problem = boundary_value(
        LINE,
        both,
        kp.Gaussian(0.4),
        kp.Field("v", kp.Gaussian(0.4)),
        edge=lambda x, u, v: (
            u.value - first * jnp.sin(3.0 * x[0]),
            v.value - second * jnp.cos(2.0 * x[0]),
        ),
    )
    solution = kp.solve(problem, {"equation": 30, "ends": 2})
    for name, size, known in (("u", first, np.sin(3 * WHERE)), ("v", second, np.cos(2 * WHERE))):
        assert np.abs(np.asarray(solution[name](WHERE)) / size - known[:, 0]).max() < 1e-6


def on_line(kernel) -> kp.Problem:
    return boundary_value(LINE, equation, kernel, edge=end)


POINTS = {"equation": 30, "ends": 2}


def test_a_solution_that_holds_at_its_points_alone_is_not_converged():
    with pytest.raises(kp.SolveError, match=r"'equation'.*lengthscale is far below") as caught:
        kp.solve(on_line(kp.Gaussian(0.002)), POINTS)
    solution = caught.value.solution
    assert solution.result is kp.RESULTS.test_residual_too_large
    assert not solution.converged
    assert solution.test_residuals["equation"] > 0.3
    assert solution.test_residuals["ends"] is None
    (row,) = [line for line in solution.report().splitlines() if "  equation " in line]
    assert row.endswith("relative")


def test_residuals_between_points_are_those_at_other_points():
    problem = on_line(kp.Gaussian(0.15))
    solution = kp.solve(problem, POINTS)
    drawn = problem.collocate_condition("equation", 30, seed=2_000_003, sampling="halton")
    others = np.asarray(drawn.points)

    def size(values) -> float:
        return float(np.sqrt(np.mean(np.asarray(values) ** 2)))

    # The equation is made of -u'', u and 50 sin 7x.
    u = solution["u"]
    parts = size(u.d("x", "x")(others)) + size(u(others)) + size(50.0 * np.sin(7.0 * others))
    expected = size(solution.residual("equation", others)) / parts
    assert solution.test_residuals["equation"] == pytest.approx(expected, rel=1e-6)


def test_learning_returns_what_it_has_and_says_what_it_is_worth():
    """A step inside of the domain is no function of a smooth kernel."""

    def jump(x, u):
        return u.d("x") - 400.0 * jnp.exp(-(((x[0] - 0.5) / 0.0014) ** 2))

    problem = kp.Problem(
        kp.Condition("equation", LINE.interior, jump),
        kp.Condition("left", LINE["x=0"], lambda x, u: u.value),
        fields=[kp.Field("u", kp.Gaussian(0.3))],
    )
    learned = kp.learn(problem, {"equation": 40, "left": 1})
    assert not learned.solution.converged
    assert not learned.converged
    assert "not converged" in repr(learned)
    assert "learn the kernel" not in repr(learned)


def bowl(x):
    return x[0] ** 2 + 1.5 * x[1] ** 2


def monge_ampere() -> kp.Problem:
    return boundary_value(
        SQUARE,
        lambda x, u: u.d("x", "x") * u.d("y", "y") - u.d("x", "y") ** 2 - 6.0,
        kp.Gaussian(1.0),
        exact=bowl,
    )


def test_learning_begins_where_it_is_told_to():
    points = {"equation": 60, "boundary": 40}
    with pytest.raises(
        kp.InputError, match=r"derivatives of its residual.*Choose another initial guess"
    ):
        kp.solve(monge_ampere(), points)
    start = {"u": lambda x: 0.8 * bowl(x) + 0.1 * x[0]}
    learned = kp.learn(monge_ampere(), points, start=start)
    where = np.random.default_rng(0).random((100, 2))
    assert error(learned.solution, where, bowl) < 1e-5
    again = kp.solve(monge_ampere(), points, start=learned.solution, throw=False)
    assert error(again, where, bowl) < 1e-4


def test_a_residual_that_is_no_number_at_zero_is_told_where_to_begin():
    def singular(x, u):
        # u = 1 + x: -u'' + 1/u = 1 / (1 + x)
        return -u.d("x", "x") + 1.0 / u.value - 1.0 / (1.0 + x[0])

    problem = boundary_value(
        LINE, singular, kp.Gaussian(0.6), edge=lambda x, u: u.value - 1.0 - x[0]
    )
    with pytest.raises(kp.InputError, match=r"NaN or infinite at u = 0.*start="):
        kp.solve(problem, POINTS)
    solution = kp.solve(problem, POINTS, start={"u": lambda x: 1.5})
    assert error(solution, WHERE, lambda x: 1.0 + x[0]) < 1e-6


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"w": lambda x: 0.0}, "unknown field 'w'"),
        ({"u": 3.0}, "expected a function of a point for field 'u'"),
        ({"u": lambda x: jnp.sqrt(-1.0 - x[0])}, "NaN or infinite values"),
    ],
)
def test_starts_that_cannot_be_used_are_refused(start, message):
    with pytest.raises(kp.InputError, match=message):
        kp.solve(monge_ampere(), {"equation": 20, "boundary": 12}, start=start)


def test_the_final_solve_has_the_noise_that_was_learned():
    rng = np.random.default_rng(5)
    x = rng.uniform(0, 1, (80, 1))
    y = np.sin(5 * x[:, 0]) + 0.05 * rng.normal(size=80)
    problem = regression(x, y, kp.LearnedNoise(0.5), 1.0 * kp.Gaussian(0.3))
    learned = kp.learn(problem)
    noise = float(learned.problem.conditions[0].noise_std)
    assert noise == pytest.approx(0.05, rel=0.3)
    np.testing.assert_allclose(learned.solution.point_sets[0].noise, noise, rtol=1e-12)
    assert kp.posterior(learned.solution).loo_chi_squared["data"] == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize(("peclet", "seed"), [(150.0, 0), (150.0, 2), (250.0, 1), (300.0, 0)])
def test_lengthscales_that_rounding_does_not_allow_are_shortened(peclet, seed):
    # A boundary layer: learning, with a larger nugget than solving, ends with lengthscales with
    # which the equation is not met at its own points.
    def layer(x):
        return jnp.exp((x[0] - 1.0) * peclet)

    problem = boundary_value(
        LINE, lambda x, u: u.d(0) - u.d(0, 0) / peclet, kp.Gaussian(0.1), exact=layer
    )
    points = {"equation": 150, "ends": 2}
    learned = kp.learn(problem, points, sampling="uniform", seed=seed)
    where = np.linspace(0.0, 1.0, 500)[:, None]
    exact = np.asarray(jax.vmap(layer)(where))
    error = np.asarray(learned.solution["u"](where)) - exact
    relative = np.sqrt(np.mean(error**2) / np.mean(exact**2))
    # Residuals between points may be small where errors are not: the estimated error tells.
    assert relative < 0.1 or (peclet > 200 and not learned.converged)
    assert learned.problem.prior == learned.solution.problem.prior


@pytest.mark.parametrize("ends", [(1.0, 2.0), (3.0, 3.0), (-2e-5, 1e-5)])
def test_a_solution_without_curvature_is_met(ends):
    # Of -u'' = 0 there is nothing but rounding to compare the residual to.
    line = kp.Box(x=(0, 2))
    problem = kp.Problem(
        kp.Condition("equation", line.interior, lambda x, u: -u.laplacian),
        observed(np.array([[0.0], [2.0]]), ends, name="ends"),
        fields=[kp.Field("u", kp.Gaussian(0.6))],
    )
    solution = kp.solve(problem, {"equation": 20})
    x = np.linspace(0, 2, 21)[:, None]
    expected = ends[0] + (ends[1] - ends[0]) * x[:, 0] / 2
    np.testing.assert_allclose(
        np.asarray(solution["u"](x)), expected, atol=1e-5 * np.abs(ends).max()
    )


def test_what_is_named_like_data_has_a_value_by_default_and_gets_the_data():
    line = kp.Box(x=(0, 1))
    problem = kp.Problem(
        kp.Condition("equation", line.interior, lambda x, u, k=2.0: -k * u.laplacian - 2.0),
        kp.Condition(
            "ends",
            np.array([[0.0], [1.0]]),
            lambda x, u, y=5.0, *, z=7.0: u.value - y - z,
            data={"y": [1.0, 0.0], "z": [0.0, 1.0]},
        ),
        fields=[kp.Field("u", kp.Gaussian(0.4))],
    )
    solution = kp.solve(problem, {"equation": 20})
    # u = 1 + x (1 - x) / 2.
    np.testing.assert_allclose(np.asarray(solution["u"](np.array([[0.5]]))), [1.125], atol=1e-6)


def test_points_of_ones_own_are_looked_at_between():
    """A kernel too narrow for its points meets the equation at them and nowhere else."""
    bad = kp.solve(own_points(60, kp.Gaussian(0.004)), throw=False)
    assert bad.result is kp.RESULTS.test_residual_too_large
    assert error(bad) > 0.1
    assert bad.test_residuals["equation"] > 0.3
    good = kp.solve(own_points(60, kp.Gaussian(0.3)))
    assert error(good) < 1e-6
    assert good.test_residuals["equation"] < 1e-4


def test_places_between_points_of_a_grid_are_none_of_them():
    """Halfway along a side of a cell, or in its middle."""
    along = np.arange(9) / 8
    points = np.stack(np.meshgrid(along, 3 * along, indexing="ij"), axis=-1).reshape(-1, 2)
    problem = kp.Problem(
        kp.Condition("equation", points, lambda x, u: u.laplacian + 2.0),
        fields=[kp.Field("u", kp.Gaussian(1.0))],
    )
    block = midpoints(problem.residuals[0], problem.collocate()[0])
    cells = 8 * np.asarray(block.points) / [1, 3]
    nearest = np.sort(np.abs(cells - np.round(cells)), axis=1)
    assert len(cells) > 60
    np.testing.assert_allclose(nearest[:, 1], 0.5)
    assert set(nearest[:, 0].round(9)) <= {0.0, 0.5}


def test_the_report_says_where_there_are_no_test_points():
    data = np.ones((60, 1))[:, 0]
    inside = np.random.default_rng(2).uniform(0.01, 0.99, (60, 1))
    problem = kp.Problem(
        kp.Condition(
            "equation", inside, lambda x, u, f: -u.d(0, 0) + u.value - f, data={"f": data}
        ),
        kp.Condition("ends", [[0.0], [1.0]], lambda x, u: u.value),
        fields=[kp.Field("u", kp.Gaussian(0.3))],
    )
    solution = kp.solve(problem)
    assert solution.test_residuals["equation"] is None
    (row,) = [line for line in solution.report().splitlines() if "  equation " in line]
    assert row.endswith("not available")


@pytest.mark.parametrize(
    ("solver", "lengthscale"),
    [
        (kp.Dense(), 0.003),
        (kp.Dense(), 0.3),
        # Short lengthscales are refused by it before there is a solution.
        (kp.LowRank(), 0.3),
        (kp.Sparse(), 0.003),
        (kp.Sparse(), 0.3),
    ],
)
def test_points_of_ones_own_on_a_circle_and_with_every_solver(solver, lengthscale):
    """Good and bad kernels are told apart, for a complex field on a circle."""
    circle = kp.Box(x=(0.0, 1.0), periodic="x")
    inside = np.random.default_rng(4).uniform(0.0, 1.0, (60, 1))
    kernel = (
        kp.Matern(4.5, lengthscale) if isinstance(solver, kp.Sparse) else kp.Gaussian(lengthscale)
    )

    def turning(x, u):
        return -u.d("x", "x") + u.value - (1 + 4 * jnp.pi**2) * jnp.exp(2j * jnp.pi * x[0])

    problem = kp.Problem(
        kp.Condition("equation", kp.PointCloud(inside), turning),
        kp.Condition("somewhere", circle.interior, turning),
        fields=[kp.ComplexField("u", kernel)],
    )
    solution = kp.solve(problem, {"somewhere": 1}, linear_solver=solver, throw=False)
    assert (solution.test_residuals["equation"] < 0.05) == (lengthscale > 0.1)
    if lengthscale < 0.1:
        assert not solution.converged
